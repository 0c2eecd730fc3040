// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/claims.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "base/strict_json.h"
#include "base/safe_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE_COUNT = 4 };

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
static const char *const tiers[] = {"none", "cpu", "nvme", NULL};      // as in enum ledger_tier
static const char *const clip_forms[] = {"torch", "deepspeed", NULL};  // from CLAIMS_CLIP_TORCH on
static const char *const scalers[] = {"deepspeed", "torch", "megatron", NULL};
static const char *const unused_forms[] = {"untouched", "zero_gradient", NULL};  // from CLAIMS_UNUSED_UNTOUCHED on

static const char *const knobs[] = {
    [KNOB_BUCKETS] = "buckets",     [KNOB_OVERLAP] = "overlap", [KNOB_PREFETCH] = "prefetch",
    [KNOB_SUB_GROUP] = "sub_group", [KNOB_COUNT] = NULL,
};

// The topics of cases that turn one knob, and nothing else: the part of a name before the first dot.
static const struct {
    const char *topic;
    enum claims_knob knob;
} topics[] = {{"red-buckets", KNOB_BUCKETS},    {"part-bucket", KNOB_BUCKETS},
              {"det-overlap", KNOB_OVERLAP},    {"gather-prefetch", KNOB_PREFETCH},
              {"ckpt-prefetch", KNOB_PREFETCH}, {"nvme-sub-groups", KNOB_SUB_GROUP}};

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
    TRY(strict_array(root, key, words == features || words == knobs || words == case_option_names ? 0 : 1, room, &list,
                     &count));
    *set = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(list, i);
        int bit = index_of(element, words);
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

static int read_all(const struct strict_object *root, struct claims *out)
{
    static const char *const keys[] = {"contract",
                                       "name",
                                       "version",
                                       "?stages",
                                       "?worlds",
                                       "?precisions",
                                       "?offload_optimizer",
                                       "?offload_param",
                                       "?features",
                                       "?knobs",
                                       "?communication_dtypes",
                                       "?accumulation_dtypes",
                                       "?clip_form",
                                       "?scaler",
                                       "?unused",
                                       "?optional",
                                       NULL};
    int contract, clip = CLAIMS_CLIP_EITHER, scaler = SCALER_DEEPSPEED, unused = CLAIMS_UNUSED_EITHER;
    uint64_t stages = out->stages;
    TRY(strict_keys(root, keys));
    TRY(strict_int(root, "contract", CASE_CONTRACT, CASE_CONTRACT, &contract));
    TRY(strict_string(root, "name", out->name, sizeof out->name));
    TRY(strict_string(root, "version", out->version, sizeof out->version));
    TRY(read_set(root, "stages", STAGE_COUNT, "0, 1, 2 or 3", index_of_stage, NULL, &stages));
    TRY(read_set(root, "worlds", CASE_WORLD_MAX, "a number of ranks", index_of_world, NULL, &out->worlds));
    TRY(read_words(root, "precisions", 3, precisions, &out->precisions));
    TRY(read_words(root, "offload_optimizer", TIER_COUNT, tiers, &out->offload_optimizer));
    TRY(read_words(root, "offload_param", TIER_COUNT, tiers, &out->offload_param));
    TRY(read_words(root, "features", FEATURE_COUNT, features, &out->features));
    TRY(read_words(root, "knobs", KNOB_COUNT, knobs, &out->knobs));
    TRY(read_words(root, "communication_dtypes", CLAIMS_OWN_DTYPE + 1, dtypes, &out->communication_dtypes));
    TRY(read_words(root, "accumulation_dtypes", CLAIMS_OWN_DTYPE + 1, dtypes, &out->accumulation_dtypes));
    TRY(read_words(root, "optional", OPTION_COUNT, case_option_names, &out->options));
    TRY(read_choice(root, "clip_form", clip_forms, CLAIMS_CLIP_TORCH, &clip));
    TRY(read_choice(root, "scaler", scalers, SCALER_DEEPSPEED, &scaler));
    TRY(read_choice(root, "unused", unused_forms, CLAIMS_UNUSED_UNTOUCHED, &unused));
    out->stages = (uint32_t)stages;
    out->clip = (enum claims_clip)clip;
    out->scaler = (enum scaler_form)scaler;
    out->unused = (enum claims_unused)unused;
    return ERR_NONE;
}

int claims_parse(const char *file, const char *text, size_t bytes, struct claims *out)
{
    struct json_text parsed;
    claims_whole(out);
    TRY(json_text_parse(file, text, bytes, &parsed));
    struct strict_object root = strict_root(&parsed);
    int rc = read_all(&root, out);
    json_text_close(&parsed);
    return rc;
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

// The features that a case needs, as bits.
static uint32_t features_of(const struct check_case *c)
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
    uint32_t missing = (features_of(c) | more) & ~claims->features;
    enum claims_knob knob = knob_of(c);
    char word[CLAIMS_WORD_BYTES];
    // A stage or a world that does not exist occurs only where a refusal is expected, and needs no claim.
    bool has_stage = c->stage < 0 || c->stage >= STAGE_COUNT || (claims->stages >> c->stage & 1);
    bool has_world = c->world < 1 || c->world > CASE_WORLD_MAX || (claims->worlds >> (c->world - 1) & 1);
    snprintf(word, sizeof word, "%d", c->stage);
    note(lack, has_stage, SCOPE, "stage ", word);
    snprintf(word, sizeof word, "%d", c->world);
    note(lack, has_world, SCOPE, "a world of ", word);
    note(lack, claims->precisions >> c->precision & 1, SCOPE, "the precision ", quoted(precisions[c->precision], word));
    note(lack, claims->offload_optimizer >> c->offload_optimizer & 1, DETAIL, "the optimizer's offload ",
         quoted(tiers[c->offload_optimizer], word));
    note(lack, claims->offload_param >> c->offload_param & 1, DETAIL, "the parameters' offload ",
         quoted(tiers[c->offload_param], word));
    note(lack, claims_dtypes(claims->communication_dtypes, c->precision) >> c->communication_dtype & 1, DETAIL,
         "the communication dtype ", quoted(dtypes[c->communication_dtype], word));
    note(lack, claims_dtypes(claims->accumulation_dtypes, c->precision) >> c->accumulation_dtype & 1, DETAIL,
         "the accumulation dtype ", quoted(dtypes[c->accumulation_dtype], word));
    const char *what = missing & (missing - 1) ? "the features " : "the feature ";
    for (int i = 0; i < FEATURE_COUNT; i++) {
        note(lack, !(missing >> i & 1), DETAIL, what, quoted(features[i], word));
        what = missing >> i & 1 ? "" : what;
    }
    if (knob < KNOB_COUNT)
        note(lack, claims->knobs >> knob & 1, DETAIL, "the knob ", quoted(knobs[knob], word));
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
