// SPDX-License-Identifier: Apache-2.0
// What only cases with tokens have: steps without any, and the loss that an answer reports.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"
#include "conformance/cases/case_tokens.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- steps without tokens ---

// Reads the t of an answer after a step; of the step before its first one, that of the state which it begins with.
static int read_t(struct trial *trial, int step, uint64_t *out)
{
    const struct answer_step *state;
    *out = trial->start.t;
    if (step < case_first_step(trial->c))
        return ERR_NONE;
    TRY(trial_read(trial, step, &state));
    *out = state->t;
    return ERR_NONE;
}

// Takes the updates by empty gradients out of the decisions.
static void skip_empty(struct trial *trial)
{
    uint64_t skipped = 0;
    const struct check_case *c = trial->c;
    for (int step = 1; step <= case_last_step(c); step++) {
        struct unsharded_decision *decision = &trial->decisions[step - 1];
        if (c->weights_only && step == c->checkpoint_step + 1)
            skipped = 0;
        if (decision->applies > 0 && case_all_tokens(c, decision->applies) == 0) {
            decision->applies = 0;
            skipped++;
        }
        decision->skipped |= case_all_tokens(c, step) == 0;
        decision->t -= skipped;
    }
}

// True if a step's t tells what an empty one does.
static bool settles(const struct check_case *c, int step)
{
    return c->has_tokens && case_all_tokens(c, step) == 0 && c->delayed_update == 0;
}

bool case_settles_empty_steps(const struct check_case *c)
{
    bool any = false;
    for (int step = case_first_step(c); step <= case_last_step(c); step++)
        any |= settles(c, step);
    return any;
}

int trial_settle_empty_steps(struct trial *trial, enum empty_steps *known)
{
    const struct check_case *c = trial->c;
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        uint64_t before, after;
        if (*known != EMPTY_STEPS_UNKNOWN || !settles(c, step))
            continue;
        TRY(read_t(trial, step - 1, &before));
        TRY(read_t(trial, step, &after));
        *known = after == before ? EMPTY_STEPS_SKIPPED : EMPTY_STEPS_APPLIED;
    }
    if (c->has_tokens && *known == EMPTY_STEPS_SKIPPED)
        skip_empty(trial);
    return ERR_NONE;
}

// --- the reported loss ---

// The sum of all ranks' and micro-steps' losses in a step, from the parameters before it as forward has them, and the
// sum of their terms' magnitudes.
static double sum_of_losses(const struct trial *trial, int step, double *magnitude)
{
    const struct check_case *c = trial->c;
    double sum = 0;
    *magnitude = 0;
    for (int use = 0; use < c->param_count; use++)
        for (int slot = 0; slot < c->world * c->accumulation; slot++) {
            int owner = case_owner(c, use), micro = slot / c->world;
            const float *gradient = case_gradient(trial->values, step, micro, slot % c->world, use);
            for (size_t i = 0; case_is_used_in(c, use, step, micro) && i < c->params[use].count; i++) {
                double term =
                    (double)unsharded_round(c->precision, trial->before.param[owner][i]) * (double)gradient[i];
                sum += term;
                *magnitude += fabs(term);
            }
        }
    return sum;
}

int judge_loss(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    // Terms may be added in any order in the precision; a loss of other ranks or tokens is off by far more.
    double tolerance = c->precision == DTYPE_FP32 ? 0x1p-14 : 0x1p-8;
    out->verdict = VERDICT_UNSUPPORTED;
    snprintf(out->text, sizeof out->text, "the answer reports no loss and no tokens");
    for (int step = case_first_step(c); c->has_tokens && step <= case_last_step(c); step++) {
        TRY(trial_step(trial, step));
        const struct answer_step *actual = &trial->step;
        double magnitude, count = case_mean_count(c, step);
        uint64_t tokens = case_all_tokens(c, step);
        if ((!actual->has_loss && !actual->has_tokens) || trial->decisions[step - 1].skipped)
            continue;
        out->verdict = VERDICT_PASS;
        out->text[0] = '\0';
        double loss = sum_of_losses(trial, step, &magnitude) / count;
        if (actual->has_tokens && actual->tokens != tokens && (double)actual->tokens != count)
            finding_differ(out, step, "tokens", count, (double)actual->tokens, HINT_REPORTED);
        else if (actual->has_loss && !(fabs(actual->loss - loss) <= tolerance * magnitude / count))
            finding_differ(out, step, "loss", loss, actual->loss, HINT_REPORTED);
        if (!out->has_difference)
            continue;
        size_t used = strlen(out->text);
        snprintf(out->text + used, sizeof out->text - used, ": the step has %llu tokens", (unsigned long long)tokens);
        break;
    }
    return ERR_NONE;
}
