// SPDX-License-Identifier: Apache-2.0
// The finding on the states of an answer, from the search of the rules that explain them.
#include "conformance/judge/judge_search.h"

#include "base/err.h"
#include "conformance/judge/judge_internal.h"
#include "conformance/judge/links.h"
#include "conformance/cases/case_mesh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- by relations, where no rule explains an answer ---

// The ratio of the worst error to its limit, which may be 0.
static double excess_of(const struct link_worst *worst)
{
    return worst->limit > 0 ? worst->roundings / worst->limit : worst->roundings > 0 ? INFINITY : 0;
}

// Keeps the worse of two steps for each relation.
static void keep_worst(struct link_result *all, const struct link_result *step)
{
    for (int link = 0; link < LINK_COUNT; link++) {
        const struct link_worst *now = &step->worst[link];
        struct link_worst *worst = &all->worst[link];
        if (now->was_checked && (!worst->was_checked || excess_of(now) > excess_of(worst)))
            *worst = *now;
    }
}

// The worst of each relation that has been checked, against its limit.
static void print_links(const struct trial *trial, const struct link_result *result, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "errors in roundings, with limits: "), begin = used;
    for (int link = 0; link < LINK_COUNT && used < bytes; link++) {
        const struct link_worst *worst = &result->worst[link];
        if (!worst->was_checked)
            continue;
        used += (size_t)snprintf(out + used, bytes - used, "%s%s %.3g (%.3g)", used > begin ? "; " : "",
                                 link_name((enum link)link), worst->roundings, worst->limit);
        if (link_class_of((enum link)link, worst) == LINK_BROKEN && used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, " at %s, element %zu",
                                     trial->c->params[worst->param].name, worst->element);
    }
}

static bool is_broken(const struct link_result *result, enum link link)
{
    return result->worst[link].was_checked && link_class_of(link, &result->worst[link]) == LINK_BROKEN;
}

// A hint that blames the arithmetic of the whole step gives way to what the relations show: a gradient that is wrong in
// both moments, while the parameter follows from them; or nothing that follows from anything.
static enum hint hint_of_links(const struct link_result *result, enum hint hint)
{
    bool gradient = result->worst[LINK_GRADIENT].was_checked
                        ? is_broken(result, LINK_GRADIENT)
                        : is_broken(result, LINK_EXP_AVG) && is_broken(result, LINK_EXP_AVG_SQ);
    bool vague = hint == HINT_OTHER || hint == HINT_OVERWRITTEN;
    if (!vague || !gradient)
        return hint;
    if (!is_broken(result, LINK_PARAM))
        return HINT_GRADIENT;
    return is_broken(result, LINK_EXP_AVG) && is_broken(result, LINK_EXP_AVG_SQ) ? HINT_OVERWRITTEN : hint;
}

// For an answer that follows no rule: checks every relation of every step against its limit. Sets the verdict to
// BOUNDED or FAIL, and adds the worst of each relation to the text.
static int judge_by_links(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct link_result all = {0};
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        TRY(trial_step(trial, step));
        bool speaks = trial->step.has_grad && !trial->decisions[step - 1].skipped;
        const float *const *grad = speaks ? (const float *const *)trial->step.grad : NULL;
        const struct link_step link = {
            .step = step,
            .decisions = trial->decisions,
            .before = &trial->before,
            .after = &trial->after,
            .grad = grad,
            .applied_grad = trial->decisions[step - 1].applies == step ? grad : NULL,
            .may_leave_unused = trial->options->unused != 1,
            .may_decay_unused = trial->options->unused != 0,
        };
        struct link_result one = {0};
        TRY(links_check(c, trial->values, &link, &one));
        keep_worst(&all, &one);
    }
    out->verdict = links_class(&all) == LINK_BROKEN ? VERDICT_FAIL : VERDICT_BOUNDED;
    out->hint = hint_of_links(&all, out->hint);
    size_t used = strlen(out->text);
    print_links(trial, &all, out->text + used, sizeof out->text - used);
    return ERR_NONE;
}

// --- by rules ---

static int describe_failure(struct search *search, struct finding *out)
{
    struct trial *trial = search->trial;
    TRY(search_nearest(search));
    out->has_difference = true;
    out->difference = search->difference;
    char rule[256], detail[DIAGNOSE_DETAIL_BYTES];
    out->hint = diagnose_state(trial, &search->best, &search->difference, detail);
    snprintf(out->text, sizeof out->text, "%snearest rule: %s; ", detail, rule_text(&search->best, rule, sizeof rule));
    return ERR_NONE;
}

// An answer that no rule of the claimed form of clipping explains: if one of the other form does, the claim is wrong.
// Otherwise the search ends as it did.
static int search_other_clip(struct search *search, struct finding *out)
{
    char rule[256];
    search->any_clip = true;
    TRY(search_steps(search, out));
    search->any_clip = !search->failed && !search->frozen_changed && search->alive.count > 0;
    if (!search->any_clip)
        return search_steps(search, out);
    out->verdict = VERDICT_FAIL;
    out->hint = HINT_CLIP;
    snprintf(out->text, sizeof out->text, "clip_form is claimed to be %s, but every bit follows %s",
             search->trial->options->clip ? "deepspeed" : "torch",
             rule_text(&search->alive.rules[0], rule, sizeof rule));
    return ERR_NONE;
}

// An answer that no recipe with the claimed moments explains: whether one in blocks of 8 bits does. Otherwise the
// search ends as it did.
static int search_short_moments(struct search *search, struct finding *out)
{
    search->short_moments = true;
    TRY(search_steps(search, out));
    search->short_moments = !search->failed && !search->frozen_changed;
    return search->short_moments ? ERR_NONE : search_steps(search, out);
}

// True if a dtype has all numbers of some tensors of the current step.
static bool holds(const struct trial *trial, enum dtype dtype, float *const tensors[])
{
    for (int param = 0; dtype != DTYPE_FP32 && param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++)
            if (!value_same(unsharded_round(dtype, tensors[param][i]), tensors[param][i]))
                return false;
    return true;
}

// An answer that no rule with the claimed states explains: if one does with others that have the answer's numbers, the
// claim is wrong. Otherwise the search ends as it did.
static int search_other_states(struct search *search, struct finding *out)
{
    struct trial *trial = search->trial;
    const struct rule_states claimed = search->states;
    const struct unsharded_state *held = &trial->after;
    const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32}, masters[] = {trial->c->precision, DTYPE_FP32};
    bool searched = false;
    for (int i = 0; i < 6 && !search->other_states; i++) {
        search->states = (struct rule_states){.moments = dtypes[i % 3], .master = masters[i / 3]};
        if ((search->states.moments == claimed.moments && search->states.master == claimed.master) ||
            !holds(trial, search->states.moments, held->exp_avg) ||
            !holds(trial, search->states.moments, held->exp_avg_sq) ||
            !holds(trial, search->states.master, held->param))
            continue;
        searched = true;
        TRY(search_steps(search, out));
        search->other_states = !search->failed && !search->frozen_changed && search->alive.count > 0;
    }
    if (!search->other_states) {
        search->states = claimed;
        return searched ? search_steps(search, out) : ERR_NONE;
    }
    char rule[256];
    out->verdict = VERDICT_FAIL;
    out->hint = search->states.moments != claimed.moments ? HINT_MOMENTS : HINT_MASTER;
    snprintf(out->text, sizeof out->text, "the claims say moments in %s and master in %s, but every bit follows %s",
             dtype_name(claimed.moments), dtype_name(claimed.master),
             rule_text(&search->alive.rules[0], rule, sizeof rule));
    return ERR_NONE;
}

static int describe(struct search *search, struct finding *out)
{
    struct trial *trial = search->trial;
    const struct check_case *c = trial->c;
    if (search->any_clip || search->other_states)
        return ERR_NONE;
    if (search->frozen_changed) {
        out->verdict = VERDICT_FAIL;
        out->has_difference = true;
        out->hint = trial->saved && search->step == case_first_step(c) ? HINT_RESUME : HINT_DECAY;
        snprintf(out->text, sizeof out->text, "a frozen parameter changed");
        return ERR_NONE;
    }
    if (search->failed) {
        TRY(describe_failure(search, out));
        // A rounding to 16 bits is larger than what relations tell apart, so that short states are judged by rules.
        bool is_short = rule_states_are_short(&search->states);
        if (trial->decisions[search->step - 1].applies > 0 && !is_short)
            return judge_by_links(trial, out);
        out->verdict = VERDICT_FAIL;
        if (trial->decisions[search->step - 1].applies > 0)
            return ERR_NONE;
        snprintf(out->text, sizeof out->text, "the state changed in a step that applies no gradient");
        return ERR_NONE;
    }
    struct rule canonical = rule_canonical(c);
    const struct rule *first = search->alive.count > 0 ? &search->alive.rules[0] : &canonical;
    bool is_canonical = rule_same_gradient(first, &canonical) && first->recipe == canonical.recipe &&
                        first->clip == canonical.clip && first->momentum == canonical.momentum && !search->own_norm &&
                        !first->states.rounds_gradient;
    out->verdict = !search->updated || is_canonical ? VERDICT_PASS : VERDICT_EQUIVALENT;
    if (search->updated)
        rule_text(first, out->text, sizeof out->text);
    size_t used = strlen(out->text);
    if (search->updated && case_options(c) >> OPTION_MUON & 1)
        used +=
            (size_t)snprintf(out->text + used, sizeof out->text - used, ", %s", muon_momentum_text(first->momentum));
    if (search->own_norm)
        snprintf(out->text + used, sizeof out->text - used, ", clipped by a norm of other roundings");
    return ERR_NONE;
}

// Few elements tell nearly every rule from another: those that differ in none of them are compared in all.
static void take_head(struct search *search, struct check_case *head)
{
    enum { HEAD_ELEMENTS = 4 };
    *head = *search->trial->c;
    for (int i = 0; i < head->param_count; i++) {
        head->params[i].count = head->params[i].count < HEAD_ELEMENTS ? head->params[i].count : HEAD_ELEMENTS;
        search->head_count += trial_compares(search->trial, i) ? head->params[i].count : 0;
    }
    search->head = head;
}

int judge_state(struct trial *trial, struct finding *out, struct rule_set *explained)
{
    const struct check_case *c = trial->c;
    struct search search = {
        .trial = trial, .states = trial->states, .best = rule_canonical(c), .best_unused = UNUSED_LEFT_ALONE};
    struct check_case *head = malloc(sizeof *head);
    for (int i = 0; i < c->param_count; i++)
        search.element_count += trial_compares(trial, i) ? c->params[i].count : 0;
    search.explained = malloc(search.element_count + 1);
    int rc = search.explained && head ? ERR_NONE : err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    if (rc == ERR_NONE) {
        take_head(&search, head);
        rc = search_steps(&search, out);
    }
    // The order of a norm's squares belongs to no rule: search again with the norm that the answer reports.
    if (rc == ERR_NONE && search.failed && c->gradient_clipping > 0) {
        search.own_norm = true;
        rc = search_steps(&search, out);
        if (rc == ERR_NONE && search.failed && trial->options->clip >= 0)
            rc = search_other_clip(&search, out);
    }
    if (rc == ERR_NONE && search.failed && search.updated)
        rc = search_short_moments(&search, out);
    if (rc == ERR_NONE && search.failed && search.updated)
        rc = search_other_states(&search, out);
    if (rc == ERR_NONE)
        rc = describe(&search, out);
    if (rc == ERR_NONE && search.updated && !search.failed && !search.frozen_changed && !search.any_clip &&
        !search.other_states) {
        *explained = search.alive;
        search.alive = (struct rule_set){0};
    }
    rule_set_free(&search.alive);
    rule_set_free(&search.next);
    free(search.explained);
    free(head);
    return rc;
}

bool judge_moments(const struct rule_set *explained, struct finding *out)
{
    const struct adam_recipe *recipe = explained->count > 0 ? adam_recipe_at(explained->rules[0].recipe) : NULL;
    if (!recipe || adam_recipe_keeps_fp32(recipe))
        return false;
    out->verdict = VERDICT_FAIL;
    out->hint = HINT_MOMENTS;
    snprintf(out->text, sizeof out->text, "every bit follows %s, which keeps moments in less than fp32",
             adam_recipe_name(recipe));
    return true;
}
