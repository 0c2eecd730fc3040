// SPDX-License-Identifier: Apache-2.0
// The keys of offloading, alone and together, and the tiers that they choose.
#include "ref/config/config_test.h"

Test(config_offload, without_its_sections_everything_is_on_the_device)
{
    for (int stage = 0; stage < 4; stage++) {
        struct config c = load_body("'zero_optimization': {'stage': %d}", stage);
        cr_expect_eq(c.offload_optimizer.tier, TIER_DEVICE);
        cr_expect_eq(c.offload_optimizer.buffer_count, 4u);
        cr_expect(c.offload_optimizer.pin_memory);
        cr_expect_not(c.offload_optimizer.pipeline_read);
        cr_expect_not(c.offload_optimizer.pipeline_write);
        cr_expect_eq(c.offload_optimizer.ratio, 1.0);
        cr_expect_eq(c.offload_param.tier, TIER_DEVICE);
        cr_expect_eq(c.offload_param.buffer_count, 5u);
        cr_expect_eq(c.offload_param.buffer_size, 100000000u);
        cr_expect_eq(c.offload_param.max_in_cpu, 1000000000u);
        cr_expect(c.offload_param.pin_memory);
        cr_expect_eq(c.gradient_tier, TIER_DEVICE);
        cr_expect_eq(c.activation_tier, TIER_DEVICE);
        cr_expect_not(c.activation_checkpointing);
        cr_expect_eq(c.sub_group_size, 1000000000u);
        cr_expect_eq(c.nvme_path_count, 0);
        cr_expect_eq(c.aio.block_bytes, 1048576u);
        cr_expect_eq(c.aio.queue_depth, 8);
        cr_expect_not(c.aio.single_submit);
        cr_expect(c.aio.overlap_events);
        cr_expect_eq(c.aio.intra_op_parallelism, 1);
        cr_expect_eq(c.aio.engine, NVME_LIBAIO);
        cr_expect_eq(c.delayed_update_start_step, 0u);
        cr_expect_eq(c.partitioning, PARTITION_BANDWIDTH_CENTRIC);
        cr_expect_eq(c.tiling_factor, 1u);
        cr_expect_not(config_uses_nvme(&c));
        cr_expect_eq(notes.count, 0u);
    }
}

Test(config_offload, gradients_follow_the_optimizer_to_the_host)
{
    for (int stage = 1; stage < 4; stage++) {
        struct config c = load_body("'zero_optimization': {'stage': %d, 'offload_optimizer': {'device': 'cpu', "
                                    "'buffer_count': 2, 'pin_memory': false}, 'sub_group_size': 7}",
                                    stage);
        cr_expect_eq(c.offload_optimizer.tier, TIER_HOST);
        cr_expect_eq(c.gradient_tier, TIER_HOST);
        cr_expect_eq(c.offload_param.tier, TIER_DEVICE);
        cr_expect_eq(c.sub_group_size, 7u);
        cr_expect_not(c.offload_optimizer.pin_memory);
        cr_expect_eq(c.offload_optimizer.buffer_count, 2u);
        cr_expect_eq(notes.count, 0u);
    }
}

Test(config_offload, everything_goes_to_nvme_with_every_key_as_written)
{
    struct config c = load_body(
        "'bf16': {'enabled': true}, 'zero_optimization': {'stage': 3, 'offload_optimizer': {'device': 'nvme', "
        "'nvme_path': ['/a', '/b'], 'buffer_count': 11, 'pin_memory': false, 'pipeline_read': true, 'pipeline_write': "
        "true}, 'offload_param': {'device': 'nvme', 'nvme_path': ['/a', '/b'], 'buffer_count': 6, 'buffer_size': 1e4, "
        "'max_in_cpu': 0, 'pin_memory': false}}, 'aio': {'block_size': 8192, 'queue_depth': 3, 'single_submit': true, "
        "'overlap_events': false, 'thread_count': 2, 'use_gds': false}, 'zerogauge': {'aio_engine': 'io_uring', "
        "'activation_checkpointing': {'enabled': true, 'device': 'nvme'}, 'delayed_update': {'start_step': 40}, "
        "'partitioning': 'owner_broadcast', 'tiling': {'factor': 4}}");
    cr_expect_eq(c.offload_optimizer.tier, TIER_NVME);
    cr_expect_eq(c.offload_optimizer.buffer_count, 11u);
    cr_expect_not(c.offload_optimizer.pin_memory);
    cr_expect(c.offload_optimizer.pipeline_read);
    cr_expect(c.offload_optimizer.pipeline_write);
    cr_expect_eq(c.offload_param.tier, TIER_NVME);
    cr_expect_eq(c.offload_param.buffer_count, 6u);
    cr_expect_eq(c.offload_param.buffer_size, 10000u);
    cr_expect_eq(c.offload_param.max_in_cpu, 0u);
    cr_expect_not(c.offload_param.pin_memory);
    cr_expect_eq(c.gradient_tier, TIER_NVME);
    cr_expect_eq(c.activation_tier, TIER_NVME);
    cr_expect(c.activation_checkpointing);
    cr_expect_eq(c.nvme_path_count, 2);
    cr_expect_str_eq(c.nvme_paths[0], "/a");
    cr_expect_str_eq(c.nvme_paths[1], "/b");
    cr_expect_eq(c.aio.block_bytes, 8192u);
    cr_expect_eq(c.aio.queue_depth, 3);
    cr_expect(c.aio.single_submit);
    cr_expect_not(c.aio.overlap_events);
    cr_expect_eq(c.aio.intra_op_parallelism, 2);
    cr_expect_eq(c.aio.engine, NVME_IO_URING);
    cr_expect_eq(c.delayed_update_start_step, 40u);
    cr_expect_eq(c.partitioning, PARTITION_OWNER_BROADCAST);
    cr_expect_eq(c.tiling_factor, 4u);
    cr_expect(config_uses_nvme(&c));
    cr_expect_eq(notes.count, 0u);
}

Test(config_offload, one_kind_of_state_on_nvme_is_enough_for_paths_and_aio)
{
    static const char *const KINDS[] = {
        "'zero_optimization': {'stage': 3, 'offload_optimizer': {'device': 'nvme', 'nvme_path': '/x'}}, "
        "'zerogauge': {'offload_gradient': {'device': 'none'}}",
        "'zero_optimization': {'stage': 3, 'offload_param': {'device': 'nvme', 'nvme_path': '/x'}}",
        "'zero_optimization': {'stage': 3, 'offload_optimizer': {'device': 'cpu', 'nvme_path': '/x'}}, "
        "'zerogauge': {'offload_gradient': {'device': 'nvme'}}",
        "'zero_optimization': {'offload_param': {'nvme_path': '/x'}}, "
        "'zerogauge': {'activation_checkpointing': {'enabled': true, 'device': 'nvme'}}",
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        struct config c = load_body("%s, 'aio': {'queue_depth': 5}", KINDS[i]);
        enum ledger_tier tiers[] = {c.offload_optimizer.tier, c.offload_param.tier, c.gradient_tier, c.activation_tier};
        for (size_t kind = 0; kind < 4; kind++)
            cr_expect_eq(tiers[kind] == TIER_NVME, kind == i, "%zu of %zu", kind, i);
        cr_expect(config_uses_nvme(&c));
        cr_expect_eq(c.nvme_path_count, 1);
        cr_expect_str_eq(c.nvme_paths[0], "/x");
        cr_expect_eq(c.aio.queue_depth, 5);
        cr_expect_eq(notes.count, 0u);
    }
}

Test(config_offload, gradients_may_be_on_another_tier_than_the_optimizer)
{
    static const struct {
        const char *optimizer, *gradient;
        enum ledger_tier tier;
    } CASES[] = {
        {"none", NULL, TIER_DEVICE},   {"cpu", NULL, TIER_HOST},   {"nvme", NULL, TIER_NVME},
        {"cpu", "none", TIER_DEVICE},  {"cpu", "cpu", TIER_HOST},  {"cpu", "nvme", TIER_NVME},
        {"nvme", "none", TIER_DEVICE}, {"nvme", "cpu", TIER_HOST}, {"nvme", "nvme", TIER_NVME},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char own[128] = "";
        if (CASES[i].gradient)
            snprintf(own, sizeof own, ", 'zerogauge': {'offload_gradient': {'device': '%s'}}", CASES[i].gradient);
        struct config c = load_body("'zero_optimization': {'stage': 3, 'offload_optimizer': {'device': '%s', "
                                    "'nvme_path': '/x'}}%s",
                                    CASES[i].optimizer, own);
        cr_expect_eq(c.gradient_tier, CASES[i].tier, "%s %s", CASES[i].optimizer, CASES[i].gradient);
    }
}

Test(config_offload, the_default_buffer_count_suffices_and_a_smaller_one_is_refused)
{
    static const struct {
        const char *precision, *param, *gradient, *own;
        size_t least, fallback;
    } CASES[] = {
        {"'bf16': {'enabled': true}", "none", "cpu", "", 4, 4},
        {"'bf16': {'enabled': true}", "none", "nvme", "", 5, 5},
        {"'bf16': {'enabled': true}", "cpu", "cpu", "", 3, 4},
        {"'bf16': {'enabled': true}", "nvme", "nvme", "", 5, 5},
        {"'fp16': {'enabled': true}", "nvme", "none", "", 5, 5},
        {"'fp16': {'enabled': true}", "cpu", "nvme", "", 4, 5},
        {"'bf16': {}", "none", "cpu", "", 4, 4},
        {"'bf16': {}", "cpu", "none", "", 4, 5},
        {"'bf16': {}", "nvme", "nvme", "", 4, 5},
        {"'bf16': {}", "nvme", "cpu", "", 3, 4},
        {"'bf16': {}", "nvme", "cpu", ", 'delayed_update': {'start_step': 2}", 4, 4},
    };
    static const char BODY[] = "%s, 'zerogauge': {'offload_gradient': {'device': '%s'}%s}, 'zero_optimization': "
                               "{'stage': 3, 'offload_param': {'device': '%s'}, 'offload_optimizer': {'device': "
                               "'nvme', 'nvme_path': '/x'%s}}";
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *precision = CASES[i].precision, *param = CASES[i].param, *gradient = CASES[i].gradient;
        char count[64], body[1024], message[128];
        struct config c = load_body(BODY, precision, gradient, CASES[i].own, param, "");
        cr_expect_eq(c.offload_optimizer.buffer_count, CASES[i].fallback, "%zu", i);
        snprintf(count, sizeof count, ", 'buffer_count': %zu", CASES[i].least);
        c = load_body(BODY, precision, gradient, CASES[i].own, param, count);
        cr_expect_eq(c.offload_optimizer.buffer_count, CASES[i].least, "%zu", i);
        if (CASES[i].least == 5) {  // DeepSpeed's 4 are raised
            c = load_body(BODY, precision, gradient, CASES[i].own, param, ", 'buffer_count': 4");
            cr_expect_eq(c.offload_optimizer.buffer_count, 5, "%zu", i);
            cr_expect(note_on("zero_optimization.offload_optimizer.buffer_count"));
        }
        size_t few = CASES[i].least == 5 ? 3 : CASES[i].least - 1;
        snprintf(count, sizeof count, ", 'buffer_count': %zu", few);
        snprintf(body, sizeof body, BODY, precision, gradient, CASES[i].own, param, count);
        snprintf(message, sizeof message, "is %zu, expected at least %zu, one for each state of a sub-group", few,
                 CASES[i].least);
        expect_refused(body, message);
    }
}

Test(config_offload, old_names_mean_the_host_and_are_noted)
{
    struct config c = load_body("'zero_optimization': {'stage': 3, 'cpu_offload': true, 'cpu_offload_params': true, "
                                "'offload_optimizer': {'pin_memory': false}}");
    cr_expect_eq(c.offload_optimizer.tier, TIER_HOST);
    cr_expect_eq(c.gradient_tier, TIER_HOST);
    cr_expect_not(c.offload_optimizer.pin_memory);
    cr_expect_eq(c.offload_param.tier, TIER_HOST);
    cr_expect_eq(notes.count, 2u);
    const struct config_note *note = note_on("zero_optimization.cpu_offload");
    cr_assert(note && note->kind == CONFIG_OLD);
    cr_expect_str_eq(note->value, "zero_optimization.offload_optimizer.device \"cpu\"");
    note = note_on("zero_optimization.cpu_offload_param");
    cr_assert(note && note->kind == CONFIG_OLD);
    cr_expect_str_eq(note->value, "zero_optimization.offload_param.device \"cpu\"");
    c = load_body("'zero_optimization': {'stage': 2, 'cpu_offload': true, 'offload_optimizer': {'device': 'cpu'}}");
    cr_expect_eq(c.offload_optimizer.tier, TIER_HOST);
    c = load_body("'zero_optimization': {'stage': 2, 'cpu_offload': false, 'cpu_offload_param': null}");
    cr_expect_eq(c.offload_optimizer.tier, TIER_DEVICE);
    cr_expect_eq(notes.count, 1u);
    cr_expect_str_eq(notes.notes[0].value, "zero_optimization.offload_optimizer.device \"none\"");
}

Test(config_offload, a_part_of_the_optimizer_can_stay_on_the_device_in_stage_3)
{
    struct config c = load_body("'zero_optimization': {'stage': 3, 'offload_optimizer': {'device': 'cpu', 'ratio': "
                                "0.25}}");
    cr_expect_eq(c.offload_optimizer.ratio, 0.25);
    c = load_body("'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu', 'ratio': 1.0}}");
    cr_expect_eq(c.offload_optimizer.ratio, 1.0);
    c = load_body("'zero_optimization': {'stage': 3, 'offload_optimizer': {'device': 'none', 'ratio': 0.5}}");
    cr_expect_eq(c.offload_optimizer.ratio, 1.0);
    cr_expect(note_on("zero_optimization.offload_optimizer.ratio"));
}

Test(config_offload, cpu_checkpointing_of_deepspeed_turns_checkpoints_on_and_puts_them_on_the_host)
{
    struct config c = load_body("'activation_checkpointing': {'cpu_checkpointing': true, 'partition_activations': "
                                "true}");
    cr_expect(c.activation_checkpointing);
    cr_expect_eq(c.activation_tier, TIER_HOST);
    cr_expect_eq(notes.count, 1u);
    cr_expect(note_on("activation_checkpointing.partition_activations"));
    c = load_body("'activation_checkpointing': {'cpu_checkpointing': false}");
    cr_expect_not(c.activation_checkpointing);
    cr_expect_eq(c.activation_tier, TIER_DEVICE);
    c = load_body("'zerogauge': {'activation_checkpointing': {'enabled': true}}");
    cr_expect(c.activation_checkpointing);
    cr_expect_eq(c.activation_tier, TIER_DEVICE);
}

Test(config_offload, keys_without_effect_are_noted_and_keep_their_defaults)
{
    struct config c = load_body("'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu', "
                                "'pipeline_read': true, 'pipeline_write': 'auto', 'fast_init': "
                                "true, 'nvme_path': '/x'}, 'offload_param': {'device': 'none', 'buffer_size': 3, "
                                "'buffer_count': 9, 'max_in_cpu': 0, 'pin_memory': false}}, 'aio': {'block_size': "
                                "'auto', 'queue_depth': 3}, 'zerogauge': {'aio_engine': 'io_uring', 'partitioning': "
                                "'bandwidth_centric'}");
    expect_ignored(
        "zero_optimization.offload_optimizer.pipeline_read zero_optimization.offload_optimizer.pipeline_write "
        "zero_optimization.offload_optimizer.fast_init zero_optimization.offload_optimizer.nvme_path "
        "zero_optimization.offload_param.buffer_size zero_optimization.offload_param.buffer_count "
        "zero_optimization.offload_param.max_in_cpu zero_optimization.offload_param.pin_memory "
        "aio zerogauge.aio_engine zerogauge.partitioning");
    struct config plain = load_body("'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}");
    expect_same(&c, &plain);
    load_body("'zero_optimization': {'stage': 0, 'sub_group_size': 5}");
    cr_expect(note_on("zero_optimization.sub_group_size"));
}

Test(config_offload, the_command_line_overrides_paths_and_engine)
{
    static const char TEXT[] = "{'train_batch_size': 8, 'zero_optimization': {'stage': 3, 'offload_param': "
                               "{'device': '%s', 'nvme_path': '/file'}}, 'zerogauge': {'aio_engine': 'libaio'}}";
    const char *paths[] = {"/one", "/two", "/three"};
    struct config_options options = {.world = 2, .nvme_paths = paths, .nvme_path_count = 3, .engine = "io_uring"};
    char text[512];
    struct config c;
    snprintf(text, sizeof text, TEXT, "nvme");
    cr_assert_eq(load_with(text, options, &c), ERR_NONE, "%s", err_message());
    cr_expect_eq(c.nvme_path_count, 3);
    cr_expect_str_eq(c.nvme_paths[2], "/three");
    cr_expect_eq(c.aio.engine, NVME_IO_URING);
    snprintf(text, sizeof text, TEXT, "cpu");
    cr_assert_eq(load_with(text, options, &c), ERR_NONE, "%s", err_message());
    cr_expect_eq(c.nvme_path_count, 0);
    cr_expect_eq(c.aio.engine, NVME_LIBAIO);
}

Test(config_offload, wrong_paths_and_engines_of_the_command_line_are_named)
{
    static char long_path[CONFIG_PATH_NAME_BYTES + 1];
    memset(long_path, 'p', CONFIG_PATH_NAME_BYTES);
    const char *const paths[] = {long_path, "", "a\xff", "/x", "/x"};
    static const struct {
        size_t first, count;
        const char *engine, *message;
    } CASES[] = {
        {0, 1, NULL, "...\": expected a path of 1 to 511 bytes"},
        {1, 1, NULL, "--nvme-path \"\": expected a path of 1 to 511 bytes"},
        {2, 1, NULL, "--nvme-path \"a\\xff\": is not UTF-8"},
        {3, 2, NULL, "--nvme-path /x is given twice, expected different paths"},
        {3, 17, NULL, "--nvme-path is given 17 times, expected at most 16"},
        {3, 1, "posix", "--engine \"posix\": expected libaio or io_uring"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct config_options options = {.world = 2,
                                         .nvme_paths = paths + CASES[i].first,
                                         .nvme_path_count = CASES[i].count,
                                         .engine = CASES[i].engine};
        struct config c;
        cr_expect_eq(load_with("{'train_batch_size': 8, 'zero_optimization': {'stage': 3, 'offload_param': {'device': "
                               "'nvme'}}}",
                               options, &c),
                     ERR_USAGE);
        cr_expect(strstr(err_message(), CASES[i].message), "%s", err_message());
    }
}

Test(config_offload, either_section_may_give_the_path_but_both_must_agree)
{
    static const char BODY[] = "'zero_optimization': {'stage': 3, 'offload_param': {'device': 'nvme', 'nvme_path': "
                               "%s}, 'offload_optimizer': {'device': 'nvme', 'nvme_path': %s}}";
    struct config of_one = load_body(BODY, "null", "'/x'"), of_other = load_body(BODY, "'/x'", "null");
    cr_expect_str_eq(of_one.nvme_paths[0], "/x");
    cr_expect_str_eq(of_other.nvme_paths[0], "/x");
    cr_expect_eq(load_body(BODY, "'/x'", "['/x']").nvme_path_count, 1);
    cr_expect_eq(load_body(BODY, "['/x']", "'/x'").nvme_path_count, 1);
    cr_expect_eq(load_body(BODY, "['/x', '/y']", "['/x', '/y']").nvme_path_count, 2);
    char body[512];
    snprintf(body, sizeof body, BODY, "'/y'", "['/x', '/y']");
    expect_refused(body, "zero_optimization.offload_param.nvme_path: is \"/y\" and "
                         "zero_optimization.offload_optimizer.nvme_path is [\"/x\",\"/y\"], expected the same");
}
