// SPDX-License-Identifier: Apache-2.0
// The things that a case needs and claims lack.
#include "conformance/claims/claims_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// The topics of cases that turn one knob, and nothing else: the part of a name before the first dot.
static const struct {
    const char *topic;
    enum claims_knob knob;
} topics[] = {{"red-buckets", KNOB_BUCKETS},    {"part-bucket", KNOB_BUCKETS},
              {"det-overlap", KNOB_OVERLAP},    {"gather-prefetch", KNOB_PREFETCH},
              {"ckpt-prefetch", KNOB_PREFETCH}, {"nvme-sub-groups", KNOB_SUB_GROUP}};

uint32_t claims_features(const struct check_case *c)
{
    bool has[FEATURE_COUNT] = {
        [FEATURE_ACCUMULATION] = c->accumulation > 1,
        [FEATURE_CLIPPING] = c->gradient_clipping > 0,
        [FEATURE_STATIC_LOSS_SCALE] = c->loss_scale.kind == SCALE_STATIC,
        [FEATURE_DYNAMIC_LOSS_SCALE] = c->loss_scale.kind == SCALE_DYNAMIC,
        [FEATURE_OVERFLOW_CHECK] = c->overflow_check,
        [FEATURE_GROUPS] = c->group_count > 1,
        [FEATURE_RESUME] = c->phase != PHASE_WHOLE,
        [FEATURE_WEIGHTS_ONLY] = c->phase != PHASE_WHOLE && c->weights_only,
        [FEATURE_DELAYED_UPDATE] = c->delayed_update > 0,
        [FEATURE_REFUSAL] = c->expects_refusal,
    };
    for (int i = 0; i < c->group_count; i++) {
        const struct case_group *group = &c->groups[i];
        has[FEATURE_L2] |= !group->decoupled && group->weight_decay != 0;
        has[FEATURE_NO_BIAS_CORRECTION] |= !group->bias_correction;
        has[FEATURE_LR_SCHEDULE] |= group->lr_by_step;
    }
    for (int i = 0; i < c->param_count; i++) {
        const struct case_param *param = &c->params[i];
        has[FEATURE_TIED] |= param->tied_to >= 0;
        has[FEATURE_FROZEN] |= param->frozen;
        has[FEATURE_UNUSED] |= !param->used;
        has[FEATURE_VARYING_USE] |= case_use_varies(c, i);
        has[FEATURE_EMPTY] |= param->count == 0;
        has[FEATURE_SCALAR] |= param->shape_rank == 0;
    }
    uint32_t set = 0;
    for (int i = 0; i < FEATURE_COUNT; i++)
        set |= (uint32_t)has[i] << i;
    return set;
}

// The knob that a case is about; KNOB_COUNT: none.
static enum claims_knob knob_of(const struct check_case *c)
{
    size_t length = strcspn(c->name, ".");
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strlen(topics[i].topic) == length && strncmp(topics[i].topic, c->name, length) == 0)
            return topics[i].knob;
    return KNOB_COUNT;
}

uint32_t claims_dtypes(uint32_t set, enum dtype precision)
{
    return set | (set >> CLAIMS_OWN_DTYPE & 1) << precision;
}

// The things that a case lacks, as a text that grows.
struct lack {
    int weight, count;
    char text[CLAIMS_TEXT_BYTES];
};

static void note(struct lack *lack, bool is_claimed, int weight, const char *what, const char *name)
{
    size_t used = strlen(lack->text);
    if (is_claimed)
        return;
    lack->weight += weight;
    snprintf(lack->text + used, sizeof lack->text - used, "%s%s%s", lack->count++ ? ", " : "", what, name);
}

static const char *quoted(const char *word, char out[CLAIMS_WORD_BYTES])
{
    snprintf(out, CLAIMS_WORD_BYTES, "\"%s\"", word);
    return out;
}

// Whatever says less about a program weighs more: its stages, worlds and precisions are known.
enum { SCOPE = 2, DETAIL = 1 };

static void note_half(struct lack *lack, const struct claims *claims, const struct check_case *c, uint32_t more)
{
    uint32_t missing = (claims_features(c) | more) & ~claims->features;
    enum claims_knob knob = knob_of(c);
    char word[CLAIMS_WORD_BYTES];
    // A stage or a world that does not exist occurs only where a refusal is expected, and needs no claim.
    bool has_stage = c->stage < 0 || c->stage >= STAGE_COUNT || (claims->stages >> c->stage & 1);
    bool has_world = c->world < 1 || c->world > CASE_WORLD_MAX || (claims->worlds >> (c->world - 1) & 1);
    snprintf(word, sizeof word, "%d", c->stage);
    note(lack, has_stage, SCOPE, "stage ", word);
    snprintf(word, sizeof word, "%d", c->world);
    note(lack, has_world, SCOPE, "a world of ", word);
    note(lack, claims->precisions >> c->precision & 1, SCOPE, "the precision ", quoted(dtype_name(c->precision), word));
    note(lack, claims->offload_optimizer >> c->offload_optimizer & 1, DETAIL, "the optimizer's offload ",
         quoted(claims_tiers[c->offload_optimizer], word));
    note(lack, claims->offload_param >> c->offload_param & 1, DETAIL, "the parameters' offload ",
         quoted(claims_tiers[c->offload_param], word));
    note(lack, claims_dtypes(claims->communication_dtypes, c->precision) >> c->communication_dtype & 1, DETAIL,
         "the communication dtype ", quoted(dtype_name(c->communication_dtype), word));
    note(lack, claims_dtypes(claims->accumulation_dtypes, c->precision) >> c->accumulation_dtype & 1, DETAIL,
         "the accumulation dtype ", quoted(dtype_name(c->accumulation_dtype), word));
    const char *what = missing & (missing - 1) ? "the features " : "the feature ";
    for (int i = 0; i < FEATURE_COUNT; i++) {
        note(lack, !(missing >> i & 1), DETAIL, what, quoted(claims_feature_name((enum claims_feature)i), word));
        what = missing >> i & 1 ? "" : what;
    }
    if (knob < KNOB_COUNT)
        note(lack, claims->knobs >> knob & 1, DETAIL, "the knob ", quoted(claims_knobs[knob], word));
}

int claims_lack(const struct claims *claims, const struct check_case *c, const struct check_case *other,
                char why[CLAIMS_TEXT_BYTES])
{
    assert(!other || (c->phase != PHASE_WHOLE && other->phase != PHASE_WHOLE));
    struct lack lack = {0};
    uint32_t reshard = other && other->world != c->world ? 1u << FEATURE_RESHARD : 0;
    if (claims)
        note_half(&lack, claims, c, reshard);
    if (claims && other && lack.count == 0)
        note_half(&lack, claims, other, reshard);
    snprintf(why, CLAIMS_TEXT_BYTES, "%.*s%s", (int)sizeof lack.text - 17, lack.text,
             lack.count == 0   ? ""
             : lack.count == 1 ? " is not claimed"
                               : " are not claimed");
    return lack.weight;
}
