// SPDX-License-Identifier: Apache-2.0
// Claims: what is claimed is asked and nothing else; a file that says something else is refused with its line.
#include "conformance/claims/claims.h"

#include "conformance/contract/answer_test.h"
#include "base/err.h"
#include "conformance/cases/schema_test.h"

static struct claims claims;
static struct check_case c;
static char why[CLAIMS_TEXT_BYTES];

static void parse(const char *more)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"contract\": 1, \"name\": \"mine\", \"version\": \"0.1\"%s%s}", *more ? ", " : "",
             more);
    cr_assert_eq(claims_parse("claims.json", text, strlen(text), &claims), ERR_NONE, "%s", err_message());
}

// A case that asks for nothing in particular.
static void plain_case(void)
{
    c = (struct check_case){.world = 3, .steps = 2, .accumulation = 1, .stage = 1, .group_count = 1, .param_count = 1};
    c.params[0] = (struct case_param){.shape_rank = 1, .shape = {5}, .count = 5, .used = true, .tied_to = -1};
    c.groups[0] = (struct case_group){.decoupled = true, .bias_correction = true, .weight_decay = 0.1};
}

static void expect_covered(void)
{
    cr_expect(claims_lack(&claims, &c, NULL, why) == 0, "%s", why);
    cr_expect_str_eq(why, "");
}

static void expect_lacking(const char *what)
{
    cr_expect(claims_lack(&claims, &c, NULL, why), "%s", what);
    cr_expect_str_eq(why, what);
}

Test(claims, what_is_left_out_is_claimed_whole)
{
    fixture_case(&c);
    c.offload_optimizer = TIER_NVME;
    c.offload_param = TIER_HOST;
    c.stage = 3;
    c.world = 64;
    c.phase = PHASE_RESUME;
    c.weights_only = c.expects_refusal = true;
    parse("");
    cr_expect_str_eq(claims.name, "mine");
    cr_expect_str_eq(claims.version, "0.1");
    cr_expect_eq(claims.clip, CLAIMS_CLIP_EITHER);
    cr_expect_eq(claims.scaler, SCALER_DEEPSPEED);
    cr_expect_eq(claims.unused, CLAIMS_UNUSED_EITHER);
    expect_covered();
    claims_whole(&claims);
    expect_covered();
    cr_expect_str_eq(claims.name, "");
}

Test(claims, stages_worlds_precisions_and_tiers_are_sets)
{
    plain_case();
    parse("\"stages\": [3, 1], \"worlds\": [2, 3, 64], \"precisions\": [\"bf16\", \"fp32\"], "
          "\"offload_optimizer\": [\"none\", \"nvme\"], \"offload_param\": [\"cpu\", \"none\"]");
    expect_covered();
    c.stage = 2;
    expect_lacking("stage 2 is not claimed");
    c.stage = 3;
    c.world = 1;
    expect_lacking("a world of 1 is not claimed");
    c.world = 64;
    c.precision = DTYPE_FP16;
    expect_lacking("the precision \"fp16\" is not claimed");
    c.precision = DTYPE_BF16;
    c.offload_optimizer = TIER_HOST;
    expect_lacking("the optimizer's offload \"cpu\" is not claimed");
    c.offload_optimizer = TIER_NVME;
    c.offload_param = TIER_NVME;
    expect_lacking("the parameters' offload \"nvme\" is not claimed");
    c.offload_param = TIER_HOST;
    expect_covered();
}

static void ask(enum claims_feature feature)
{
    struct case_param *p = &c.params[0];
    c.accumulation = feature == FEATURE_ACCUMULATION ? 2 : 1;
    c.gradient_clipping = feature == FEATURE_CLIPPING;
    c.loss_scale.kind = feature == FEATURE_STATIC_LOSS_SCALE    ? SCALE_STATIC
                        : feature == FEATURE_DYNAMIC_LOSS_SCALE ? SCALE_DYNAMIC
                                                                : SCALE_NONE;
    c.overflow_check = feature == FEATURE_OVERFLOW_CHECK;
    c.groups[0].decoupled = feature != FEATURE_L2;
    c.groups[0].bias_correction = feature != FEATURE_NO_BIAS_CORRECTION;
    c.groups[0].lr_by_step = feature == FEATURE_LR_SCHEDULE;
    c.groups[c.group_count] = c.groups[0];
    c.group_count += feature == FEATURE_GROUPS;
    c.params[c.param_count] = *p;
    c.params[c.param_count].tied_to = 0;
    c.param_count += feature == FEATURE_TIED;
    p->frozen = feature == FEATURE_FROZEN;
    p->used = feature != FEATURE_UNUSED;
    p->unused_in[c.steps - 1] = feature == FEATURE_VARYING_USE;
    p->shape[0] = p->count = feature == FEATURE_EMPTY ? 0 : 5;
    p->shape_rank = feature != FEATURE_SCALAR;
    c.phase = feature == FEATURE_RESUME ? PHASE_SAVE : feature == FEATURE_WEIGHTS_ONLY ? PHASE_RESUME : PHASE_WHOLE;
    c.weights_only = feature == FEATURE_WEIGHTS_ONLY;
    c.delayed_update = feature == FEATURE_DELAYED_UPDATE ? 2 : 0;
    c.expects_refusal = feature == FEATURE_REFUSAL;
}

Test(claims, dtypes_of_sums_are_sets_that_may_follow_the_precision)
{
    static const enum dtype all[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    plain_case();
    parse("\"communication_dtypes\": [\"precision\"], \"accumulation_dtypes\": [\"fp32\", \"bf16\"]");
    for (int i = 0; i < 9; i++) {
        c.precision = all[i % 3];
        c.communication_dtype = all[i / 3];
        c.accumulation_dtype = DTYPE_FP32;
        cr_expect_eq(claims_lack(&claims, &c, NULL, why) == 0, i % 3 == i / 3, "%d: %s", i, why);
        c.communication_dtype = c.precision;
        c.accumulation_dtype = all[i / 3];
        cr_expect_eq(claims_lack(&claims, &c, NULL, why) == 0, i / 3 < 2, "%d: %s", i, why);
    }
    c.communication_dtype = DTYPE_BF16;
    expect_lacking("the communication dtype \"bf16\", the accumulation dtype \"fp16\" are not claimed");
}

Test(claims, all_that_is_lacking_is_named_and_a_stage_lacks_more_than_a_feature)
{
    plain_case();
    parse("\"stages\": [1, 2], \"worlds\": [3], \"features\": [\"empty\"]");
    c.params[0].frozen = true;
    int feature = claims_lack(&claims, &c, NULL, why);
    c.params[0].frozen = false;
    c.stage = 0;
    int stage = claims_lack(&claims, &c, NULL, why);
    cr_expect(feature > 0 && stage > feature, "%d, %d", feature, stage);
    c.world = 4;
    ask(FEATURE_SCALAR);
    c.groups[0].lr_by_step = true;
    expect_lacking("stage 0, a world of 4, the features \"lr_schedule\", \"scalar\" are not claimed");
}

Test(claims, every_feature_is_derived_from_the_case)
{
    char more[1024], what[CLAIMS_TEXT_BYTES];
    for (int feature = 0; feature < FEATURE_COUNT; feature++) {
        if (feature == FEATURE_RESHARD)
            continue;
        // All features but one.
        size_t used = (size_t)snprintf(more, sizeof more, "\"features\": [");
        for (int i = 0, count = 0; i < FEATURE_COUNT; i++)
            if (i != feature)
                used += (size_t)snprintf(more + used, sizeof more - used, "%s\"%s\"", count++ ? ", " : "",
                                         claims_feature_name((enum claims_feature)i));
        snprintf(more + used, sizeof more - used, "]");
        parse(more);
        plain_case();
        expect_covered();
        ask((enum claims_feature)feature);
        snprintf(what, sizeof what, "the feature \"%s\" is not claimed",
                 claims_feature_name((enum claims_feature)feature));
        expect_lacking(what);
        parse("");
        expect_covered();
    }
    // No features at all.
    parse("\"features\": []");
    plain_case();
    expect_covered();
    c.groups[0].decoupled = false;
    c.groups[0].weight_decay = 0;
    expect_covered();
}

Test(claims, a_case_that_resumes_needs_both_halves)
{
    struct check_case other;
    plain_case();
    c.phase = PHASE_SAVE;
    other = c;
    other.phase = PHASE_RESUME;
    parse("\"worlds\": [3, 4], \"features\": [\"resume\"]");
    cr_expect(claims_lack(&claims, &c, &other, why) == 0);
    other.world = 4;
    cr_expect(claims_lack(&claims, &c, &other, why));
    cr_expect_str_eq(why, "the feature \"reshard\" is not claimed");
    parse("\"worlds\": [3, 4], \"features\": [\"resume\", \"reshard\"]");
    cr_expect(claims_lack(&claims, &c, &other, why) == 0);
    other.world = 5;
    cr_expect(claims_lack(&claims, &c, &other, why));
    cr_expect_str_eq(why, "a world of 5 is not claimed");
    cr_expect(claims_lack(&claims, &other, &c, why));
    cr_expect_str_eq(why, "a world of 5 is not claimed");
}

Test(claims, what_makes_no_sense_is_asked_where_refusals_are_claimed)
{
    plain_case();
    c.expects_refusal = true;
    c.stage = 7;
    c.world = 65;
    parse("\"stages\": [1], \"worlds\": [3]");
    expect_covered();
}

Test(claims, variants_are_named)
{
    parse("\"clip_form\": \"torch\", \"scaler\": \"torch\", \"unused\": \"untouched\"");
    cr_expect_eq(claims.clip, CLAIMS_CLIP_TORCH);
    cr_expect_eq(claims.scaler, SCALER_TORCH);
    cr_expect_eq(claims.unused, CLAIMS_UNUSED_UNTOUCHED);
    parse("\"clip_form\": \"deepspeed\", \"scaler\": \"megatron\", \"unused\": \"zero_gradient\"");
    cr_expect_eq(claims.clip, CLAIMS_CLIP_DEEPSPEED);
    cr_expect_eq(claims.scaler, SCALER_MEGATRON);
    cr_expect_eq(claims.unused, CLAIMS_UNUSED_ZERO_GRADIENT);
}

Test(claims, a_wrong_file_is_refused_with_its_line)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"[1]", "claims.json:1: is an array"},
        {"{\"name\": \"a\", \"version\": \"1\"}", "claims.json:1: contract: missing"},
        {"{\"contract\": 2,\n\"name\": \"a\", \"version\": \"1\"}", "claims.json:1: contract: is 2, expected"},
        {"{\"contract\": 1, \"name\": \"a\",\n\"stage\": [1], \"version\": \"1\"}", "json:2: stage: unknown key"},
        {"{\"contract\": 1, \"name\": \"a\",\n\"stages\": [4], \"version\": \"1\"}",
         "claims.json:2: stages: element 0 is 4, expected 0, 1, 2 or 3"},
        {"{\"contract\": 1, \"name\": \"a\", \"worlds\": [1, 2, 1], \"version\": \"1\"}",
         "worlds: element 2, 1, is listed twice"},
        {"{\"contract\": 1, \"name\": \"a\", \"features\": [\"tied\", \"tide\"], \"version\": \"1\"}",
         "features: element 1 is \"tide\", expected a word of the contract"},
        {"{\"contract\": 1, \"name\": \"a\", \"optional\": [\"muon\", \"adafactor\"], \"version\": \"1\"}",
         "optional: element 1 is \"adafactor\", which is not judged"},
        {"{\"contract\": 1, \"name\": \"a\", \"clip_form\": \"pytorch\", \"version\": \"1\"}",
         "clip_form: is \"pytorch\", expected one of \"torch\", \"deepspeed\""},
        {"{\"contract\": 1, \"name\": \"a\\u001b\", \"version\": \"1\"}", "name: is "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(claims_parse("claims.json", rows[i].text, strlen(rows[i].text), &claims), ERR_USAGE);
        cr_expect_not_null(strstr(err_message(), rows[i].why), "\"%s\" is not in: %s", rows[i].why, err_message());
    }
    cr_expect_eq(claims_read("/nowhere/claims.json", &claims), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "/nowhere/claims.json: cannot be opened"));
}

Test(claims, a_case_that_turns_a_knob_which_there_is_not_is_not_asked)
{
    static const struct {
        const char *name;
        enum claims_knob knob;
    } rows[] = {{"red-buckets.w2.s1.fp32.large", KNOB_BUCKETS}, {"part-bucket.w2.s1.fp32", KNOB_BUCKETS},
                {"det-overlap.w2.s1.fp32.on", KNOB_OVERLAP},    {"gather-prefetch.w2.s3.bf16", KNOB_PREFETCH},
                {"nvme-sub-groups.w2.s3.fp32", KNOB_SUB_GROUP}, {"red-bucketsome.w2.s1.fp32", KNOB_COUNT}};
    c = (struct check_case){.world = 2, .stage = 1, .group_count = 1, .groups = {{.bias_correction = true}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int claimed = 0; claimed <= KNOB_COUNT; claimed++) {
            claims_whole(&claims);
            claims.knobs = claimed < KNOB_COUNT ? ~(1u << claimed) : UINT32_MAX;
            snprintf(c.name, sizeof c.name, "%s", rows[i].name);
            bool covered = rows[i].knob == KNOB_COUNT || (int)rows[i].knob != claimed;
            cr_expect_eq(claims_lack(&claims, &c, NULL, why) == 0, covered, "%s: %s", c.name, why);
        }
}

static int read_claims(const char *text, size_t bytes)
{
    return claims_parse("claims.json", text, bytes, &claims);
}

Test(claims, the_schema_says_what_the_reader_takes)
{
    int changes =
        schema_check("conformance/schema/claims.schema.json", NULL,
                     "{\"contract\": 1, \"name\": \"a\", \"version\": \"1\", \"stages\": [0], "
                     "\"worlds\": [1], \"precisions\": [\"fp32\"], \"offload_optimizer\": [\"none\"], "
                     "\"offload_param\": [\"cpu\"], \"features\": [\"tied\"], \"knobs\": [\"overlap\"], "
                     "\"communication_dtypes\": [\"bf16\"], \"accumulation_dtypes\": [\"precision\"], "
                     "\"optional\": [\"tensor\"], \"clip_form\": \"torch\", "
                     "\"scaler\": \"torch\", \"unused\": \"untouched\", \"moments\": \"fp32\", \"master\": \"fp32\"}",
                     read_claims);
    cr_expect_gt(changes, 100, "%d", changes);
}
