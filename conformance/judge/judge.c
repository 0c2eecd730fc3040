// SPDX-License-Identifier: Apache-2.0
// Judges an answer: one finding for each aspect that some requirement checks in its case.
#include "conformance/judge/judge_internal.h"

#include "base/array.h"
#include "base/err.h"
#include "conformance/cases/case_mesh.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int judge_open(const struct judge_options *options, struct findings *findings, struct judge **out)
{
    assert(options && findings && out);
    struct judge *judge = *out = calloc(1, sizeof *judge);
    if (!judge)
        return err_set(ERR_MEMORY, "no memory for the judge");
    judge->options = *options;
    judge->findings = findings;
    return requirement_check();
}

void judge_close(struct judge *judge)
{
    for (size_t i = 0; judge && i < judge->kept_count; i++)
        rule_set_free(&judge->kept[i].explained);
    if (judge) {
        free(judge->kept);
        free(judge->rules);
    }
    free(judge);
}

unsigned judge_aspects_of(const struct check_case *c)
{
    unsigned aspects = 1u << ASPECT_ANSWER;
    for (int i = 0; requirement_at(i); i++)
        if (requirement_covers(requirement_at(i), c->name))
            aspects |= requirement_at(i)->aspects;
    return aspects;
}

static void view(const struct check_case *c, const struct answer_step *step, struct unsharded_state *out)
{
    for (int i = 0; i < c->param_count; i++) {
        size_t bytes = c->params[i].count * sizeof(float);
        if (out->param[i] && step->param[i])
            memcpy(out->param[i], step->param[i], bytes);
        // Moments that an answer may leave out are zeros.
        if (out->exp_avg[i])
            step->exp_avg[i] ? (void)memcpy(out->exp_avg[i], step->exp_avg[i], bytes)
                             : (void)memset(out->exp_avg[i], 0, bytes);
        if (out->exp_avg_sq[i])
            step->exp_avg_sq[i] ? (void)memcpy(out->exp_avg_sq[i], step->exp_avg_sq[i], bytes)
                                : (void)memset(out->exp_avg_sq[i], 0, bytes);
    }
    out->t = step->t;
}

bool value_same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

int trial_step(struct trial *trial, int step)
{
    assert(step >= case_first_step(trial->c) && step <= case_last_step(trial->c));
    const struct check_case *c = trial->c;
    if (step == case_first_step(c))
        unsharded_state_copy(c, &trial->start, &trial->before);
    else
        unsharded_state_copy(c, &trial->after, &trial->before);
    answer_step_close(&trial->step);
    TRY(answer_read_step(trial->answer, step, &trial->step));
    view(c, &trial->step, &trial->after);
    return ERR_NONE;
}

int trial_gradient(struct trial *trial, const struct rule *rule, const struct unsharded_choice *choice, int step)
{
    assert(step >= 1 && step <= case_last_step(trial->c));
    const struct unsharded_choice *now = &trial->gradient_choice;
    if (trial->gradient_step == step && rule_same_gradient(rule, &trial->gradient_rule) &&
        now->first_rank == choice->first_rank && now->downwards == choice->downwards)
        return ERR_NONE;
    trial->gradient_step = step;
    trial->gradient_rule = *rule;
    trial->gradient_choice = *choice;
    return unsharded_gradient(trial->c, trial->values, rule, choice, step, trial->decisions[step - 1].scale,
                              trial->gradient);
}

// The state that the first step begins with.
static int begin_trial(struct trial *trial)
{
    const struct check_case *c = trial->c;
    unsharded_begin(c, trial->values, &trial->start);
    if (!trial->saved)
        return ERR_NONE;
    struct answer_step last = {0};
    int rc = answer_read_step(trial->saved, case_last_step(trial->saved->c), &last);
    if (rc == ERR_NONE)
        view(c, &last, &trial->start);
    answer_step_close(&last);
    for (int i = 0; rc == ERR_NONE && c->weights_only && i < c->param_count; i++) {
        size_t bytes = c->params[i].count * sizeof(float);
        if (trial->start.exp_avg[i])
            memset(trial->start.exp_avg[i], 0, bytes);
        if (trial->start.exp_avg_sq[i])
            memset(trial->start.exp_avg_sq[i], 0, bytes);
    }
    if (c->weights_only)
        trial->start.t = 0;
    return rc;
}

static int open_trial(struct trial *trial)
{
    const struct check_case *c = trial->c;
    trial->states = rule_states_of(c, &trial->options->states);
    trial->decisions = calloc((size_t)c->steps, sizeof *trial->decisions);
    if (!trial->decisions)
        return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    TRY(unsharded_state_open(c, &trial->start));
    TRY(unsharded_state_open(c, &trial->before));
    TRY(unsharded_state_open(c, &trial->after));
    TRY(unsharded_state_open(c, &trial->expected));
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i) && !(trial->gradient[i] = calloc(c->params[i].count + 1, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    TRY(unsharded_decide(c, trial->values, trial->options->scaler, trial->decisions));
    return begin_trial(trial);
}

static void close_trial(struct trial *trial)
{
    answer_step_close(&trial->step);
    unsharded_state_close(&trial->start);
    unsharded_state_close(&trial->before);
    unsharded_state_close(&trial->after);
    unsharded_state_close(&trial->expected);
    for (int i = 0; i < trial->c->param_count; i++)
        free(trial->gradient[i]);
    free(trial->decisions);
}

// Digests the parameters that are trained and used in all steps, as others may be left alone or not; both zeros are
// equal in it, and so are all NaN.
static int keep_digests(struct trial *trial, struct kept *kept)
{
    const struct check_case *c = trial->c;
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return err_set(ERR_MEMORY, "no memory for a digest");
    int rc = ERR_NONE;
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        if ((rc = trial_step(trial, step)) != ERR_NONE)
            break;
        XXH3_128bits_reset(hash);
        for (int i = 0; i < c->param_count; i++) {
            if (!case_is_trained(c, i) || !c->params[i].used || case_use_varies(c, i))
                continue;
            const float *states[] = {trial->after.param[i], trial->after.exp_avg[i], trial->after.exp_avg_sq[i]};
            for (int k = 0; k < 3; k++)
                for (size_t j = 0; j < c->params[i].count; j++) {
                    float x = states[k][j];
                    uint32_t bits = x == 0.0f ? 0 : x != x ? 0x7fc00000u : f32_bits(x);
                    XXH3_128bits_update(hash, &bits, sizeof bits);
                }
        }
        XXH128_hash_t digest = XXH3_128bits_digest(hash);
        kept->digests[step - 1][0] = digest.low64;
        kept->digests[step - 1][1] = digest.high64;
    }
    XXH3_freeState(hash);
    return rc;
}

static int judge_states(struct judge *judge, struct trial *trial, unsigned aspects, struct kept *kept)
{
    struct finding state = {.c = trial->answer->c, .aspect = ASPECT_STATE};
    TRY(judge_state(trial, &state, &kept->explained));
    kept->follows_no_rule = state.verdict == VERDICT_BOUNDED;
    TRY(findings_add(judge->findings, &state));
    struct finding moments = {.c = trial->answer->c, .aspect = ASPECT_MOMENTS};
    if (aspects & 1u << ASPECT_MOMENTS && judge_moments(&kept->explained, &moments))
        TRY(findings_add(judge->findings, &moments));
    if (aspects & 1u << ASPECT_GRADIENT) {
        struct finding finding = {.c = trial->answer->c, .aspect = ASPECT_GRADIENT};
        TRY(judge_gradient(trial, &kept->explained, &finding));
        TRY(findings_add(judge->findings, &finding));
    }
    trial->explained = &kept->explained;
    return keep_digests(trial, kept);
}

static int judge_aspects(struct judge *judge, struct trial *trial, unsigned aspects)
{
    int (*const judges[ASPECT_COUNT])(struct trial *, struct finding *) = {
        [ASPECT_NORM] = judge_norm, [ASPECT_DECISION] = judge_decision, [ASPECT_SEEN] = judge_seen,
        [ASPECT_LOSS] = judge_loss, [ASPECT_UPDATE] = judge_update,
    };
    for (int aspect = 0; aspect < ASPECT_COUNT; aspect++) {
        struct finding finding = {.c = trial->answer->c, .aspect = (enum aspect)aspect};
        bool of_usage =
            aspect == ASPECT_MEMORY || aspect == ASPECT_PADDING || aspect == ASPECT_TRAFFIC || aspect == ASPECT_CALLS;
        bool is_none = aspect == ASPECT_UPDATE && !(case_options(trial->c) >> OPTION_MUON & 1);
        if (!(aspects >> aspect & 1) || (!judges[aspect] && !of_usage) || is_none)
            continue;
        if (of_usage)
            judge_usage(trial, (enum aspect)aspect, &finding);
        else
            TRY(judges[aspect](trial, &finding));
        TRY(findings_add(judge->findings, &finding));
    }
    return ERR_NONE;
}

static int keep(struct judge *judge, const struct check_case *c, struct kept **out)
{
    TRY(array_grow(&judge->kept, &judge->kept_room, judge->kept_count, sizeof *judge->kept, "answers"));
    *out = &judge->kept[judge->kept_count++];
    memset(*out, 0, sizeof **out);
    (*out)->c = c;
    return ERR_NONE;
}

static int judge_refusal(struct judge *judge, const struct check_case *c, const struct answer *answer)
{
    struct finding finding = {.c = c, .aspect = ASPECT_REFUSAL, .verdict = VERDICT_PASS};
    if (answer->kind != ANSWER_REFUSED) {
        finding.verdict = VERDICT_FAIL;
        snprintf(finding.text, sizeof finding.text, "accepted, but must be refused: %s", c->note);
    } else {
        snprintf(finding.text, sizeof finding.text, "%.400s", answer->text);
    }
    return findings_add(judge->findings, &finding);
}

int judge_answer(struct judge *judge, const struct check_case *c, const struct case_values *values,
                 const struct answer *answer, const struct answer *saved)
{
    assert(judge && c && values && answer && answer->c == c);
    assert(!saved || c->phase == PHASE_RESUME);
    char why[FINDING_TEXT_BYTES];
    if (answer->kind == ANSWER_UNSUPPORTED) {
        snprintf(why, sizeof why, "declined: %.400s", answer->text);
        return judge_absent(judge, c, ABSENT_DECLINED, 0, why);
    }
    if (answer->kind == ANSWER_REFUSED && !c->expects_refusal) {
        snprintf(why, sizeof why, "refused a valid case: %.400s", answer->text);
        return judge_without(judge, c, VERDICT_FAIL, why);
    }
    if (c->phase == PHASE_RESUME && !saved)
        return judge_without(judge, c, VERDICT_BROKEN, "the saving half of the case has no answer");
    struct finding whole = {.c = c, .aspect = ASPECT_ANSWER, .verdict = VERDICT_PASS};
    TRY(findings_add(judge->findings, &whole));
    if (c->expects_refusal)
        return judge_refusal(judge, c, answer);
    struct kept *kept = NULL;
    TRY(keep(judge, c, &kept));
    unsigned aspects = judge_aspects_of(c);
    size_t before = judge->findings->count;
    struct check_case *logical = malloc(sizeof *logical);
    if (!logical)
        return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    case_logical(c, logical);
    struct trial trial = {.c = logical, .values = values, .answer = answer, .saved = saved, .options = &judge->options};
    int rc = open_trial(&trial);
    if (rc == ERR_NONE)
        rc = trial_settle_empty_steps(&trial, &judge->empty_steps);
    if (rc == ERR_NONE)
        rc = judge_states(judge, &trial, aspects, kept);
    if (rc == ERR_NONE)
        rc = judge_aspects(judge, &trial, aspects);
    kept->gathered = judge_gathered(&trial);
    for (size_t i = before; i < judge->findings->count; i++)
        kept->is_convicted |= judge->findings->list[i].verdict >= VERDICT_FAIL;
    close_trial(&trial);
    free(logical);
    return rc;
}

int judge_end(struct judge *judge)
{
    assert(!judge->rules);
    TRY(judge_twins(judge));
    return judge_rules(judge);
}

const char *judge_rule(const struct judge *judge, int index)
{
    return index >= 0 && index < judge->rule_count ? judge->rules[index] : NULL;
}
