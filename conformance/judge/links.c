// SPDX-License-Identifier: Apache-2.0
// The relations of an update: moments from the gradient, the parameter from the moments.
#include "conformance/judge/links_internal.h"

#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MARGINAL_FACTOR = 4 };
static const double FLUSHED = 0x1p-126;

const char *link_name(enum link link)
{
    static const char *const names[LINK_COUNT] = {"gradient", "exp_avg", "exp_avg_sq", "param"};
    return names[link];
}

enum link_class link_class_of(enum link link, const struct link_worst *worst)
{
    if (!worst->was_checked || worst->roundings <= worst->limit)
        return LINK_WITHIN;
    return link != LINK_GRADIENT && worst->roundings <= MARGINAL_FACTOR * worst->limit ? LINK_MARGINAL : LINK_BROKEN;
}

enum link_class links_class(const struct link_result *result)
{
    enum link_class class = LINK_WITHIN;
    for (enum link link = 0; link < LINK_COUNT; link++) {
        enum link_class one = link_class_of(link, &result->worst[link]);
        class = one > class ? one : class;
    }
    return class;
}

// One update of one parameter, in double.
struct update {
    const struct check_case *c;
    const struct case_group *group;
    const struct link_step *in;
    uint64_t t, own_t;  // own: without the updates that left the parameter alone
    double lr, coefficient;
    int param;
    struct exact_gradient exact;   // of the applied step, where the answer has no gradient of its own
    double relative_slack, slack;  // of it
};

// The gradient that enters the moments, before decay, and how far it may be off.
static double gradient_of(const struct update *u, size_t k, double *slack)
{
    *slack = 0;
    if (!case_has_gradient(u->c, u->param))
        return 0;
    if (u->in->applied_grad && u->in->applied_grad[u->param])
        return u->coefficient * (double)u->in->applied_grad[u->param][k];
    *slack = u->coefficient * (u->relative_slack * u->exact.magnitude[u->param][k] + u->slack);
    return u->coefficient * u->exact.value[u->param][k];
}

// A hyper-parameter as given, or as an implementation has it that rounds it to fp32 first.
static double given(double x, bool rounds)
{
    return rounds ? (double)(float)x : x;
}

// Keeps the nearer of two expectations of one value.
static void consider(double *least, double expected, double actual, double magnitude, double slack)
{
    *least = fmin(*least, link_roundings(expected, actual, magnitude, slack));
}

static void check_moments(const struct update *u, size_t k, struct link_result *out)
{
    double p = (double)u->in->before->param[u->param][k];
    double m = (double)u->in->before->exp_avg[u->param][k], v = (double)u->in->before->exp_avg_sq[u->param][k];
    double new_m = (double)u->in->after->exp_avg[u->param][k], new_v = (double)u->in->after->exp_avg_sq[u->param][k];
    double best_m = INFINITY, best_v = INFINITY;
    double off, g = gradient_of(u, k, &off);
    for (int rounds = 0; rounds < 2; rounds++) {
        double beta1 = given(u->group->beta1, rounds), beta2 = given(u->group->beta2, rounds);
        double decay = u->group->decoupled ? 0 : given(u->group->weight_decay, rounds) * p;
        double size = fabs(g) + fabs(decay);
        consider(&best_m, beta1 * m + (1 - beta1) * (g + decay), new_m, beta1 * fabs(m) + (1 - beta1) * size,
                 (1 - beta1) * off + FLUSHED);
        consider(&best_v, beta2 * v + (1 - beta2) * (g + decay) * (g + decay), new_v,
                 beta2 * fabs(v) + (1 - beta2) * size * size, (1 - beta2) * (2 * size + off) * off + FLUSHED);
    }
    link_note(&out->worst[LINK_EXP_AVG], best_m, u->param, k);
    link_note(&out->worst[LINK_EXP_AVG_SQ], best_v, u->param, k);
}

// Missing moments count as zero: an answer may leave out those of an unused parameter.
static double element_of(const float *array, size_t k)
{
    return array ? (double)array[k] : 0;
}

static void check_parameter(const struct update *u, size_t k, struct link_result *out)
{
    double p = (double)u->in->before->param[u->param][k], new_p = (double)u->in->after->param[u->param][k];
    double m = element_of(u->in->after->exp_avg[u->param], k), v = element_of(u->in->after->exp_avg_sq[u->param], k);
    double best = INFINITY;
    bool may_own = u->in->may_leave_unused && u->own_t != u->t;
    for (int kind = 0; kind < (may_own ? 4 : 2); kind++) {
        bool rounds = kind % 2 == 1;
        double t = (double)(kind < 2 ? u->t : u->own_t);
        double lr = given(u->lr, rounds), eps = given(u->group->eps, rounds);
        double decay = u->group->decoupled ? lr * given(u->group->weight_decay, rounds) * p : 0;
        double bias1 = 1, bias2 = 1, lost = 1;
        if (u->group->bias_correction) {
            double power1 = pow(given(u->group->beta1, rounds), t);
            double power2 = pow(given(u->group->beta2, rounds), t);
            bias1 = 1 - power1;
            bias2 = 1 - power2;
            lost += (1 + power1) / bias1 + (1 + power2) / bias2 / 2;
        }
        double step = lr * (m / bias1) / (sqrt(v / bias2) + eps);
        consider(&best, p - decay - step, new_p, fabs(p) + fabs(decay) + fabs(step) * lost, FLUSHED);
    }
    link_note(&out->worst[LINK_PARAM], best, u->param, k);
}

// A matrix's momentum, interpolated or summed.
static void check_momentum(const struct update *u, size_t k, struct link_result *out)
{
    double m = (double)u->in->before->exp_avg[u->param][k], new_m = (double)u->in->after->exp_avg[u->param][k];
    double best = INFINITY, beta = u->group->beta1, off, g = gradient_of(u, k, &off);
    consider(&best, beta * m + (1 - beta) * g, new_m, beta * fabs(m) + (1 - beta) * fabs(g),
             (1 - beta) * off + FLUSHED);
    consider(&best, beta * m + g, new_m, beta * fabs(m) + fabs(g), off + FLUSHED);
    link_note(&out->worst[LINK_EXP_AVG], best, u->param, k);
}

static void check_kept(const struct link_step *in, int param, size_t count, struct link_result *out)
{
    const float *const before[] = {in->before->exp_avg[param], in->before->exp_avg_sq[param], in->before->param[param]};
    const float *const after[] = {in->after->exp_avg[param], in->after->exp_avg_sq[param], in->after->param[param]};
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; before[i] && after[i] && k < count; k++) {
            bool same = before[i][k] == after[i][k] || (isnan(before[i][k]) && isnan(after[i][k]));
            link_note(&out->worst[LINK_EXP_AVG + i], same ? 0 : INFINITY, param, k);
        }
}

static void check_moved(struct update *u, int param, struct link_result *out)
{
    u->param = param;
    u->own_t = u->t - unsharded_missed(u->c, u->in->decisions, u->in->step, param);
    u->group = &u->c->groups[u->c->params[param].group];
    u->lr = u->group->lr[u->in->decisions[u->in->step - 1].applies - 1];
    bool has_moments = u->in->before->exp_avg[param] && u->in->after->exp_avg[param] &&
                       u->in->before->exp_avg_sq[param] && u->in->after->exp_avg_sq[param];
    for (size_t k = 0; k < u->c->params[param].count; k++) {
        if (u->group->muon) {
            check_momentum(u, k, out);
            continue;
        }
        if (has_moments)
            check_moments(u, k, out);
        check_parameter(u, k, out);
    }
}

static void set_limits(const struct update *u, struct link_result *out)
{
    bool clips = u->coefficient < 1;
    out->worst[LINK_EXP_AVG].limit = clips ? 12 : 4;
    out->worst[LINK_EXP_AVG_SQ].limit = clips ? 22 : 6;
    out->worst[LINK_PARAM].limit = 16;
}

static double worst_ratio(const struct link_result *result)
{
    double worst = 0;
    for (enum link link = LINK_EXP_AVG; link < LINK_COUNT; link++)
        worst = fmax(worst, result->worst[link].roundings / result->worst[link].limit);
    return worst;
}

// A parameter without a gradient, where it may be kept or given one of zero: the nearer of the two.
static void check_unused(struct update *u, int param, struct link_result *out)
{
    struct link_result kept = *out, moved = *out;
    check_kept(u->in, param, u->c->params[param].count, &kept);
    check_moved(u, param, &moved);
    bool keeps = u->in->may_leave_unused && (!u->in->may_decay_unused || worst_ratio(&kept) <= worst_ratio(&moved));
    *out = keeps ? kept : moved;
}

static void check_update(struct update *u, struct link_result *out)
{
    const struct check_case *c = u->c;
    set_limits(u, out);
    bool applies = u->in->decisions[u->in->step - 1].applies > 0;
    for (int i = 0; i < c->param_count; i++) {
        if (case_owner(c, i) != i)
            continue;
        if (!applies || !case_is_trained(c, i))
            check_kept(u->in, i, c->params[i].count, out);
        else if (!case_has_gradient_in(c, i, u->in->decisions[u->in->step - 1].applies))
            check_unused(u, i, out);
        else
            check_moved(u, i, out);
    }
}

// The gradient of this step itself.
static int check_own(const struct check_case *c, const struct case_values *values, const struct link_step *in,
                     struct link_result *out)
{
    const struct unsharded_decision *d = &in->decisions[in->step - 1];
    struct exact_gradient exact;
    if (d->skipped || !in->grad)
        return ERR_NONE;
    TRY(exact_gradient_open(c, values, in->step, d->scale, &exact));
    links_gradient(c, &exact, d->scale, in->grad, &out->worst[LINK_GRADIENT]);
    exact_gradient_close(&exact);
    return ERR_NONE;
}

int links_check(const struct check_case *c, const struct case_values *values, const struct link_step *in,
                struct link_result *out)
{
    assert(in->step >= case_first_step(c) && in->step <= case_last_step(c));
    assert(in->before && in->after && in->decisions);
    memset(out, 0, sizeof *out);
    TRY(check_own(c, values, in, out));
    const struct unsharded_decision *d = &in->decisions[in->step - 1];
    struct update u = {.c = c, .in = in, .t = d->t, .coefficient = 1};
    if (d->applies > 0) {
        double scale = in->decisions[d->applies - 1].scale;
        if (!in->applied_grad)
            TRY(exact_gradient_open(c, values, d->applies, scale, &u.exact));
        u.relative_slack = links_gradient_limit(c) * 0x1p-24;
        u.slack = links_gradient_floor(c, scale);
        double norm = links_norm_of(c, &u.exact, in->applied_grad) + 1e-6;
        if (c->gradient_clipping > 0 && norm > c->gradient_clipping)
            u.coefficient = c->gradient_clipping / norm;
    }
    check_update(&u, out);
    exact_gradient_close(&u.exact);
    return ERR_NONE;
}
