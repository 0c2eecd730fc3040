// SPDX-License-Identifier: Apache-2.0
#include "conformance/claims/claims_internal.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "base/strict_json.h"
#include "base/safe_text.h"

#include <stdlib.h>
#include <string.h>

// In the order of their enums; NULL ends each.
static const char *const features[] = {
    [FEATURE_ACCUMULATION] = "accumulation",
    [FEATURE_CLIPPING] = "clipping",
    [FEATURE_STATIC_LOSS_SCALE] = "static_loss_scale",
    [FEATURE_DYNAMIC_LOSS_SCALE] = "dynamic_loss_scale",
    [FEATURE_OVERFLOW_CHECK] = "overflow_check",
    [FEATURE_L2] = "l2",
    [FEATURE_NO_BIAS_CORRECTION] = "no_bias_correction",
    [FEATURE_LR_SCHEDULE] = "lr_schedule",
    [FEATURE_GROUPS] = "groups",
    [FEATURE_TIED] = "tied",
    [FEATURE_FROZEN] = "frozen",
    [FEATURE_UNUSED] = "unused",
    [FEATURE_VARYING_USE] = "varying_use",
    [FEATURE_EMPTY] = "empty",
    [FEATURE_SCALAR] = "scalar",
    [FEATURE_RESUME] = "resume",
    [FEATURE_RESHARD] = "reshard",
    [FEATURE_WEIGHTS_ONLY] = "weights_only",
    [FEATURE_DELAYED_UPDATE] = "delayed_update",
    [FEATURE_REFUSAL] = "refusal",
    [FEATURE_COUNT] = NULL,
};
static const char *const precisions[] = {"fp32", "bf16", "fp16", NULL};  // as in enum dtype
static const char *const dtypes[] = {"fp32", "bf16", "fp16", [CLAIMS_OWN_DTYPE] = "precision", NULL};
_Static_assert((int)CLAIMED_PRECISION == (int)CLAIMS_OWN_DTYPE, "a state's dtype is named as the others are");
const char *const claims_tiers[] = {"none", "cpu", "nvme", NULL};      // as in enum ledger_tier
static const char *const clip_forms[] = {"torch", "deepspeed", NULL};  // from CLAIMS_CLIP_TORCH on
static const char *const scalers[] = {"deepspeed", "torch", "megatron", NULL};
static const char *const unused_forms[] = {"untouched", "zero_gradient", NULL};  // from CLAIMS_UNUSED_UNTOUCHED on
static const char *const masters[] = {"fp32", "precision", NULL};

const char *const claims_knobs[] = {
    [KNOB_BUCKETS] = "buckets",     [KNOB_OVERLAP] = "overlap", [KNOB_PREFETCH] = "prefetch",
    [KNOB_SUB_GROUP] = "sub_group", [KNOB_COUNT] = NULL,
};

const char *claims_feature_name(enum claims_feature feature)
{
    return features[feature];
}

void claims_whole(struct claims *out)
{
    *out = (struct claims){.worlds = UINT64_MAX,
                           .stages = (1u << STAGE_COUNT) - 1,
                           .precisions = 1u << DTYPE_FP32 | 1u << DTYPE_BF16 | 1u << DTYPE_FP16,
                           .offload_optimizer = (1u << TIER_COUNT) - 1,
                           .offload_param = (1u << TIER_COUNT) - 1,
                           .features = (1u << FEATURE_COUNT) - 1,
                           .knobs = (1u << KNOB_COUNT) - 1,
                           .communication_dtypes = (2u << CLAIMS_OWN_DTYPE) - 1,
                           .accumulation_dtypes = (2u << CLAIMS_OWN_DTYPE) - 1,
                           .scaler = SCALER_DEEPSPEED};
}

_Static_assert(CASE_WORLD_MAX <= 64 && FEATURE_COUNT < 32, "every world and every feature has a bit");

// Optimizers that a program may have, and the suite has no cases of.
static bool is_not_judged(const char *option)
{
    return strcmp(option, "sgd") == 0 || strcmp(option, "adafactor") == 0;
}

// Reads a list, if the key is there, into a set of bits; index_of returns an element's bit, or -1.
static int read_set(const struct strict_object *root, const char *key, size_t room, const char *expected,
                    int (*index_of)(const json_t *element, const char *const words[]), const char *const words[],
                    uint64_t *set)
{
    const json_t *list;
    size_t count;
    char shown[TEXT_MESSAGE_BYTES];
    if (!json_object_get(root->value, key))
        return ERR_NONE;
    TRY(strict_array(root, key, words == features || words == claims_knobs || words == case_option_names ? 0 : 1, room,
                     &list, &count));
    *set = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(list, i);
        int bit = index_of(element, words);
        if (words == case_option_names && json_is_string(element) && is_not_judged(json_string_value(element)))
            return strict_fail(root, key,
                               "element %zu is %s, which is not judged (SPEC.md, What a verdict does not say)", i,
                               json_message(shown, element));
        if (bit < 0)
            return strict_fail(root, key, "element %zu is %s, expected %s", i, json_message(shown, element), expected);
        if (*set >> bit & 1)
            return strict_fail(root, key, "element %zu, %s, is listed twice", i, json_message(shown, element));
        *set |= (uint64_t)1 << bit;
    }
    return ERR_NONE;
}

static int index_of_word(const json_t *element, const char *const words[])
{
    for (int i = 0; json_is_string(element) && words[i]; i++)
        if (strcmp(json_string_value(element), words[i]) == 0)
            return i;
    return -1;
}

static int index_of_stage(const json_t *element, const char *const words[])
{
    (void)words;
    json_int_t stage = json_is_integer(element) ? json_integer_value(element) : -1;
    return stage >= 0 && stage < STAGE_COUNT ? (int)stage : -1;
}

static int index_of_world(const json_t *element, const char *const words[])
{
    (void)words;
    json_int_t world = json_is_integer(element) ? json_integer_value(element) : 0;
    return world >= 1 && world <= CASE_WORLD_MAX ? (int)world - 1 : -1;
}

static int read_words(const struct strict_object *root, const char *key, size_t room, const char *const words[],
                      uint32_t *out)
{
    uint64_t set = *out;
    TRY(read_set(root, key, room, "a word of the contract", index_of_word, words, &set));
    *out = (uint32_t)set;
    return ERR_NONE;
}

static int read_choice(const struct strict_object *root, const char *key, const char *const words[], int first,
                       int *out)
{
    if (!json_object_get(root->value, key))
        return ERR_NONE;
    TRY(strict_word(root, key, words, out));
    *out += first;
    return ERR_NONE;
}

static int read_all(const struct strict_object *root, void *context)
{
    struct claims *out = context;
    int contract, clip = CLAIMS_CLIP_EITHER, scaler = SCALER_DEEPSPEED, unused = CLAIMS_UNUSED_EITHER;
    int moments = CLAIMED_FP32, master = CLAIMED_FP32;
    uint64_t stages = out->stages;
    TRY(strict_only(
        root, "contract name version ?stages ?worlds ?precisions ?offload_optimizer ?offload_param ?features ?knobs "
              "?communication_dtypes ?accumulation_dtypes ?clip_form ?scaler ?unused ?moments ?master ?optional"));
    TRY(strict_int(root, "contract", CASE_CONTRACT, CASE_CONTRACT, &contract));
    TRY(strict_string(root, "name", out->name, sizeof out->name));
    TRY(strict_string(root, "version", out->version, sizeof out->version));
    TRY(read_set(root, "stages", STAGE_COUNT, "0, 1, 2 or 3", index_of_stage, NULL, &stages));
    TRY(read_set(root, "worlds", CASE_WORLD_MAX, "a number of ranks", index_of_world, NULL, &out->worlds));
    TRY(read_words(root, "precisions", 3, precisions, &out->precisions));
    TRY(read_words(root, "offload_optimizer", TIER_COUNT, claims_tiers, &out->offload_optimizer));
    TRY(read_words(root, "offload_param", TIER_COUNT, claims_tiers, &out->offload_param));
    TRY(read_words(root, "features", FEATURE_COUNT, features, &out->features));
    TRY(read_words(root, "knobs", KNOB_COUNT, claims_knobs, &out->knobs));
    TRY(read_words(root, "communication_dtypes", CLAIMS_OWN_DTYPE + 1, dtypes, &out->communication_dtypes));
    TRY(read_words(root, "accumulation_dtypes", CLAIMS_OWN_DTYPE + 1, dtypes, &out->accumulation_dtypes));
    TRY(read_words(root, "optional", OPTION_COUNT, case_option_names, &out->options));
    TRY(read_choice(root, "clip_form", clip_forms, CLAIMS_CLIP_TORCH, &clip));
    TRY(read_choice(root, "scaler", scalers, SCALER_DEEPSPEED, &scaler));
    TRY(read_choice(root, "unused", unused_forms, CLAIMS_UNUSED_UNTOUCHED, &unused));
    TRY(read_choice(root, "moments", dtypes, CLAIMED_FP32, &moments));
    TRY(read_choice(root, "master", masters, CLAIMED_FP32, &master));
    out->stages = (uint32_t)stages;
    out->clip = (enum claims_clip)clip;
    out->scaler = (enum scaler_form)scaler;
    out->unused = (enum claims_unused)unused;
    out->states =
        (struct claimed_states){(enum claimed_dtype)moments, master == CLAIMED_FP32 ? CLAIMED_FP32 : CLAIMED_PRECISION};
    return ERR_NONE;
}

int claims_parse(const char *file, const char *text, size_t bytes, struct claims *out)
{
    claims_whole(out);
    return strict_parse(file, text, bytes, read_all, out);
}

int claims_read(const char *file, struct claims *out)
{
    char *text;
    size_t bytes;
    TRY(json_read(file, &text, &bytes));
    int rc = claims_parse(file, text, bytes, out);
    free(text);
    return rc;
}
