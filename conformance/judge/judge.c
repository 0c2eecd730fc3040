// SPDX-License-Identifier: Apache-2.0
// Judges an answer: one finding for each aspect that some requirement checks in its case.
#include "conformance/judge/judge_internal.h"

#include "base/array.h"
#include "base/err.h"
#include "conformance/cases/case_mesh.h"

#include <assert.h>
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

static int keep(struct judge *judge, const struct check_case *c, struct kept **out)
{
    TRY(array_grow(&judge->kept, &judge->kept_room, judge->kept_count, sizeof *judge->kept, "answers"));
    *out = &judge->kept[judge->kept_count++];
    memset(*out, 0, sizeof **out);
    (*out)->c = c;
    return ERR_NONE;
}

int judge_open_part(const struct judge *judge, struct findings *findings, struct judge **out)
{
    TRY(judge_open(&judge->options, findings, out));
    (*out)->empty_steps = judge->empty_steps;
    return ERR_NONE;
}

int judge_join(struct judge *judge, struct judge *part)
{
    for (size_t i = 0; i < part->findings->count; i++)
        TRY(findings_add(judge->findings, &part->findings->list[i]));
    for (size_t i = 0; i < part->kept_count; i++) {
        struct kept *kept;
        TRY(keep(judge, part->kept[i].c, &kept));
        *kept = part->kept[i];
        part->kept[i].explained = (struct rule_set){0};
    }
    return ERR_NONE;
}

bool judge_learns(const struct judge *judge, const struct check_case *c)
{
    return judge->empty_steps == EMPTY_STEPS_UNKNOWN && case_settles_empty_steps(c);
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
    unsigned aspects = kept->aspects = judge_aspects_of(c);
    size_t before = judge->findings->count;
    struct check_case *logical = malloc(sizeof *logical);
    if (!logical)
        return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    case_logical(c, logical);
    struct trial trial = {.c = logical, .values = values, .answer = answer, .saved = saved, .options = &judge->options};
    int rc = trial_open(&trial);
    if (rc == ERR_NONE)
        rc = trial_settle_empty_steps(&trial, &judge->empty_steps);
    if (rc == ERR_NONE)
        rc = judge_states(judge, &trial, aspects, kept);
    if (rc == ERR_NONE)
        rc = judge_aspects(judge, &trial, aspects);
    kept->gathered = judge_gathered(&trial);
    for (size_t i = before; i < judge->findings->count; i++)
        kept->is_convicted |= judge->findings->list[i].verdict >= VERDICT_FAIL;
    trial_close(&trial);
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
