// SPDX-License-Identifier: Apache-2.0
// Judges the updates of Muon's matrices. Products of matrices have no recipe, and Newton-Schulz multiplies differences
// in small singular values by hundreds; so the update, without the learning rate and the decay, is compared as a whole
// with Newton-Schulz in double of the answer's own momentum and of the right gradient. In bf16 PyTorch's is at most 5 %
// off in the suite's matrices; slices, another momentum, a step more or less and the plain momentum are 20 % off or
// more. Bits are compared between answers alone (judge_twins.c).
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double LIMIT = 0.1;  // of the distance, by the norm of all elements

// A matrix in one step.
struct matrix {
    const struct check_case *c;
    const struct case_group *group;
    size_t rows, columns, count;
    bool is_unchanged;                     // the parameter
    double *before, *gradient, *momentum;  // the parameter; clipped; interpolated
    double *direction, *expected, *guess;  // before Newton-Schulz, after it; scratch
    double *actual;                        // the update that was made
};

static double norm_of(const double *a, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * a[i];
    return sqrt(sum);
}

// The distance of factor x b from a, relative to it.
static double distance(const double *a, const double *b, double factor, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (a[i] - factor * b[i]) * (a[i] - factor * b[i]);
    return sqrt(sum) / norm_of(a, count);
}

// The factor that brings b nearest to a.
static double factor_between(const double *a, const double *b, size_t count)
{
    double product = 0, square = norm_of(b, count);
    for (size_t i = 0; i < count; i++)
        product += a[i] * b[i];
    return square > 0 ? product / (square * square) : 0;
}

// True if the update is this direction's, orthogonalised in `parts` parts, of rows one behind the other.
static bool is_of(struct matrix *m, const double *direction, size_t parts)
{
    size_t rows = m->rows / parts, part = rows * m->columns;
    if (m->rows % parts != 0)
        return false;
    for (size_t i = 0; i < parts; i++)
        if (muon_orthogonalise(direction + i * part, rows, m->columns, m->group->ns_steps, m->guess + i * part) != 0)
            return false;
    double factor = factor_between(m->actual, m->guess, m->count);
    return factor > 0 && distance(m->actual, m->guess, factor, m->count) <= LIMIT;
}

static bool is_along(const struct matrix *m, const double *direction)
{
    double factor = factor_between(m->actual, direction, m->count);
    return factor > 0 && distance(m->actual, direction, factor, m->count) <= LIMIT;
}

// Names the update that it is instead.
static enum hint explain(struct matrix *m, char *out, size_t room)
{
    double factor = factor_between(m->actual, m->expected, m->count);
    if (m->is_unchanged || norm_of(m->actual, m->count) == 0)
        return snprintf(out, room, "the matrix is not updated"), HINT_NOT_UPDATED;
    if (factor > 0 && distance(m->actual, m->expected, factor, m->count) <= LIMIT)
        return snprintf(out, room, "it is %.3g times the right one: check the rate, its adjustment and the decay",
                        factor),
               HINT_LR;
    for (size_t i = 0; i < m->count; i++)
        m->guess[i] = m->actual[i] - m->expected[i];
    factor = factor_between(m->guess, m->before, m->count);
    if (distance(m->guess, m->before, factor, m->count) <= LIMIT)
        return snprintf(out, room, "it is off by %.3g times the parameter: check the decay", -factor), HINT_DECAY;
    if (is_along(m, m->direction) || is_along(m, m->momentum) || is_along(m, m->gradient))
        return snprintf(out, room, "it is the momentum or the gradient itself, not orthogonal"), HINT_ORTHOGONAL;
    for (size_t parts = 2; parts <= m->rows; parts++)
        if (is_of(m, m->direction, parts))
            return snprintf(out, room, "it is orthogonal in %zu slices, each by itself", parts), HINT_ORTHOGONAL;
    if (is_of(m, m->group->nesterov ? m->momentum : m->gradient, 1))
        return snprintf(out, room, "it is of %s",
                        m->group->nesterov ? "the momentum without Nesterov's step"
                                           : "the gradient without the momentum"),
               HINT_MOMENTS;
    if (is_of(m, m->gradient, 1))
        return snprintf(out, room, "it is of the gradient without the momentum"), HINT_MOMENTS;
    return snprintf(out, room, "it is of no matrix that is known here"), HINT_ORTHOGONAL;
}

// The first element that is furthest off.
static size_t worst_of(const struct matrix *m)
{
    size_t worst = 0;
    for (size_t i = 1; i < m->count; i++)
        if (fabs(m->actual[i] - m->expected[i]) > fabs(m->actual[worst] - m->expected[worst]))
            worst = i;
    return worst;
}

// All matrices and steps that the judge saw.
struct seen_updates {
    struct muon_range range;
    double distance;
    size_t count;
};

static int compare(struct matrix *m, int step, int param, struct seen_updates *seen, struct finding *out)
{
    struct muon_range range;
    TRY(muon_orthogonalise(m->direction, m->rows, m->columns, m->group->ns_steps, m->expected));
    if (!(norm_of(m->expected, m->count) > 0))
        return ERR_NONE;
    TRY(muon_singular_values(m->actual, m->rows, m->columns, &range));
    double far = distance(m->expected, m->actual, 1, m->count);
    seen->range.least = fmin(seen->range.least, range.least);
    seen->range.most = fmax(seen->range.most, range.most);
    seen->distance = fmax(seen->distance, far);
    seen->count++;
    if (far <= LIMIT)
        return ERR_NONE;
    char what[192];
    size_t worst = worst_of(m);
    out->verdict = VERDICT_FAIL;
    out->hint = explain(m, what, sizeof what);
    out->has_difference = true;
    out->difference = difference_at(step, "update", param, worst, (float)m->expected[worst], (float)m->actual[worst]);
    out->difference.roundings = NAN;
    out->difference.differing_count = out->difference.compared_count = m->count;
    snprintf(out->text, sizeof out->text,
             "the update of %s is %.0f %% off Newton-Schulz of its momentum, at most %.0f %% expected, with singular "
             "values from %.3g to %.3g: %s",
             m->c->params[param].name, fmin(far, 999) * 100, LIMIT * 100, range.least, range.most, what);
    return ERR_NONE;
}

// Fills in a matrix from the states around a step, whose mean gradient is in trial->gradient.
static void fill(const struct trial *trial, const struct rule *rule, int step, int param, struct matrix *m)
{
    const struct case_group *group = m->group;
    int applies = trial->decisions[step - 1].applies;
    double beta = group->beta1, lr = group->lr[applies - 1], rate = lr * muon_rate(group, m->rows, m->columns);
    double size = muon_momentum_is_sum(rule->momentum) ? 1 - beta : 1;
    m->is_unchanged = true;
    double norm = unsharded_norm(trial->c, (const float *const *)trial->gradient);
    double coefficient = (double)unsharded_coefficient(trial->c, rule, norm);
    for (size_t i = 0; i < m->count; i++) {
        double before = (double)trial->before.param[param][i], after = (double)trial->after.param[param][i];
        m->before[i] = before;
        m->is_unchanged &= before == after;
        m->gradient[i] = coefficient * (double)trial->gradient[param][i];
        m->momentum[i] = size * (double)trial->after.exp_avg[param][i];
        m->direction[i] = group->nesterov ? (1 - beta) * m->gradient[i] + beta * m->momentum[i] : m->momentum[i];
        m->actual[i] = (before * (1 - lr * group->weight_decay) - after) / rate;
    }
}

static int look_at(struct trial *trial, const struct rule *rule, int step, int param, struct seen_updates *seen,
                   struct finding *out)
{
    const struct check_case *c = trial->c;
    const struct case_param *p = &c->params[param];
    struct matrix m = {
        .c = c, .group = &c->groups[p->group], .rows = p->shape[0], .columns = p->shape[1], .count = p->count};
    double **const arrays[] = {&m.before, &m.gradient, &m.momentum, &m.direction, &m.expected, &m.guess, &m.actual};
    enum { ARRAYS = sizeof arrays / sizeof *arrays };
    double *memory = calloc(ARRAYS * p->count + 1, sizeof *memory);
    if (!memory)
        return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    for (size_t i = 0; i < ARRAYS; i++)
        *arrays[i] = memory + i * p->count;
    fill(trial, rule, step, param, &m);
    int rc = compare(&m, step, param, seen, out);
    free(memory);
    return rc;
}

int judge_update(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    const struct rule_set *explained = trial->explained;
    struct rule rule = explained->count ? explained->rules[0] : rule_canonical(c);
    struct unsharded_choice choice = unsharded_choice_at(c, &rule, 0);
    struct seen_updates seen = {.range = {INFINITY, 0}};
    out->verdict = VERDICT_PASS;
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        int applies = trial->decisions[step - 1].applies;
        TRY(trial_step(trial, step));
        if (applies == 0)
            continue;
        TRY(trial_gradient(trial, &rule, &choice, applies));
        for (int i = 0; i < c->param_count && !out->has_difference; i++)
            if (case_is_muon(c, i) && case_has_gradient_in(c, i, applies) &&
                c->groups[c->params[i].group].lr[applies - 1] > 0)
                TRY(look_at(trial, &rule, step, i, &seen, out));
        if (out->has_difference)
            return ERR_NONE;
    }
    if (seen.count > 0)
        snprintf(out->text, sizeof out->text,
                 "singular values of updates from %.2f to %.2f, at most %.1f %% off Newton-Schulz in double",
                 seen.range.least, seen.range.most, seen.distance * 100);
    return ERR_NONE;
}
