// SPDX-License-Identifier: Apache-2.0
// The search of the rules that explain every step of an answer. A rule explains a step if each element of each tensor
// has, in m, v and the parameter alike, the bits of one of the choices that the rule leaves by element; it explains the
// answer if, besides, no element is in the body of a recipe's loop in one step and in its tail in another.
#include "conformance/judge/judge_search.h"

#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// True if the claims and the case permit it: a t of its own differs only where some steps have a gradient, and others
// have none.
static bool may_treat_unused(const struct trial *trial, enum unused_form form)
{
    const struct check_case *c = trial->c;
    bool lacks = false, varies = false;
    for (int i = 0; i < c->param_count; i++)
        for (int step = 1; case_is_trained(c, i) && step <= c->steps; step++) {
            lacks |= !case_has_gradient_in(c, i, step);
            varies |= !case_has_gradient_in(c, i, step) && case_has_gradient(c, i);
        }
    if (!lacks)
        return form == UNUSED_LEFT_ALONE;
    if (trial->options->unused >= 0 && (form == UNUSED_ZERO_GRADIENT) != trial->options->unused)
        return false;
    return form != UNUSED_OWN_T || varies;
}

// Adds a rule with the states that are tried, where its recipe can keep such: both in one dtype of 16 bits, if it
// rounds each operation.
static int add_rule(const struct search *search, struct rule rule, enum unused_form unused, struct rule_set *out)
{
    const struct rule_states *states = &search->states;
    bool is_one = states->moments == states->master && states->master != DTYPE_FP32;
    for (int rounds = 0; rounds <= (states->master != DTYPE_FP32); rounds++) {
        rule.states = (struct rule_states){states->moments, states->master, rounds};
        if (is_one || !adam_recipe_rounds_each(adam_recipe_at(rule.recipe)))
            TRY(rule_set_add(out, &rule, unused, NULL));
    }
    return ERR_NONE;
}

// All rules that the case and, but for any_clip, the claims permit; the canonical one first.
static int all_rules(const struct search *search, struct rule_set *out)
{
    const struct trial *trial = search->trial;
    const struct check_case *c = trial->c;
    static const enum unused_form forms[] = {UNUSED_LEFT_ALONE, UNUSED_OWN_T, UNUSED_ZERO_GRADIENT};
    struct rule *rules;
    int count, rc = ERR_NONE;
    bool may_treat[3];
    for (int k = 0; k < 3; k++)
        may_treat[k] = may_treat_unused(trial, forms[k]);
    TRY(rule_list(c, &rules, &count));
    for (int i = 0; i < count && rc == ERR_NONE; i++) {
        const struct rule *rule = &rules[i];
        if (adam_recipe_keeps_fp32(adam_recipe_at(rule->recipe)) == search->short_moments)
            continue;
        if (c->gradient_clipping > 0 && trial->options->clip >= 0 && !search->any_clip &&
            rule_clip_is_deepspeed(rule->clip) != trial->options->clip)
            continue;
        for (int k = 0; k < 3 && rc == ERR_NONE; k++)
            if (may_treat[k])
                rc = add_rule(search, *rule, forms[k], out);
    }
    free(rules);
    return rc;
}

// Finds the first of m, v and parameter of one element that differs from the expected state. out: may be null.
static bool first_difference(const struct trial *trial, int param, size_t i, struct difference *out)
{
    const struct {
        const char *what;
        const float *expected, *actual;
    } states[] = {
        {case_is_muon(trial->c, param) ? "momentum" : "exp_avg", trial->expected.exp_avg[param],
         trial->step.exp_avg[param]},
        {"exp_avg_sq", trial->expected.exp_avg_sq[param], trial->step.exp_avg_sq[param]},
        {"param", trial->expected.param[param], trial->step.param[param]},
    };
    for (int k = 0; k < 3; k++) {
        if (!states[k].actual || value_same(states[k].expected[i], states[k].actual[i]))
            continue;
        if (out)
            *out = difference_at(0, states[k].what, param, i, states[k].expected[i], states[k].actual[i]);
        return true;
    }
    return false;
}

// Marks the elements of the case (or its head) that equal the expected state, which was made with this sequence, unless
// `sequences` (or null) shows that they follow the other one. Returns how many elements are marked by now.
static size_t mark(struct search *search, const struct check_case *c, unsigned char sequence,
                   const unsigned char *sequences)
{
    const struct trial *trial = search->trial;
    size_t begin = 0, marked = 0;
    for (int param = 0; param < c->param_count; param++) {
        if (!trial_compares(trial, param))
            continue;
        for (size_t i = 0; i < c->params[param].count; i++) {
            size_t at = begin + i;
            bool may = !(search->explained[at] & sequence) && (!sequences || !(sequences[at] & ~sequence));
            if (may && !first_difference(trial, param, i, NULL))
                search->explained[at] |= sequence;
            marked += search->explained[at] != 0;
        }
        begin += trial->c->params[param].count;
    }
    return marked;
}

// Notes the sequence of each element that only one sequence explains in this step.
static int note_sequences(const struct search *search, unsigned char **sequences)
{
    if (!*sequences)
        *sequences = calloc(search->element_count + 1, 1);
    if (!*sequences)
        return err_set(ERR_MEMORY, "no memory to judge %s", search->trial->c->name);
    for (size_t at = 0; at < search->element_count; at++)
        if (search->explained[at] != (IN_BODY | IN_TAIL))
            (*sequences)[at] = search->explained[at];
    return ERR_NONE;
}

// The t after which the rule's powers of beta begin with a pow; 0: they begin with 1.
static uint64_t powers_begin(const struct trial *trial, const struct rule *rule, uint64_t t)
{
    switch (rule->powers) {
    case POWERS_UNBROKEN:
        return 0;
    case POWERS_ANEW:
        return t - 1;
    default:
        return trial->start.t;
    }
}

// The order of a norm's additions is free.
static bool norm_is_near(double norm, double reported)
{
    return fabs(reported - norm) <= 16 * 0x1p-24 * norm;
}

// Computes the expected state after the step under a rule and one of its choices, of the case or of its head.
static int expect(const struct search *search, const struct check_case *c, const struct rule *rule,
                  enum unused_form unused, const struct unsharded_choice *choice)
{
    uint64_t missed[CASE_PARAM_MAX];
    struct trial *trial = search->trial;
    const struct unsharded_decision *decision = &trial->decisions[search->step - 1];
    TRY(trial_gradient(trial, rule, choice, decision->applies));
    const float *const *gradients = (const float *const *)trial->gradient;
    double norm = trial->gradient_norm;
    bool tells = search->own_norm && trial->step.has_norm && decision->applies == search->step;
    if (tells && norm_is_near(norm, trial->step.norm))
        norm = trial->step.norm;
    for (int i = 0; unused == UNUSED_OWN_T && i < c->param_count; i++)
        missed[i] = unsharded_missed(c, trial->decisions, search->step, i);
    struct unsharded_update update = {
        .t = decision->t,
        .lr_step = decision->applies,
        .coefficient = unsharded_coefficient(c, rule, norm),
        .tail = choice->tail,
        .leaves_unused = unused != UNUSED_ZERO_GRADIENT,
        .missed = unused == UNUSED_OWN_T ? missed : NULL,
        .resumed_t = powers_begin(trial, rule, decision->t),
    };
    TRY(unsharded_adam(c, rule, &update, gradients, &trial->before, &trial->expected));
    // Of Muon's matrices the momentum alone has a recipe (judge_muon.c).
    for (int i = 0; i < c->param_count; i++)
        if (case_is_muon(c, i))
            memcpy(trial->expected.param[i], trial->after.param[i], c->params[i].count * sizeof(float));
    return ERR_NONE;
}

int search_nearest(struct search *search)
{
    struct trial *trial = search->trial;
    assert(search->failed);
    if (trial->decisions[search->step - 1].applies > 0) {
        struct unsharded_choice choice = unsharded_choice_at(trial->c, &search->best, 0);
        TRY(expect(search, trial->c, &search->best, search->best_unused, &choice));
    }
    size_t at = 0;
    bool found = false;
    struct difference *difference = &search->difference;
    for (int param = 0; param < trial->c->param_count; param++) {
        if (!trial_compares(trial, param))
            continue;
        for (size_t i = 0; i < trial->c->params[param].count && !found; i++)
            found = first_difference(trial, param, i, difference);
        at += trial->c->params[param].count;
    }
    difference->step = search->step;
    difference->compared_count = at;
    difference->differing_count = at - search->best_count;
    return ERR_NONE;
}

// True if a step that applies no gradient leaves the state as it is.
static bool unchanged(struct search *search)
{
    struct trial *trial = search->trial;
    unsharded_state_copy(trial->c, &trial->before, &trial->expected);
    memset(search->explained, 0, search->element_count);
    search->best_count = mark(search, trial->c, IN_BODY, NULL);
    return search->best_count == search->element_count;
}

// Counts the elements of the case, or of its head with that many, that an alive rule explains.
static int try_rule(struct search *search, const struct check_case *c, size_t element_count, size_t index,
                    size_t *marked)
{
    const struct rule *rule = &search->alive.rules[index];
    bool has_tail = adam_recipe_has_tail(adam_recipe_at(rule->recipe));
    int choices = unsharded_choice_count(c, rule);
    memset(search->explained, 0, search->element_count);
    *marked = 0;
    for (int k = 0; k < choices && (k == 0 || has_tail || *marked < element_count); k++) {
        struct unsharded_choice choice = unsharded_choice_at(c, rule, k);
        TRY(expect(search, c, rule, (enum unused_form)search->alive.unused[index], &choice));
        *marked = mark(search, c, choice.tail ? IN_TAIL : IN_BODY, search->alive.sequences[index]);
    }
    return ERR_NONE;
}

// The same, but of a rule that does not explain the head, those of the head, if `looks`. What is kept in blocks depends
// on all of a tensor's elements.
static int look_and_try(struct search *search, bool looks, size_t index, size_t *marked)
{
    if (looks && !search->short_moments && search->head_count < search->element_count) {
        TRY(try_rule(search, search->head, search->head_count, index, marked));
        if (*marked < search->head_count)
            return ERR_NONE;
    }
    return try_rule(search, search->trial->c, search->element_count, index, marked);
}

// Finds the alive rules that explain the step or, if it does not look at heads first, the one that explains most of it.
static int search_step(struct search *search, bool looks)
{
    search->best_count = 0;
    bool any = false;
    for (size_t i = 0; i < search->alive.count; i++) {
        const struct rule *rule = &search->alive.rules[i];
        enum unused_form unused = (enum unused_form)search->alive.unused[i];
        unsigned char *sequences = search->alive.sequences[i];
        size_t marked;
        TRY(look_and_try(search, looks, i, &marked));
        if (!any || marked > search->best_count) {
            any = true;
            search->best_count = marked;
            search->best = *rule;
            search->best_unused = unused;
        }
        if (marked < search->element_count)
            continue;
        search->alive.sequences[i] = NULL;
        if (adam_recipe_has_tail(adam_recipe_at(rule->recipe)))
            TRY(note_sequences(search, &sequences));
        TRY(rule_set_add(&search->next, rule, unused, sequences));
    }
    return ERR_NONE;
}

int search_steps(struct search *search, struct finding *out)
{
    assert(search->explained && (!search->own_norm || search->trial->c->gradient_clipping > 0));
    struct trial *trial = search->trial;
    rule_set_clear(&search->alive);
    search->updated = search->failed = false;
    TRY(all_rules(search, &search->alive));
    int last = case_last_step(trial->c);
    for (int step = case_first_step(trial->c); step <= last && !search->failed; step++) {
        search->step = step;
        TRY(trial_step(trial, step));
        if ((search->frozen_changed = trial_frozen_changed(trial, step, &out->difference)))
            return ERR_NONE;
        if (trial->decisions[step - 1].applies == 0) {
            search->failed = !unchanged(search);
            continue;
        }
        search->updated = true;
        TRY(search_step(search, true));
        if (search->next.count == 0)
            TRY(search_step(search, false));
        search->failed = search->next.count == 0;
        struct rule_set spare = search->alive;
        search->alive = search->next;
        search->next = spare;
        rule_set_clear(&search->next);
    }
    return ERR_NONE;
}
