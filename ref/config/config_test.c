// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_test.h"

#include <limits.h>

// Loads the smallest configuration with overrides.
static int load_set(struct config *out, size_t count, const char *const set[])
{
    return load_with("{\n'train_micro_batch_size_per_gpu': 4,\n'gradient_clipping': 0.5}",
                     (struct config_options){.world = 2, .set = set, .set_count = count}, out);
}

Test(config, missing_keys_have_the_defaults_of_deepspeed)
{
    struct config c = load("{'train_batch_size': 8}");
    cr_expect_eq(c.stage, 0);
    cr_expect_eq(c.precision, DTYPE_FP32);
    cr_expect_eq(c.communication_dtype, DTYPE_FP32);
    cr_expect_eq(c.accumulation_dtype, DTYPE_FP32);
    cr_expect_not(c.check_overflow);
    cr_expect_eq(c.gradient_clipping, 1.0);
    cr_expect_eq(c.clip_form, CLIP_DEEPSPEED);
    cr_expect_eq(c.adam.lr, 1e-3);
    cr_expect_eq(c.adam.beta1, 0.9);
    cr_expect_eq(c.adam.beta2, 0.999);
    cr_expect_eq(c.adam.eps, 1e-8);
    cr_expect_eq(c.adam.weight_decay, 0.0);
    cr_expect(c.adam.decoupled);
    cr_expect(c.adam.bias_correction);
    cr_expect_str_eq(c.recipe, "torch-cpu");
    cr_expect_eq(c.scheduler.type, SCHEDULER_NONE);
    cr_expect_eq(c.reduce_bucket_size, 500000000u);
    cr_expect_eq(c.allgather_bucket_size, 500000000u);
    cr_expect_not(c.overlap_comm);
    cr_expect(c.contiguous_gradients);
    cr_expect_eq(c.prefetch_bucket_size, 50000000u);
    cr_expect_eq(c.param_persistence_threshold, 100000u);
    cr_expect_eq(c.model_persistence_threshold, (size_t)LLONG_MAX);
    cr_expect_eq(c.max_live_parameters, 1000000000u);
    cr_expect_eq(c.max_reuse_distance, 1000000000u);
    cr_expect_not(c.loss_scale.dynamic);
    cr_expect_eq(c.loss_scale.static_scale, 1.0);
    cr_expect_eq(notes.count, 0u);
}

Test(config, fp16_scales_dynamically_with_the_defaults_of_deepspeed)
{
    struct config c = load_body("'fp16': {'enabled': true}");
    cr_expect_eq(c.precision, DTYPE_FP16);
    cr_expect(c.check_overflow);
    cr_expect(c.loss_scale.dynamic);
    cr_expect_eq(c.loss_scale.initial_scale_power, 16u);
    cr_expect_eq(c.loss_scale.window, 1000u);
    cr_expect_eq(c.loss_scale.hysteresis, 2u);
    cr_expect_eq(c.loss_scale.min_scale, 1.0);
    cr_expect_not(c.loss_scale.consecutive_hysteresis);
}

Test(config, a_static_loss_scale_ignores_the_keys_of_the_dynamic_one)
{
    struct config c = load_body("'fp16': {'enabled': true, 'loss_scale': 128, 'loss_scale_window': 0}");
    cr_expect_not(c.loss_scale.dynamic);
    cr_expect_eq(c.loss_scale.static_scale, 128.0);
}

Test(config, every_form_of_the_batch_triple_is_completed)
{
    const struct {
        int world;
        size_t train, micro, accumulation;  // 0: not written
        size_t expected[3];
    } CASES[] = {
        {2, 32, 4, 4, {32, 4, 4}},  {2, 32, 4, 0, {32, 4, 4}},  {2, 32, 0, 4, {32, 4, 4}}, {2, 0, 4, 4, {32, 4, 4}},
        {2, 32, 0, 0, {32, 16, 1}}, {2, 0, 4, 0, {8, 4, 1}},    {3, 12, 0, 2, {12, 2, 2}}, {1, 5, 5, 1, {5, 5, 1}},
        {3, 33, 0, 0, {33, 11, 1}}, {11, 44, 2, 0, {44, 2, 2}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[256] = "{", *separator = "";
        const char *names[] = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};
        const size_t values[] = {CASES[i].train, CASES[i].micro, CASES[i].accumulation};
        for (int k = 0; k < 3; k++) {
            if (!values[k])
                continue;
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s'%s': %zu", separator, names[k], values[k]);
            separator = ", ";
        }
        strcat(text, "}");
        struct config c;
        cr_assert_eq(load_with(text, (struct config_options){.world = CASES[i].world}, &c), ERR_NONE, "%s",
                     err_message());
        cr_expect_eq(c.train_batch, CASES[i].expected[0], "%s", text);
        cr_expect_eq(c.micro_batch, CASES[i].expected[1], "%s", text);
        cr_expect_eq(c.accumulation, CASES[i].expected[2], "%s", text);
    }
}

Test(config, a_batch_that_does_not_multiply_names_all_three_and_the_world)
{
    struct config c;
    cr_expect_eq(load_with("{'train_batch_size': 10}", (struct config_options){.world = 3}, &c), ERR_USAGE);
    cr_expect_str_eq(err_message(), "x.json:1: train_batch_size: is 10, expected train_micro_batch_size_per_gpu x "
                                    "gradient_accumulation_steps x world = 3 (derived) x 1 (derived) x 3 = 9");
}

Test(config, adam_means_adamw_unless_adam_w_mode_is_false)
{
    cr_expect(load_body("'optimizer': {'type': 'Adam'}").adam.decoupled);
    cr_expect(load_body("'optimizer': {'type': 'adamw'}").adam.decoupled);
    cr_expect_not(load_body("'optimizer': {'type': 'ADAM', 'params': {'adam_w_mode': false}}").adam.decoupled);
}

Test(config, overlap_is_on_by_default_only_in_stage_3)
{
    for (int stage = 0; stage < 4; stage++) {
        char body[128];
        snprintf(body, sizeof body, "'zero_optimization': {'stage': %d, 'overlap_comm': null}", stage);
        cr_expect_eq(load_body(body).overlap_comm, stage == 3);
    }
    cr_expect(load_body("'zero_optimization': {'stage': 1, 'overlap_comm': true}").overlap_comm);
}

Test(config, dtypes_follow_the_model_over_micro_steps_too)
{
    struct config one = load_body("'bf16': {'enabled': true}");
    cr_expect_eq(one.precision, DTYPE_BF16);
    cr_expect_eq(one.communication_dtype, DTYPE_BF16);
    cr_expect_eq(one.accumulation_dtype, DTYPE_BF16);
    cr_expect(one.check_overflow);
    struct config two = load_body("'bf16': {'enabled': true}, 'gradient_accumulation_steps': 2");
    cr_expect_eq(two.accumulation_dtype, DTYPE_BF16);
    cr_expect_eq(two.communication_dtype, DTYPE_BF16);
    struct config written = load_body("'bf16': {'enabled': true, 'check_grad_overflow': false}, "
                                      "'zero_optimization': {'stage': 2}, 'communication_data_type': 'fp32', "
                                      "'gradient_accumulation_steps': 2, "
                                      "'data_types': {'grad_accum_dtype': 'fp32', 'param_dtype': 'bf16'}");
    cr_expect_eq(written.communication_dtype, DTYPE_FP32);
    cr_expect_eq(written.accumulation_dtype, DTYPE_FP32);
    cr_expect_not(written.check_overflow);
}

Test(config, schedulers_have_their_parameters_and_defaults)
{
    struct config warm = load_body("'scheduler': {'type': 'WarmupLR', 'params': {'warmup_type': 'linear'}}");
    cr_expect_eq(warm.scheduler.type, SCHEDULER_WARMUP);
    cr_expect(warm.scheduler.warmup_linear);
    cr_expect_eq(warm.scheduler.warmup_num_steps, 1000u);
    cr_expect_eq(warm.scheduler.warmup_max_lr, 1e-3);
    struct config own = load_body("'optimizer': {'type': 'Adam', 'params': {'lr': 0.5}}, 'scheduler': "
                                  "{'type': 'WarmupDecayLR', 'params': {'total_num_steps': 20}}");
    cr_expect_eq(own.scheduler.type, SCHEDULER_WARMUP_DECAY);
    cr_expect_eq(own.scheduler.warmup_max_lr, 1e-3);
    cr_expect_eq(own.scheduler.total_num_steps, 20u);
    struct config group = load_body("'optimizer': {'type': 'Adam', 'params': {'lr': 0.5}}, 'scheduler': "
                                    "{'type': 'WarmupLR', 'params': {'warmup_max_lr': null}}");
    cr_expect_eq(group.scheduler.warmup_max_lr, 0.5);
    struct config plain = load_body("'optimizer': {'type': 'Adam', 'params': {'lr': 0.5}}, 'scheduler': "
                                    "{'type': 'WarmupLR'}");
    cr_expect_eq(plain.scheduler.warmup_max_lr, 0.5);
    struct config cosine = load_body("'scheduler': {'type': 'WarmupCosineLR', 'params': {'total_num_steps': "
                                     "1e3, 'warmup_min_ratio': 0.25}}");
    cr_expect_eq(cosine.scheduler.type, SCHEDULER_WARMUP_COSINE);
    cr_expect_eq(cosine.scheduler.cos_min_ratio, 1e-4);
    cr_expect_eq(cosine.scheduler.warmup_min_ratio, 0.25);
    cr_expect_eq(cosine.scheduler.total_num_steps, 1000u);
}

Test(config, old_names_are_accepted)
{
    cr_expect_eq(load_body("'zero_optimization': true").stage, 1);
    cr_expect_eq(load_body("'zero_optimization': false").stage, 0);
    cr_expect_eq(load_body("'bfloat16': {'enabled': true}").precision, DTYPE_BF16);
    struct config c = load_body("'zero_optimization': {'stage': 3, 'max_live_parameters': 77, "
                                "'prefetch_bucket_size': 5e3}");
    cr_expect_eq(c.max_live_parameters, 77u);
    cr_expect_eq(c.prefetch_bucket_size, 5000u);
}

Test(config, a_reduce_bucket_size_of_zero_means_one)
{
    cr_expect_eq(load_body("'zero_optimization': {'reduce_bucket_size': 0}").reduce_bucket_size, 1u);
}

Test(config, keys_without_effect_are_accepted_and_listed)
{
    static const char BODY[] =
        "'steps_per_print': 10, 'wall_clock_breakdown': 'auto', 'amp': {'enabled': false, 'opt_level': 'O1'}, "
        "'comms_logger': {'enabled': true, 'anything': [1]}, 'zero_optimization': {'stage': 1, "
        "'round_robin_gradients': true, 'stage3_max_live_parameters': 5, 'legacy_stage1': false, "
        "'offload_optimizer': {'device': 'none', 'pin_memory': true}}, 'optimizer': {'type': 'Adam', "
        "'params': {'torch_adam': true}}, 'aio': {'queue_depth': 32, 'block_size': 'auto'}";
    cr_expect_eq(load_body("'gradient_predivide_factor': 1.0, 'prescale_gradients': false").stage, 0);
    cr_expect_eq(notes.count, 0u);
    load_body(BODY);
    expect_ignored("steps_per_print wall_clock_breakdown amp comms_logger zero_optimization.round_robin_gradients "
                   "zero_optimization.stage3_max_live_parameters zero_optimization.offload_optimizer.pin_memory "
                   "optimizer.params.torch_adam aio");
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    config_print_notes(&notes, file);
    fclose(file);
    cr_expect(strstr(text, "steps_per_print: accepted, but has no effect here\n"), "%s", text);
    free(text);
}

Test(config, auto_is_resolved_and_shown)
{
    // The values that the Hugging Face Trainer fills in.
    static const char TEXT[] =
        "{'train_batch_size': 'auto', 'train_micro_batch_size_per_gpu': 'auto', "
        "'gradient_accumulation_steps': 'auto', 'gradient_clipping': 'auto', "
        "'fp16': {'enabled': 'auto', 'loss_scale': 0}, 'bf16': {'enabled': 'auto'}, "
        "'optimizer': {'type': 'AdamW', 'params': {'lr': 'auto', 'betas': 'auto', 'eps': 'auto', "
        "'weight_decay': 'auto'}}, 'scheduler': {'type': 'WarmupDecayLR', 'params': {'warmup_min_lr': "
        "'auto', 'warmup_max_lr': 'auto', 'warmup_num_steps': 'auto', 'total_num_steps': 'auto'}}, "
        "'zero_optimization': {'stage': 3, 'reduce_bucket_size': 'auto', 'stage3_prefetch_bucket_size': "
        "'auto', 'stage3_param_persistence_threshold': 'auto'}}";
    struct config c;
    struct config_options options = {.world = 3, .steps = 70};
    cr_assert_eq(load_with(TEXT, options, &c), ERR_NONE, "%s", err_message());
    cr_expect_eq(c.micro_batch, 1u);
    cr_expect_eq(c.train_batch, 3u);
    cr_expect_eq(c.scheduler.total_num_steps, 70u);
    cr_expect_eq(c.scheduler.warmup_max_lr, c.adam.lr);
    const struct {
        const char *key, *value;
    } NOTES[] = {{"train_batch_size", "3"},
                 {"gradient_clipping", "1.0"},
                 {"scheduler.params.warmup_num_steps", "1"},
                 {"optimizer.params.betas", "[0.9,0.999]"},
                 {"optimizer.params.lr", "5e-5"},
                 {"scheduler.params.total_num_steps", "70"},
                 {"zero_optimization.stage3_prefetch_bucket_size", "50000000"}};
    cr_expect_eq(notes.count, 16u, "%zu", notes.count);
    cr_expect_eq(c.precision, DTYPE_BF16);
    cr_assert_eq(load_with("{'train_batch_size': 3, 'fp16': {'enabled': 'auto'}, '_comment': 'ours'}", options, &c),
                 ERR_NONE, "%s", err_message());
    cr_expect_eq(c.precision, DTYPE_FP16);
    cr_assert_eq(
        load_with("{'train_batch_size': 3, 'fp16': {'enabled': true}, 'bf16': {'enabled': 'auto'}}", options, &c),
        ERR_NONE, "%s", err_message());
    cr_expect_eq(c.precision, DTYPE_FP16);
    cr_assert_eq(load_with(TEXT, options, &c), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < sizeof NOTES / sizeof *NOTES; i++) {
        const struct config_note *note = note_on(NOTES[i].key);
        cr_assert(note && note->kind == CONFIG_AUTO, "%s", NOTES[i].key);
        cr_expect_str_eq(note->value, NOTES[i].value, "%s: %s", NOTES[i].key, note->value);
    }
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    config_print_notes(&notes, file);
    fclose(file);
    cr_expect(
        strstr(text, "\nbf16.enabled, fp16.enabled: \"auto\" is bf16, where no file of the model says otherwise\n"),
        "%s", text);
    free(text);
}

Test(config, overrides_are_json_or_strings_and_the_last_one_wins)
{
    struct config c;
    const char *set[] = {"zero_optimization.stage=1",          "zero_optimization.stage=2",
                         "zerogauge.clip_form=torch",          "optimizer={\"type\": \"Adam\"}",
                         "optimizer.params.betas=[0.5, 0.75]", "optimizer.params.lr=2e-3",
                         "zero_optimization.overlap_comm=true"};
    cr_assert_eq(load_set(&c, sizeof set / sizeof *set, set), ERR_NONE, "%s", err_message());
    cr_expect_eq(c.stage, 2);
    cr_expect_eq(c.clip_form, CLIP_TORCH);
    cr_expect_eq(c.adam.beta1, 0.5);
    cr_expect_eq(c.adam.beta2, 0.75);
    cr_expect_eq(c.adam.lr, 2e-3);
    cr_expect(c.overlap_comm);
    cr_expect_eq(c.gradient_clipping, 0.5);
}

Test(config, an_override_reaches_into_a_section_that_is_null)
{
    struct config c;
    const char *set[] = {"optimizer=null", "optimizer.type=Adam", "optimizer.params.lr=0.25"};
    cr_assert_eq(load_set(&c, 3, set), ERR_NONE, "%s", err_message());
    cr_expect_eq(c.adam.lr, 0.25);
}

Test(config, an_auto_key_without_effect_is_noted_once)
{
    load_body("'zero_optimization': {'stage': 1, 'stage3_max_live_parameters': 'auto'}");
    cr_expect_eq(notes.count, 1u);
    load_body("'zero_optimization': {'stage': 3, 'max_live_parameters': 'auto'}");
    cr_expect_eq(notes.count, 1u);
    cr_expect_str_eq(notes.notes[0].key, "zero_optimization.stage3_max_live_parameters");
    cr_expect_str_eq(notes.notes[0].value, "1000000000");
}

Test(config, a_wrong_override_is_named_instead_of_a_line)
{
    const struct {
        const char *set, *message;
    } CASES[] = {
        {"gradient_clipping=NaN", "--set gradient_clipping=NaN: gradient_clipping: is \"NaN\", expected a number "
                                  "from 0 to 3.40282e+38"},
        {"gradient_clipping=-1", "--set gradient_clipping=-1: gradient_clipping: is -1, expected a number"},
        {"zero_optimization={\"stage\": 7}", "--set zero_optimization={\"stage\": 7}: zero_optimization.stage: is 7, "},
        {"fp16.enable=1", "--set fp16.enable=1: fp16.enable: unknown key; did you mean \"enabled\"?"},
        {"gradient_clipping.x=1", "--set gradient_clipping.x=1: \"gradient_clipping\" is not an object"},
        {"gradient_clipping", "--set gradient_clipping: expected path.to.key=value"},
        {"=1", "--set =1: expected path.to.key=value"},
        {".x=1", "--set .x=1: expected path.to.key=value"},
        {"x.=1", "--set x.=1: expected path.to.key=value"},
        {"fp16..enabled=true", "--set fp16..enabled=true: expected path.to.key=value"},
        {"a\xff=1", "--set a\\xff=1: is not UTF-8"},
        {"zerogauge.recipe=\xff", "--set zerogauge.recipe=\\xff: is not UTF-8"},
        {"steps=1e400", "--set steps=1e400: steps: unknown key"},
        {"fp16={\"enabled\": 1, \"enabled\": 0}", "--set fp16={\"enabled\": 1, \"enabled\": 0}: fp16: is \"{"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct config c;
        cr_expect_eq(load_set(&c, 1, &CASES[i].set), ERR_USAGE, "%s", CASES[i].set);
        cr_expect(strncmp(err_message(), CASES[i].message, strlen(CASES[i].message)) == 0, "%s", err_message());
    }
}

Test(config, an_override_longer_than_any_key_is_refused)
{
    char path[100000];
    memset(path, 'a', sizeof path);
    for (size_t i = 1; i < 99988; i += 2)
        path[i] = '.';
    strcpy(path + 99990, "=1");
    struct config c;
    const char *set[] = {path};
    cr_expect_eq(load_set(&c, 1, set), ERR_USAGE);
    cr_expect(strstr(err_message(), "...: the path is longer than any key"), "%s", err_message());
}

Test(config, an_error_in_the_file_does_not_name_an_override)
{
    struct config c;
    const char *set[] = {"zero_optimization.stage=1"};
    struct config_options options = {.world = 2, .set = set, .set_count = 1};
    const char *text = "{'train_batch_size': 4, 'zero_optimization': {\n'stage3_max_live_parameters': -1}}";
    cr_expect_eq(load_with(text, options, &c), ERR_USAGE);
    cr_expect(strncmp(err_message(), "x.json:2: zero_optimization.stage3_max_live_parameters: is -1", 60) == 0, "%s",
              err_message());
}

// The configuration without its placement: number of ranks, tiers of states, and the buffers between them.
static struct config unplaced(struct config config)
{
    const struct config device = load("{'train_batch_size': 8}");
    config.stage = 0;
    config.prefetch_bucket_size = device.prefetch_bucket_size;
    config.param_persistence_threshold = device.param_persistence_threshold;
    config.max_live_parameters = device.max_live_parameters;
    config.max_reuse_distance = device.max_reuse_distance;
    config.offload_optimizer = device.offload_optimizer;
    config.offload_param = device.offload_param;
    config.gradient_tier = config.activation_tier = TIER_DEVICE;
    config.activation_checkpointing = false;
    config.sub_group_size = device.sub_group_size;
    config.nvme_path_count = 0;
    config.aio = device.aio;
    return config;
}

Test(config, the_presets_differ_only_in_placement)
{
    static const struct {
        const char *name;
        int stage;
        enum ledger_tier optimizer, param, gradient, activation;
    } PRESETS[] = {
        {"zero0", 0, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
        {"zero1", 1, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
        {"zero2", 2, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
        {"zero2_offload", 2, TIER_HOST, TIER_DEVICE, TIER_HOST, TIER_DEVICE},
        {"zero3", 3, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
        {"zero3_offload", 3, TIER_HOST, TIER_HOST, TIER_HOST, TIER_DEVICE},
        {"zero_infinity", 3, TIER_NVME, TIER_NVME, TIER_NVME, TIER_HOST},
    };
    enum { PRESET_COUNT = sizeof PRESETS / sizeof *PRESETS };
    const char *path = "/somewhere";
    struct config_options options = {.world = 2, .nvme_paths = &path, .nvme_path_count = 1};
    struct config first, c;
    cr_assert_eq(config_load_preset("zero0", &options, &first, NULL), ERR_NONE);
    cr_expect_eq(first.precision, DTYPE_BF16);
    for (size_t i = 0; i < PRESET_COUNT; i++) {
        cr_expect_str_eq(config_preset_name(i), PRESETS[i].name);
        cr_assert_eq(config_load_preset(PRESETS[i].name, &options, &c, &notes), ERR_NONE, "%s", err_message());
        cr_expect_eq(notes.count, 0u, "%s", PRESETS[i].name);
        cr_expect_eq(c.stage, PRESETS[i].stage);
        cr_expect_eq(c.offload_optimizer.tier, PRESETS[i].optimizer, "%s", PRESETS[i].name);
        cr_expect_eq(c.offload_param.tier, PRESETS[i].param, "%s", PRESETS[i].name);
        cr_expect_eq(c.gradient_tier, PRESETS[i].gradient, "%s", PRESETS[i].name);
        cr_expect_eq(c.activation_tier, PRESETS[i].activation, "%s", PRESETS[i].name);
        cr_expect_eq(c.prefetch_bucket_size, c.stage == 3 ? 100000u : 50000000u, "%s", PRESETS[i].name);
        struct config other = unplaced(c), expected = unplaced(first);
        expect_same(&other, &expected);
    }
    cr_expect_null(config_preset_name(PRESET_COUNT));
}

Test(config, the_preset_for_nvme_overlaps_and_takes_its_path_from_the_command_line)
{
    const char *paths[] = {"/one", "/two"};
    struct config_options options = {.world = 2, .nvme_paths = paths, .nvme_path_count = 2};
    struct config c;
    cr_assert_eq(config_load_preset("zero_infinity", &options, &c, NULL), ERR_NONE, "%s", err_message());
    cr_expect_eq(c.nvme_path_count, 2);
    cr_expect(c.offload_optimizer.pipeline_read && c.offload_optimizer.pipeline_write);
    cr_expect_geq(c.offload_optimizer.buffer_count, 10u);
    cr_expect(c.activation_checkpointing);
    // Host memory for the optimizer's buffers.
    cr_expect_leq(c.offload_optimizer.buffer_count * c.sub_group_size * sizeof(float), 64u << 20);
    options.nvme_path_count = 0;
    cr_expect_eq(config_load_preset("zero_infinity", &options, &c, NULL), ERR_USAGE);
    cr_expect_str_eq(err_message(), "zero_infinity:29: zero_optimization.offload_optimizer.device: is \"nvme\" and no "
                                    "path is given, expected --nvme-path DIR or "
                                    "zero_optimization.offload_optimizer.nvme_path");
}

Test(config, an_unknown_preset_is_answered_with_the_known_ones)
{
    struct config_options options = {.world = 2};
    struct config c;
    cr_expect_eq(config_load_preset("zero4", &options, &c, NULL), ERR_USAGE);
    cr_expect_str_eq(err_message(), "unknown preset \"zero4\", expected one of zero0, zero1, zero2, "
                                    "zero2_offload, zero3, zero3_offload, zero_infinity");
}

Test(config, a_printed_configuration_loads_to_the_same)
{
    const char *const BODIES[] = {
        "'gradient_clipping': 0",
        "'gradient_clipping': 0.1, 'optimizer': {'type': 'Adam', 'params': {'adam_w_mode': false, 'lr': "
        "0.30000000000000004, 'betas': [0.1, 0.12345678901234567], 'bias_correction': false, "
        "'eps': 1e-5, 'weight_decay': 0.01}}",
        "'bf16': {'enabled': true, 'check_grad_overflow': false}, 'gradient_accumulation_steps': 3, "
        "'zerogauge': {'clip_form': 'torch'}",
        "'fp16': {'enabled': true, 'loss_scale': 1000.5}, 'communication_data_type': 'fp32'",
        "'fp16': {'enabled': true, 'initial_scale_power': 20, 'loss_scale_window': 7, 'hysteresis': 3, "
        "'consecutive_hysteresis': true, 'min_loss_scale': 2}, 'data_types': {'grad_accum_dtype': 'fp32'}",
        "'zero_optimization': {'stage': 3, 'reduce_bucket_size': 7, 'allgather_bucket_size': 9, "
        "'overlap_comm': false, 'contiguous_gradients': false, 'stage3_prefetch_bucket_size': 1, "
        "'stage3_param_persistence_threshold': 2, 'stage3_model_persistence_threshold': 3, "
        "'stage3_max_live_parameters': 4, 'stage3_max_reuse_distance': 5}",
        "'scheduler': {'type': 'WarmupLR', 'params': {'warmup_min_lr': 1e-7, 'warmup_max_lr': 0.7, "
        "'warmup_num_steps': 3}}",
        "'scheduler': {'type': 'WarmupDecayLR', 'params': {'total_num_steps': 9, 'warmup_type': 'linear'}}",
        "'scheduler': {'type': 'WarmupCosineLR', 'params': {'total_num_steps': 9, 'cos_min_ratio': 0.1, "
        "'warmup_min_ratio': 0.2}}",
    };
    for (size_t i = 0; i < sizeof BODIES / sizeof *BODIES; i++) {
        struct config first = load_body(BODIES[i]);
        expect_printed_loads(&first);
    }
}

Test(config, a_printed_number_has_the_fewest_digits)
{
    struct config c = load_body("'optimizer': {'type': 'Adam', 'params': {'lr': 0.003, 'betas': [0.9, 0.95]}}");
    char *text = printed(&c);
    cr_expect(strstr(text, "\"lr\": 0.003,"), "%s", text);
    free(text);
    c = load_body("'gradient_clipping': 0.1234567890123456");
    text = printed(&c);
    cr_expect(strstr(text, "0.1234567890123456,"), "%s", text);
    cr_expect_null(strstr(text, "0.94999"));
    free(text);
}
