// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "ref/config/config.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void becomes(const char *text, const char *json)
{
    size_t bytes;
    char *out = config_json_of_hjson(text, strlen(text), &bytes);
    cr_assert_not_null(out);
    cr_expect_eq(bytes, strlen(out));
    cr_expect_str_eq(out, json, "%s became %s", text, out);
    free(out);
}

Test(config_hjson, comments_become_spaces_and_lines_stay)
{
    becomes("{\"a\": 1} // b", "{\"a\": 1}     ");
    becomes("# x\n{\"a\": 1, /* y\nz */ \"b\": 2}", "   \n{\"a\": 1,     \n     \"b\": 2}");
    becomes("{\"a\": \"# no // comment /* \\\" // */\"}", "{\"a\": \"# no // comment /* \\\" // */\"}");
    becomes("{\"a\": 1 /* open }", "{\"a\": 1, /* open }");
}

Test(config_hjson, trailing_commas_and_missing_root_braces_are_accepted)
{
    becomes("{\"a\": [1, 2, ], }", "{\"a\": [1, 2  ]  }");
    becomes("\"a\": 1,\n\"b\": 2,\n", "{\"a\": 1,\n\"b\": 2 \n}");
    becomes("{\"a\": 1,, \"b\": 2}", "{\"a\": 1,, \"b\": 2}");
    becomes("[1]", "[1]");
    becomes("", "");
}

Test(config_hjson, keys_and_strings_need_no_quotes_and_values_on_lines_no_commas)
{
    becomes("{a: 1}", "{\"a\": 1}");
    becomes("a: 1\nb: {c: 'x' d: null}\n", "{\"a\": 1,\n\"b\": {\"c\": \"x\", \"d\": null}\n}");
    becomes("{a: {b: cpu # not a comment\n}\n c: [1 , 2\n3]}",
            "{\"a\": {\"b\": \"cpu # not a comment\"\n},\n \"c\": [1 , 2,\n3]}");
    becomes("a: 5e8 // many\nb: 5e8x\nc: false/**/", "{\"a\": 5e8,        \n\"b\": \"5e8x\",\n\"c\": false    }");
    becomes("{'a': 'it\\'s \"so\"', b: \"\\u0041\\\"\"}", "{\"a\": \"it's \\\"so\\\"\", \"b\": \"\\u0041\\\"\"}");
    becomes("a: \\d \"e\"\t\n", "{\"a\": \"\\\\d \\\"e\\\"\"\t\n}");
    becomes("a: 01\nb: -", "{\"a\": \"01\",\n\"b\": \"-\"}");
    becomes("\xef\xbb\xbf{a: 1}", "{\"a\": 1}");
}

Test(config_hjson, text_of_several_lines_loses_its_indent_and_keeps_the_lines_behind_it)
{
    becomes("a:\n  '''\n  x\n    y'z\n  '''\nb: 1", "{\"a\":\n  \"x\\n  y'z\"\n\n\n,\n\"b\": 1}");
    becomes("a: '''x'''", "{\"a\": \"x\"}");
    becomes("a: '''x", "{\"a\": \"x");
}

Test(config_hjson, what_hjson_refuses_stays_for_the_json_parser)
{
    becomes("{a b: 1}", "{a b: 1}");
    becomes("{: 1}", "{: 1}");
    becomes("{a: ]}", "{\"a\": ]}");
    becomes("{a: 1} b", "{\"a\": 1} b");
}

// The first of them ends the search for comments, which would otherwise take a square of steps.
Test(config_hjson, a_text_of_open_comments_stays_as_it_is)
{
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES + 1);
    cr_assert_not_null(text);
    for (int i = 0; i < BYTES; i++)
        text[i] = i % 4 == 0 ? '/' : i % 4 == 1 ? '*' : ' ';
    text[BYTES] = '\0';
    becomes(text, text);
    free(text);
}

static int load(const char *text, struct config *out)
{
    const struct config_options options = {.world = 2};
    return config_load_text("c.json", text, strlen(text), &options, out, NULL);
}

Test(config_hjson, a_configuration_may_have_them_and_errors_keep_their_lines)
{
    struct config config;
    cr_assert_eq(load("# ours\n\"zero_optimization\": {\n  \"stage\": 3, // all\n},\n\"train_batch_size\": 8", &config),
                 ERR_NONE, "%s", err_message());
    cr_expect_eq(config.stage, 3);
    cr_expect_eq(config.train_batch, 8);
    cr_expect_eq(load("{\n// one\n\"train_batch_size\": 8, # two\n\"zero_optimization\": {\"stage\": 4}}", &config),
                 ERR_USAGE);
    cr_expect(strstr(err_message(), "c.json:4: zero_optimization.stage"), "%s", err_message());
    cr_assert_eq(load("train_batch_size: 8\nzero_optimization: {\n  stage: 2\n}", &config), ERR_NONE, "%s",
                 err_message());
    cr_expect_eq(config.stage, 2);
    cr_expect_eq(load("train_batch_size: 8\nzero_optimization: {\n  stage: two\n}", &config), ERR_USAGE);
    cr_expect(strstr(err_message(), "c.json:3: zero_optimization.stage: is \"two\""), "%s", err_message());
}

static struct config_notes notes;

static int load_accelerate(const char *text, struct config *out)
{
    const struct config_options options = {.world = 4};
    char folder[PATH_MAX], path[PATH_MAX + 16];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/a.%s", folder, *text == '{' ? "json" : "yaml");
    folder_write(path, text, strlen(text));
    int code = config_load_file(path, &options, out, &notes);
    folder_remove(folder);
    return code;
}

static bool is_noted(const char *key)
{
    for (size_t i = 0; i < notes.count; i++)
        if (notes.notes[i].kind == CONFIG_FOREIGN && strcmp(notes.notes[i].value, key) == 0)
            return true;
    return false;
}

Test(config_accelerate, its_deepspeed_section_means_the_same_as_deepspeeds_keys)
{
    struct config config;
    cr_assert_eq(load_accelerate("compute_environment: LOCAL_MACHINE\n"
                                 "deepspeed_config:\n"
                                 "  gradient_accumulation_steps: 2\n"
                                 "  gradient_clipping: 0.5\n"
                                 "  offload_optimizer_device: cpu\n"
                                 "  offload_param_device: 'cpu'\n"
                                 "  zero3_init_flag: true\n"
                                 "  zero_stage: 3\n"
                                 "distributed_type: DEEPSPEED\n"
                                 "mixed_precision: bf16\n",
                                 &config),
                 ERR_NONE, "%s", err_message());
    cr_expect_eq(config.stage, 3);
    cr_expect_eq(config.accumulation, 2);
    cr_expect_eq(config.micro_batch, 1);
    cr_expect_eq(config.gradient_clipping, 0.5);
    cr_expect_eq(config.offload_optimizer.tier, TIER_HOST);
    cr_expect_eq(config.offload_param.tier, TIER_HOST);
    cr_expect_eq(config.precision, DTYPE_BF16);
    cr_expect(is_noted("compute_environment") && is_noted("deepspeed_config.zero3_init_flag"));
    cr_expect_not(is_noted("deepspeed_config.zero_stage"));
}

Test(config_accelerate, fsdp_settings_are_stages)
{
    static const struct {
        const char *setting;
        int stage;
        enum dtype sums;
    } settings[] = {
        {"fsdp_sharding_strategy: FULL_SHARD", 3, DTYPE_FP32}, {"fsdp_sharding_strategy: 2", 2, DTYPE_FP32},
        {"fsdp_sharding_strategy: NO_SHARD", 0, DTYPE_BF16},   {"fsdp_reshard_after_forward: True", 3, DTYPE_FP32},
        {"fsdp_reshard_after_forward: false", 2, DTYPE_FP32},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct config config;
        char text[256];
        snprintf(text, sizeof text, "fsdp_config: {%s, fsdp_activation_checkpointing: %s}\nmixed_precision: bf16\n",
                 settings[i].setting, i % 2 ? "true" : "false");
        cr_assert_eq(load_accelerate(text, &config), ERR_NONE, "%s: %s", text, err_message());
        cr_expect_eq(config.stage, settings[i].stage, "%s", text);
        cr_expect_eq(config.accumulation_dtype, settings[i].sums, "%s", text);
        cr_expect_eq(config.activation_checkpointing, i % 2, "%s", text);
    }
}

Test(config_accelerate, what_cannot_be_read_is_refused_by_line_and_key)
{
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"debug: false\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
         "a.yaml:3: fsdp_config.fsdp_sharding_strategy"},
        {"debug: false\nmixed_precision: fp8\n", "a.yaml:2: mixed_precision: is fp8, expected no, bf16 or fp16"},
        {"deepspeed_config: {deepspeed_config_file: ds.json}\n", "a.yaml: the file of DeepSpeed that it names: "},
        {"deepspeed_config:\n  zero_stage: 4\n", "a.yaml:2: deepspeed_config.zero_stage: is 4, expected"},
        {"mixed_precision: bf16\n", "deepspeed_config.zero_stage: missing"},
        {"a: [1\nb: 2\n", "is not YAML"},
        {"- 1\n", "expected keys"},
        {"distributed_type: FSDP\nmixed_precison: bf16\n",
         "a.yaml:2: mixed_precison: unknown key of Accelerate; did you mean \"mixed_precision\"?"},
        {"fsdp_config:\n  fsdp_version: 2\n  fsdp_offload_parms: true\n",
         "a.yaml:3: fsdp_config.fsdp_offload_parms: unknown key of Accelerate; did you mean \"fsdp_offload_params\"?"},
        {"fsdp_confg:\n  fsdp_version: 2\n", "a.yaml:1: fsdp_confg: unknown key of Accelerate; did you mean"},
        {"base_model: some/model\nadapter: qlora\nmicro_batch_size: 2\nfsdp_config:\n  fsdp_offload_params: true\n",
         "a.yaml:2: adapter: is qlora, expected full training: plans have adapters"},
        {"model_name_or_path: m\nfinetuning_type: lora\noutput_dir: o\nlearning_rate: 1e-4\n",
         "a.yaml:2: finetuning_type: is lora, expected full training: plans have adapters"},
        {"distributed_type: FSDP\nparallelism_config:\n  parallelism_config_cp_size: 2\n",
         "a.yaml:3: parallelism_config.parallelism_config_cp_size: is 2, expected 1: plans alone divide"},
        {"distributed_type: FSDP\nparallelism_config:\n  parallelism_config_tp_size: two\n",
         "a.yaml:3: parallelism_config.parallelism_config_tp_size: expected a whole number"},
        {"distributed_type: MEGATRON_LM\n", "expected DEEPSPEED, FSDP"},
        {"distributed_type: XLA\n", "expected DEEPSPEED, FSDP"},
        {"", "expected keys"},
        {"debug: false\nfsdp_config:\n  fsdp_version: 1\n  a: 2\n  fsdp_version: 2\n",
         "a.yaml:5: fsdp_version: given twice, first on line 3; expected it once"},
        {"{\"fsdp_config\": {},\n\"fsdp_config\": {}}", "a.json:2: fsdp_config: given twice, first on line 1"},
        {"---\nmixed_precision: bf16\n---\nmixed_precision: no\n", "a.yaml:3: begins a second document, expected one"},
        {"mixed_precision: bf16\n...\n\na: 1\n", "a.yaml:4: begins a second document, expected one"},
        {"mixed_precision: bf16\n---\n", "a.yaml:2: begins a second document, expected one"},
        {"%TAG !a! tag:b\n---\na: 1\n", "a.yaml:1: has a directive of tags, expected keys"},
        {"a: 1\nmixed_precision: \"bf16\\0 or not\"\n", "a.yaml:2: holds a NUL character, expected text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct config config;
        cr_expect_eq(load_accelerate(bad[i].text, &config), ERR_USAGE, "%s", bad[i].text);
        cr_expect(strstr(err_message(), bad[i].expected), "%s: %s", bad[i].text, err_message());
    }
}

// libyaml alone takes minutes for some of these. A text is HEAD and as many of PIECE as make 500 KiB.
Test(config_accelerate, a_text_past_the_limits_is_refused_before_it_takes_time, .timeout = 20)
{
    static const struct {
        const char *head, *piece, *expected;
    } texts[] = {
        {"a: 1\nb: ", "[", "a.yaml:2: nests more than 64 lists and sections"},
        {"a: 1\nb: ", "{a: ", "a.yaml:2: nests more than 64 lists and sections"},
        {"", "- ", "a.yaml:1: nests more than 64 lists and sections"},
        {"", "? ", "a.yaml:1: nests more than 64 lists and sections"},
        {"a:\n", "- &%07d 1\n", "a.yaml:258: has more than 256 anchors"},
        {"", "%%TAG !%07d! tag:b\n", "a.yaml:1: has a directive of tags"},
    };
    char *text = malloc(501 << 10);
    cr_assert(text);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t used = (size_t)sprintf(text, "%s", texts[i].head);
        for (int piece = 0; used < 500 << 10; piece++)
            used += (size_t)sprintf(text + used, texts[i].piece, piece);
        struct config config;
        cr_expect_eq(load_accelerate(text, &config), ERR_USAGE, "%s", texts[i].piece);
        cr_expect(strstr(err_message(), texts[i].expected), "%s: %s", texts[i].piece, err_message());
    }
    free(text);
}

Test(config_accelerate, depth_and_anchors_within_the_limits_are_read)
{
    char text[8192] = "distributed_type: FSDP\nfsdp_config: {fsdp_version: &a1 2}\ndebug: ";
    size_t used = strlen(text);
    for (int i = 2; i < 257; i++)
        used += (size_t)sprintf(text + used, "%s&a%d x", i == 2 ? "[" : ", ", i);
    sprintf(text + used, "]\n");
    struct config config;
    cr_expect_eq(load_accelerate(text, &config), ERR_NONE, "%s", err_message());
    used = (size_t)sprintf(text, "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\ndebug: ");
    memset(text + used, '[', 63);
    memset(text + used + 63, ']', 63);
    strcpy(text + used + 126, "\n");
    cr_expect_eq(load_accelerate(text, &config), ERR_NONE, "%s", err_message());
}

Test(config_accelerate, parallelism_is_a_mesh_and_fsdp_alone_shards_all)
{
    struct config config;
    cr_assert_eq(
        load_accelerate("distributed_type: FSDP\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n"
                        "  parallelism_config_dp_shard_size: 2\n  parallelism_config_cp_size: 1\n",
                        &config),
        ERR_NONE, "%s", err_message());
    cr_expect_eq(config.stage, 3);
    cr_expect_eq(config.accumulation_dtype, DTYPE_FP32);
    cr_expect_eq(config.mesh.replicate, 2);
    cr_expect_eq(config.mesh.shard, 2);
}

Test(config_accelerate, is_read_from_json_too)
{
    struct config config;
    cr_assert_eq(load_accelerate("{\"distributed_type\": \"FSDP\", \"mixed_precision\": \"bf16\", \"fsdp_config\": "
                                 "{\"fsdp_version\": 2, \"fsdp_reshard_after_forward\": false}}",
                                 &config),
                 ERR_NONE, "%s", err_message());
    cr_expect_eq(config.stage, 2);
    cr_expect_eq(config.precision, DTYPE_BF16);
}
