// SPDX-License-Identifier: Apache-2.0
// The finding on the states of an answer, from the search of the rules that explain them.
#include "conformance/judge/judge_search.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int describe_failure(struct search *search, struct finding *out)
{
    struct trial *trial = search->trial;
    TRY(search_nearest(search));
    out->has_difference = true;
    out->difference = search->difference;
    out->hint = diagnose_state(trial, &search->best, &search->difference);
    char rule[256];
    snprintf(out->text, sizeof out->text, "nearest rule: %s; ", rule_text(&search->best, rule, sizeof rule));
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

// An answer that no recipe with moments in fp32 explains: whether one with less does. Otherwise the search ends as it
// did.
static int search_short_moments(struct search *search, struct finding *out)
{
    search->short_moments = true;
    TRY(search_steps(search, out));
    search->short_moments = !search->failed && !search->frozen_changed;
    return search->short_moments ? ERR_NONE : search_steps(search, out);
}

static int describe(struct search *search, struct finding *out)
{
    struct trial *trial = search->trial;
    const struct check_case *c = trial->c;
    if (search->any_clip)
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
        if (trial->decisions[search->step - 1].applies > 0)
            return judge_by_links(trial, out);
        out->verdict = VERDICT_FAIL;
        snprintf(out->text, sizeof out->text, "the state changed in a step that applies no gradient");
        return ERR_NONE;
    }
    struct rule canonical = rule_canonical(c);
    const struct rule *first = search->alive.count > 0 ? &search->alive.rules[0] : &canonical;
    bool is_canonical = rule_same_gradient(first, &canonical) && first->recipe == canonical.recipe &&
                        first->clip == canonical.clip && !search->own_norm;
    out->verdict = !search->updated || is_canonical ? VERDICT_PASS : VERDICT_EQUIVALENT;
    if (search->updated)
        rule_text(first, out->text, sizeof out->text);
    size_t used = strlen(out->text);
    if (search->own_norm)
        snprintf(out->text + used, sizeof out->text - used, ", clipped by a norm of other roundings");
    return ERR_NONE;
}

int judge_state(struct trial *trial, struct finding *out, struct rule_set *explained)
{
    const struct check_case *c = trial->c;
    struct search search = {.trial = trial, .best = rule_canonical(c), .best_unused = UNUSED_LEFT_ALONE};
    for (int i = 0; i < c->param_count; i++)
        search.element_count += trial_compares(trial, i) ? c->params[i].count : 0;
    search.explained = malloc(search.element_count + 1);
    int rc = search.explained ? search_steps(&search, out) : err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    // The order of a norm's squares belongs to no rule: search again with the norm that the answer reports.
    if (rc == ERR_NONE && search.failed && c->gradient_clipping > 0) {
        search.own_norm = true;
        rc = search_steps(&search, out);
        if (rc == ERR_NONE && search.failed && trial->options->clip >= 0)
            rc = search_other_clip(&search, out);
    }
    if (rc == ERR_NONE && search.failed && search.updated)
        rc = search_short_moments(&search, out);
    if (rc == ERR_NONE)
        rc = describe(&search, out);
    if (rc == ERR_NONE && search.updated && !search.failed && !search.frozen_changed && !search.any_clip) {
        *explained = search.alive;
        search.alive = (struct rule_set){0};
    }
    rule_set_free(&search.alive);
    rule_set_free(&search.next);
    free(search.explained);
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
