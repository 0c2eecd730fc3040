// SPDX-License-Identifier: Apache-2.0
// Random valid configurations: each prints as JSON that loads to the same configuration.
#include "ref/config/config_test.h"

#include <stdint.h>

// JSON under construction, with ' for ", and its generator.
struct random_text {
    uint32_t state;
    size_t used;
    char text[8192];
};

static uint32_t below(struct random_text *r, uint32_t limit)
{
    r->state = r->state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)r->state * limit >> 32);  // the high bits: low ones have short periods
}

static void __attribute__((format(printf, 2, 3))) add(struct random_text *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    r->used += (size_t)vsnprintf(r->text + r->used, sizeof r->text - r->used, format, arguments);
    va_end(arguments);
    cr_assert_lt(r->used, sizeof r->text);
}

// Adds a member half of the time: a whole number from least to most, of any magnitude in between.
static void maybe_whole(struct random_text *r, const char *key, uint64_t least, uint64_t most)
{
    if (below(r, 2) == 0)
        return;
    uint64_t random = ((uint64_t)below(r, 1u << 24) << 24 | below(r, 1u << 24)) >> below(r, 48);
    add(r, ", '%s': %llu", key, (unsigned long long)(least + random % (most - least + 1)));
}

static void maybe_flag(struct random_text *r, const char *key)
{
    if (below(r, 2) != 0)
        add(r, ", '%s': %s", key, below(r, 2) ? "true" : "false");
}

// Adds a member half of the time: one of `count` strings.
static void maybe_choice(struct random_text *r, const char *key, const char *const choices[], uint32_t count)
{
    if (below(r, 2) != 0)
        add(r, ", '%s': '%s'", key, choices[below(r, count)]);
}

// Adds a member half of the time: a number that needs all its digits.
static void maybe_number(struct random_text *r, const char *key, double most)
{
    if (below(r, 2) != 0)
        add(r, ", '%s': %.17g", key, most * below(r, 1u << 24) / (1u << 24));
}

static const char *const DEVICES[] = {"none", "cpu", "nvme"};

static void add_zero(struct random_text *r, uint32_t stage, uint32_t optimizer, uint32_t param)
{
    static const char *const PATHS[] = {"'/a'", "['/b']", "['/c', '/d e', '/\xc3\xbc']"};
    const char *paths = PATHS[below(r, 3)];
    add(r, ", 'zero_optimization': {'stage': %u", stage);
    maybe_flag(r, "overlap_comm");
    maybe_flag(r, "contiguous_gradients");
    maybe_whole(r, "reduce_bucket_size", 0, 1000000000);
    maybe_whole(r, "sub_group_size", 1, 1000000000);
    maybe_whole(r, "stage3_prefetch_bucket_size", 0, 1000000000);
    maybe_whole(r, "stage3_param_persistence_threshold", 0, 1000000000000000);
    maybe_whole(r, "stage3_model_persistence_threshold", 0, 1000000000000000);
    maybe_whole(r, "stage3_max_live_parameters", 0, 1000000000000000);
    maybe_whole(r, "stage3_max_reuse_distance", 0, 1000000000000000);
    if (stage == 3 && below(r, 3) == 0)
        add(r, ", 'zero_quantized_weights': true");
    if (stage == 3 && below(r, 3) == 0)
        add(r, ", 'zero_quantized_gradients': true");
    add(r, ", 'offload_optimizer': {'device': '%s', 'nvme_path': %s", DEVICES[optimizer], paths);
    maybe_whole(r, "buffer_count", 5, 1024);
    maybe_flag(r, "pin_memory");
    maybe_flag(r, "pipeline_read");
    maybe_flag(r, "pipeline_write");
    maybe_flag(r, "fast_init");
    if (stage == 3 && optimizer == 1)
        maybe_number(r, "ratio", 1);
    add(r, "}, 'offload_param': {'device': '%s', 'nvme_path': %s", DEVICES[param], paths);
    maybe_whole(r, "buffer_count", 1, 1024);
    maybe_whole(r, "buffer_size", 1, 1000000000000000);
    maybe_whole(r, "max_in_cpu", 0, 1000000000000000);
    maybe_flag(r, "pin_memory");
    add(r, "}}");
}

static void add_own(struct random_text *r, uint32_t stage, uint32_t optimizer)
{
    add(r, ", 'zerogauge': {'tiling': {'factor': %u}", 1 + below(r, 9));
    maybe_choice(r, "aio_engine", (const char *[]){"libaio", "io_uring"}, 2);
    maybe_flag(r, "sequence_parallel");
    maybe_choice(r, "clip_form", (const char *[]){"deepspeed", "torch"}, 2);
    maybe_choice(r, "recipe", (const char *[]){recipe_name(recipe_at(0)), recipe_name(recipe_at(1))}, 2);
    // An update with a part on the device cannot be delayed.
    if (optimizer > 0 && !strstr(r->text, "'ratio'") && below(r, 2))
        add(r, ", 'delayed_update': {'start_step': %u}", 1 + below(r, 100));
    if (optimizer > 0 && !strstr(r->text, "delayed_update") && below(r, 2))
        add(r, ", 'speculative_update': true");
    else if (optimizer > 0 && below(r, 2))
        add(r, ", 'offload_gradient': {'device': '%s'}", DEVICES[below(r, stage == 3 ? 3 : 2)]);
    if (optimizer < 2 && !strstr(r->text, "'offload_param': {'device': 'nvme'"))
        maybe_flag(r, "async_save");
    if (below(r, 2))
        add(r, ", 'activation_checkpointing': {'enabled': true, 'device': '%s'}", DEVICES[below(r, 3)]);
    if (below(r, 2))
        add(r, ", 'reduction_group': %u", below(r, 3));
    if (strstr(r->text, "quantized_weights") && !strstr(r->text, "quantized_gradients") && below(r, 2))
        add(r, ", 'quantized_weights_format': 'e4m3'");
    else if (strstr(r->text, "quantized_") && below(r, 2))
        add(r, ", 'quantization_block': %u", 8 * (1 + below(r, 1024)));
    else if (stage == 3 && !strstr(r->text, "quantized_"))
        maybe_choice(r, "partitioning", (const char *[]){"bandwidth_centric", "owner_broadcast"}, 2);
    add(r, "}, 'aio': {'block_size': %u", 4096 * (1 + below(r, 262144)));
    maybe_whole(r, "queue_depth", 1, 32768);
    maybe_whole(r, below(r, 2) ? "thread_count" : "intra_op_parallelism", 1, 256);
    maybe_flag(r, "single_submit");
    maybe_flag(r, "overlap_events");
    add(r, "}");
}

static void make_configuration(struct random_text *r)
{
    uint32_t stage = below(r, 4), precision = below(r, 3);
    uint32_t optimizer = stage == 0 ? 0 : below(r, stage == 3 ? 3 : 2), param = stage == 3 ? below(r, 3) : 0;
    r->used = 0;
    add(r, "{'train_micro_batch_size_per_gpu': %u, 'gradient_accumulation_steps': %u", 1 + below(r, 9),
        1 + below(r, 9));
    maybe_number(r, "gradient_clipping", 3);
    add(r, ", 'optimizer': {'type': '%s', 'params': {'betas': [0.9, %.17g]", below(r, 2) ? "Adam" : "adamw",
        below(r, 1000) / 1000.0);
    maybe_number(r, "lr", 1);
    maybe_number(r, "eps", 1e-6);
    maybe_number(r, "weight_decay", 0.3);
    maybe_flag(r, "bias_correction");
    add(r, "}}");
    if (precision > 0)
        add(r, ", '%s': {'enabled': true}", precision == 1 ? "bf16" : "fp16");
    // By precision: gradients of 16 bits are not sent in the other format of 16 bits.
    static const char *const WIRES[][3] = {
        {"fp32", "fp16", "bf16"}, {"fp32", "fp32", "bf16"}, {"fp32", "fp16", "fp32"}};
    maybe_choice(r, "communication_data_type", WIRES[precision], 3);
    add_zero(r, stage, optimizer, param);
    add_own(r, stage, optimizer);
    add(r, "}");
}

Test(config_random, a_printed_configuration_loads_to_the_same)
{
    static struct random_text r = {.state = 7};
    int stages[4] = {0}, nvme = 0, delayed = 0;
    for (int round = 0; round < 3000; round++) {
        make_configuration(&r);
        struct config first = load(r.text);
        expect_printed_loads(&first);
        stages[first.stage]++;
        nvme += config_uses_nvme(&first);
        delayed += first.delayed_update_start_step > 0;
    }
    // The draws cover every kind.
    for (int stage = 0; stage < 4; stage++)
        cr_expect_gt(stages[stage], 500);
    cr_expect_gt(nvme, 500);
    cr_expect_gt(delayed, 300);
}

Test(config_random, every_written_value_is_in_the_configuration)
{
    static struct random_text r = {.state = 11};
    for (int round = 0; round < 1000; round++) {
        make_configuration(&r);
        struct config c = load(r.text);
        const char *device = strstr(r.text, "'device': '") + strlen("'device': '");
        cr_assert_eq(strncmp(device, config_device_name(c.offload_optimizer.tier), 3), 0, "%s", r.text);
        size_t block = strtoul(strstr(r.text, "'block_size': ") + strlen("'block_size': "), NULL, 10);
        cr_assert_eq(c.aio.block_bytes, config_uses_nvme(&c) ? block : 1048576u, "%s", r.text);
        cr_assert_eq(c.nvme_path_count > 0, config_uses_nvme(&c));
        const char *delay = strstr(r.text, "'start_step': ");
        cr_assert_eq(c.delayed_update_start_step, delay ? strtoul(delay + strlen("'start_step': "), NULL, 10) : 0);
        cr_assert_eq(c.partitioning == PARTITION_OWNER_BROADCAST, strstr(r.text, "owner_broadcast") != NULL);
        const char *group = strstr(r.text, "'reduction_group': ");
        cr_assert_eq(c.reduction_group, group ? strtoul(group + strlen("'reduction_group': "), NULL, 10) : 0);
        const char *quantized = strstr(r.text, "'quantization_block': ");
        cr_assert_eq(c.quantized_weights, strstr(r.text, "quantized_weights") != NULL);
        cr_assert_eq(c.e4m3_weights, strstr(r.text, "e4m3") != NULL);
        cr_assert_eq(c.quantized_gradients, strstr(r.text, "quantized_gradients") != NULL);
        cr_assert_eq(c.quantization_block, quantized ? strtoul(quantized + strlen("'quantization_block': "), NULL, 10)
                                           : strstr(r.text, "e4m3")       ? 1u
                                           : strstr(r.text, "quantized_") ? 2048u
                                                                          : 0u);
        cr_assert_eq(c.aio.engine == NVME_IO_URING, config_uses_nvme(&c) && strstr(r.text, "io_uring"));
    }
}
