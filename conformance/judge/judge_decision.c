// SPDX-License-Identifier: Apache-2.0
// Judges a step's decisions (skipped, t, loss scale) and the optional gradient and norm.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <math.h>
#include <stdio.h>

int judge_decision(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    out->verdict = VERDICT_PASS;
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        TRY(trial_step(trial, step));
        const struct unsharded_decision *decision = &trial->decisions[step - 1];
        const struct answer_step *actual = &trial->step;
        if (c->overflow_check && actual->skipped != decision->skipped)
            finding_differ(out, step, "skipped", decision->skipped, actual->skipped, diagnose_decision(trial, step));
        else if (actual->t != decision->t)
            finding_differ(out, step, "t", (double)decision->t, (double)actual->t,
                           trial->saved && step == case_first_step(c) ? HINT_RESUME : HINT_STEP_COUNT);
        else if (c->loss_scale.kind != SCALE_NONE && actual->has_loss_scale &&
                 actual->loss_scale != decision->scale_after)
            finding_differ(out, step, "loss_scale", decision->scale_after, actual->loss_scale,
                           trial->saved ? HINT_RESUME : HINT_LOSS_SCALE);
        if (out->has_difference)
            break;
    }
    return ERR_NONE;
}

// True if a step has a gradient to report: it is not skipped.
static bool speaks_of_gradient(const struct trial *trial, int step)
{
    return !trial->decisions[step - 1].skipped;
}

int judge_norm(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct rule rule = rule_canonical(c);
    struct unsharded_choice choice = unsharded_choice_at(c, &rule, 0);
    out->verdict = VERDICT_UNSUPPORTED;
    snprintf(out->text, sizeof out->text, "the answer reports no norm");
    size_t elements = 0;
    for (int i = 0; i < c->param_count; i++)
        elements += case_is_trained(c, i) ? c->params[i].count : 0;
    // Adding squares in fp32 loses at most one rounding per square; the root halves the loss.
    double limit = (double)elements / 2 + 4;
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        TRY(trial_step(trial, step));
        if (!trial->step.has_norm || !speaks_of_gradient(trial, step))
            continue;
        TRY(trial_gradient(trial, &rule, &choice, step));
        double expected = trial->gradient_norm;
        double roundings = fabs(trial->step.norm - expected) / (fabs(expected) * 0x1p-24);
        bool same = trial->step.norm == expected || (isnan(expected) && isnan(trial->step.norm));
        if (!same && !(roundings <= limit)) {
            finding_differ(out, step, "norm", expected, trial->step.norm, HINT_CLIP);
            out->difference.roundings = roundings;
            return ERR_NONE;
        }
        out->verdict = VERDICT_PASS;
        out->text[0] = '\0';
    }
    return ERR_NONE;
}

// Sets *out if some choice of the rule has the bits of each element of the reported gradient; otherwise *param and *at
// are the first element that none has.
static int explains_gradient(struct trial *trial, const struct rule *rule, int step, bool *out, int *param, size_t *at)
{
    const struct check_case *c = trial->c;
    *out = true;
    for (*param = 0; *param < c->param_count; ++*param) {
        const float *actual = trial->step.grad[*param];
        for (*at = 0; actual && *at < c->params[*param].count; ++*at) {
            bool same = false;
            for (int k = 0; k < unsharded_choice_count(c, rule) && !same; k++) {
                struct unsharded_choice choice = unsharded_choice_at(c, rule, k);
                TRY(trial_gradient(trial, rule, &choice, step));
                // This choice may serve the elements that follow, too.
                while (*at < c->params[*param].count && value_same(trial->gradient[*param][*at], actual[*at])) {
                    same = true;
                    ++*at;
                }
            }
            if (!same) {
                *out = false;
                return ERR_NONE;
            }
            --*at;
        }
    }
    return ERR_NONE;
}

// Describes a reported gradient that differs from the rule which the states follow.
static int differ_in_gradient(struct trial *trial, const struct rule *rule, int step, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct unsharded_choice choice = unsharded_choice_at(c, rule, 0);
    bool same;
    int param;
    size_t element;
    TRY(explains_gradient(trial, rule, step, &same, &param, &element));
    TRY(trial_gradient(trial, rule, &choice, step));
    out->verdict = VERDICT_FAIL;
    out->has_difference = true;
    out->difference =
        difference_at(step, "grad", param, element, trial->gradient[param][element], trial->step.grad[param][element]);
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; trial_compares(trial, i) && trial->step.grad[i] && k < c->params[i].count; k++) {
            out->difference.compared_count++;
            out->difference.differing_count += !value_same(trial->gradient[i][k], trial->step.grad[i][k]);
        }
    out->hint = diagnose_reported_gradient(trial, rule, &out->difference);
    snprintf(out->text, sizeof out->text, "the reported gradient differs from the gradient in the moments");
    return ERR_NONE;
}

int judge_gradient(struct trial *trial, const struct rule_set *explained, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct rule first = rule_canonical(c);
    out->verdict = VERDICT_UNSUPPORTED;
    snprintf(out->text, sizeof out->text, "the answer reports no gradient");
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        TRY(trial_step(trial, step));
        if (!trial->step.has_grad || !speaks_of_gradient(trial, step))
            continue;
        bool same = false;
        int param = 0;
        size_t at = 0;
        for (size_t i = 0; i < (explained->count ? explained->count : 1) && !same; i++)
            TRY(explains_gradient(trial, explained->count ? &explained->rules[i] : &first, step, &same, &param, &at));
        if (!same && explained->count)
            return differ_in_gradient(trial, &explained->rules[0], step, out);
        if (out->verdict == VERDICT_UNSUPPORTED) {
            out->verdict = explained->count ? VERDICT_PASS : VERDICT_BOUNDED;
            out->text[0] = '\0';
        }
    }
    return ERR_NONE;
}
