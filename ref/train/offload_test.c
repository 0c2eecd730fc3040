// SPDX-License-Identifier: Apache-2.0
// States on tiers: for every placement, world size, precision, accumulation, engine and schedule, the bits equal those
// of unsharded Adam, and the bytes equal those of the formulas.
#include "ref/train/offload_test.h"

#include "ref/executor/trace.h"
#include "ref/model/names/model_find.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const enum ledger_tier tiers[] = {TIER_DEVICE, TIER_HOST, TIER_NVME};

// The trial with its states in the i-th of 27 placements: on three tiers parameters, gradients and optimizer.
enum { PLACEMENTS = 27 };
static struct offload_trial placed(struct offload_trial t, int i)
{
    t.parameter = tiers[i / 9];
    t.gradient = tiers[i / 3 % 3];
    t.optimizer = tiers[i % 3];
    return t;
}

// The placements that exist: an offloaded gradient needs an offloaded optimizer, and only stage 3 has parameters to
// offload, and NVMe.
static bool placeable(const struct offload_trial *t)
{
    if (t->gradient != TIER_DEVICE && t->optimizer == TIER_DEVICE)
        return false;
    if (t->stage == 3)
        return true;
    return t->parameter == TIER_DEVICE && t->optimizer != TIER_NVME && t->gradient != TIER_NVME &&
           !(t->stage == 0 && t->optimizer != TIER_DEVICE);
}

Test(offload, what_cannot_be_placed_is_refused_by_the_configuration)
{
    int refused = 0;
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < PLACEMENTS; i++) {
            struct config config;
            struct offload_trial t = placed(OFFLOAD_TRIAL(.stage = stage), i);
            int rc = offload_config(&t, &config);
            cr_assert_eq(rc, placeable(&t) ? ERR_NONE : ERR_USAGE, "%s\n%s", rc ? err_message() : "", offload_name(&t));
            refused += rc != ERR_NONE;
        }
    cr_assert_eq(refused, 27 * 4 - 21 - 3 - 3 - 1);
}

// Every placement of stage 3 whose number is `from` modulo `stride`, each with another schedule, engine and world.
static void placements(int from, int stride, const char *model)
{
    static const struct executor_schedule schedules[] = {
        {EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 1}};
    static const enum dtype precisions[] = {DTYPE_BF16, DTYPE_FP32, DTYPE_FP16};
    int number = 0;
    for (int i = 0; i < PLACEMENTS; i++)
        for (int d = 0; d < COUNT(precisions); d++)
            for (size_t accumulation = 1; accumulation <= 3; accumulation += 2) {
                struct offload_trial t = placed(
                    OFFLOAD_TRIAL(.model = model, OFFLOAD_IN(precisions[d]), .accumulation = accumulation,
                                  .world = 1 + number % 4, .schedule = schedules[number % COUNT(schedules)],
                                  .engine = number % 2 ? NVME_IO_URING : NVME_LIBAIO, .buffers = number % 5 ? 0 : 12),
                    i);
                t.sum = accumulation > 1 ? DTYPE_FP32 : t.precision;
                if (placeable(&t) && number++ % stride == from)
                    offload_demand(&t);
            }
}

// Six numbers a placement: with a stride of 5 each has its turn.
Test(offload, every_placement_of_stage_3_is_unsharded_adam_concurrent)
{
    placements(0, 5, "linear");
}
Test(offload, a_gpt_wherever_it_lives_is_unsharded_adam)
{
    placements(2, 11, "gpt-nano");
}
Test(offload, every_placement_at_every_precision_long)
{
    placements(0, 1, "linear");
}
Test(offload, every_placement_of_a_gpt_long)
{
    placements(0, 1, "gpt-nano");
}

Test(offload, stages_1_and_2_on_the_host_are_unsharded_adam_concurrent)
{
    static const struct executor_schedule schedules[] = {
        {EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 1}, {EXECUTOR_CHAOS, 2}};
    int number = 0;
    for (int stage = 1; stage <= 2; stage++)
        for (int g = 0; g < 2; g++)
            for (int world = 1; world <= 4; world++)
                for (size_t accumulation = 1; accumulation <= 3; accumulation += 2)
                    for (int fp32 = 0; fp32 < 2; fp32++) {
                        enum dtype precision = fp32 ? DTYPE_FP32 : DTYPE_BF16;
                        offload_demand(&OFFLOAD_TRIAL(.stage = stage, .optimizer = TIER_HOST, .gradient = tiers[g],
                                                      .world = world, .accumulation = accumulation,
                                                      .precision = precision, .communication = precision,
                                                      .sum = accumulation > 1 ? DTYPE_FP32 : precision,
                                                      .schedule = schedules[number++ % COUNT(schedules)]));
                    }
}

// With one micro-step where states live is invisible: one digest for all.
Test(offload, all_placements_have_one_digest)
{
    char digest[33] = "";
    for (int i = 0; i < PLACEMENTS; i++) {
        struct offload_trial t = placed(OFFLOAD_TRIAL(.world = 3), i);
        if (!placeable(&t))
            continue;
        struct train_result result = offload_demand(&t);
        if (!digest[0])
            memcpy(digest, result.digest, sizeof digest);
        cr_assert_str_eq(result.digest, digest, "%s", offload_name(&t));
    }
}

// One buffer fewer than the least is refused by name, and the least works. Four buffers on NVMe, as in DeepSpeed's
// documents, are raised where five are needed.
static void buffer_counts(int from, int stride)
{
    const struct train_setting verified = {.verify = true};
    int number = 0;
    for (int i = 0; i < PLACEMENTS; i++)
        for (int fp32 = 0; fp32 < 2; fp32++) {
            enum dtype precision = fp32 ? DTYPE_FP32 : DTYPE_BF16;
            struct offload_trial t = placed(OFFLOAD_TRIAL(OFFLOAD_IN(precision), .steps = 2), i);
            size_t least = offload_least_buffers(&t);
            if (!placeable(&t) || least == 0 || t.optimizer == TIER_DEVICE || number++ % stride != from)
                continue;
            for (t.buffers = least; t.buffers < least + 3; t.buffers++)
                offload_demand(&t);
            t.buffers = least - 1;
            if (t.optimizer == TIER_NVME && t.buffers == 4)
                offload_demand(&t);
            else if (t.buffers > 0)
                offload_expect_refusal(&t, verified, "offload_optimizer.buffer_count");
        }
}

Test(offload, any_number_of_buffers_from_the_least_on_works)
{
    buffer_counts(1, 7);
}
Test(offload, any_number_of_buffers_works_everywhere_long)
{
    buffer_counts(0, 1);
}

// The first buckets' optimizer states go to the host until they have that part of all elements.
Test(offload, a_part_of_the_optimizer_stays_on_the_device)
{
    static const double ratios[4] = {0.0, 0.3, 0.7, 1.0};
    uint64_t on_host[4];
    for (int fp32 = 0; fp32 < 2; fp32++)
        for (int p = 0; p < 3; p++) {
            for (int i = 0; i < COUNT(ratios); i++) {
                enum dtype precision = fp32 ? DTYPE_FP32 : DTYPE_BF16;
                struct train_result result = offload_demand(
                    &OFFLOAD_TRIAL(.model = "gpt-nano", .steps = 2, .parameter = tiers[p], .gradient = tiers[i % 2],
                                   .optimizer = TIER_HOST, OFFLOAD_IN(precision), .ratio = ratios[i], .world = 3,
                                   .schedule = {EXECUTOR_CHAOS, (uint64_t)i}));
                on_host[i] = result.held_bytes[TIER_HOST][KIND_OPTIMIZER];
                uint64_t all = on_host[i] + result.held_bytes[TIER_DEVICE][KIND_OPTIMIZER];
                cr_assert_geq((double)on_host[i], ratios[i] * (double)all);
            }
            cr_assert_eq(on_host[0], 0);
            cr_assert_lt(on_host[1], on_host[2]);
            cr_assert_leq(on_host[2], on_host[3]);
        }
}

// fp32 parameters are the master parameters where both live on one tier, and a second copy where they do not.
Test(offload, fp32_has_a_master_only_where_parameters_live_elsewhere)
{
    for (int p = 0; p < 3; p++)
        for (int o = 0; o < 3; o++) {
            struct offload_trial t =
                OFFLOAD_TRIAL(.parameter = tiers[p], .optimizer = tiers[o], OFFLOAD_IN(DTYPE_FP32));
            struct train_result result = offload_demand(&t);
            uint64_t moments = result.held_bytes[tiers[o]][KIND_OPTIMIZER];
            cr_assert_gt(moments, 0, "%s", offload_name(&t));
            cr_assert_eq(result.held_bytes[tiers[o]][KIND_MASTER], p == o ? 0 : moments / 2, "%s", offload_name(&t));
        }
}

// Knobs of memory and speed change no bit.
Test(offload, knobs_change_no_bit)
{
#define NVME(...) OFFLOAD_TRIAL(OFFLOAD_ON_NVME, .accumulation = 2, .sum = DTYPE_FP32, .steps = 2, __VA_ARGS__)
    const struct offload_trial plain = NVME(), trials[] = {
                                                   NVME(.pipeline_read = false),
                                                   NVME(.pipeline_write = false),
                                                   NVME(.pipeline_read = false, .pipeline_write = false, .buffers = 5),
                                                   NVME(.sub_group = 1),
                                                   NVME(.sub_group = 1000000000),
                                                   NVME(.buffers = 50),
                                                   NVME(.param_buffers = 1, .prefetch = 0),
                                                   NVME(.max_in_cpu = 1000000),
                                                   NVME(.prefetch = 1000000, .param_buffers = 9),
                                                   NVME(.persistence = 120),
                                                   NVME(.reuse = 3000),
                                                   NVME(.reuse = 1000000, .persistence = 1000),
                                                   NVME(.block_bytes = 4096, .queue_depth = 1),
                                                   NVME(.engine = NVME_IO_URING),
                                                   NVME(.owner_broadcast = true),
                                                   NVME(.overlap_comm = false, .contiguous = false),
                                               };
    struct train_result expected = offload_demand(&plain);
    for (int knob = 0; knob < COUNT(trials); knob++) {
        struct offload_trial t = trials[knob];
        t.schedule.mode = knob % 2 ? EXECUTOR_CHAOS : EXECUTOR_OVERLAP;
        cr_assert_str_eq(offload_demand(&t).digest, expected.digest, "%s", offload_name(&t));
    }
}

// Activation checkpoints may live on any tier. Each micro-step, the formula counts each once down and once up.
Test(offload, activation_checkpoints_wherever_they_live_change_no_bit)
{
    char digest[33] = "";
    for (int a = 0; a < 3; a++)
        for (int s = 0; s < 3; s++) {
            struct offload_trial t =
                OFFLOAD_TRIAL(.model = "gpt-nano", .checkpointing = true, .activation = tiers[a], .accumulation = 2,
                              .sum = DTYPE_FP32, .steps = 2, .world = 3, .schedule = {s, 5}, .overlap_comm = s != 1);
            struct train_result result = offload_demand(&t);
            uint64_t held = result.held_bytes[tiers[a]][KIND_ACTIVATION];
            uint64_t down = result.moved_bytes[LANE_D2H][OPERATION_COPY];
            cr_expect_gt(held, 0);
            cr_expect_eq(down, a == 0 ? 0 : 2 * t.steps * (uint64_t)t.world * held, "%s", offload_name(&t));
            cr_expect_eq(result.moved_bytes[LANE_H2D][OPERATION_COPY], down);
            uint64_t written = result.moved_bytes[LANE_NVME_WRITE][OPERATION_COPY];
            cr_expect(a < 2 ? written == 0 : written >= down && written % 4096 == 0, "%s", offload_name(&t));
            cr_expect_eq(result.moved_bytes[LANE_NVME_READ][OPERATION_COPY], written);
            if (!digest[0])
                memcpy(digest, result.digest, sizeof digest);
            cr_assert_str_eq(result.digest, digest, "%s", offload_name(&t));
        }
}

// True if an operation of one lane ran at the same time as one of another lane with that name.
static bool ever_together(const struct trace *trace, enum lane lane, enum lane other, const char *name)
{
    const struct trace_rank *rank = &trace->ranks[0];
    for (size_t i = 0; i < rank->interval_count[lane]; i++)
        for (size_t j = 0; j < rank->interval_count[other]; j++) {
            const struct executor_interval *a = &rank->intervals[lane][i], *b = &rank->intervals[other][j];
            if (strcmp(b->name, name) == 0 && a->begin_ns < b->end_ns && b->begin_ns < a->end_ns)
                return true;
        }
    return false;
}

// Without pipeline_read no state is read while Adam runs; without pipeline_write none is written meanwhile.
Test(offload, without_pipelines_adam_runs_alone)
{
    for (int pipeline = 0; pipeline < 2; pipeline++) {
        struct offload_trial t =
            OFFLOAD_TRIAL(.model = "gpt:layers=2,width=64,heads=2,length=64", .world = 1, .optimizer = TIER_NVME,
                          .gradient = TIER_HOST, .sub_group = 2048, .buffers = 24, .pipeline_read = pipeline == 1,
                          .pipeline_write = pipeline == 0);
        struct trace trace;
        offload_trace(&t, (struct train_setting){.verify = true}, &trace);
        enum lane lane = pipeline ? LANE_NVME_WRITE : LANE_NVME_READ;
        cr_assert_gt(trace.ranks[0].interval_count[lane], 30);
        cr_expect_not(ever_together(&trace, lane, LANE_CPU, "Adam"), "%s", offload_name(&t));
        trace_close(&trace);
    }
}

// Gradients on the host are looked at there, by its own lane.
Test(offload, what_is_on_the_host_is_worked_on_there)
{
    struct offload_trial t =
        OFFLOAD_TRIAL(.stage = 2, OFFLOAD_ON_HOST, .communication = DTYPE_FP32, .accumulation = 2, .sum = DTYPE_FP32);
    struct trace trace;
    offload_trace(&t, (struct train_setting){0}, &trace);
    for (size_t i = 0; i < trace.ranks[0].interval_count[LANE_COMPUTE]; i++) {
        const char *name = trace.ranks[0].intervals[LANE_COMPUTE][i].name;
        cr_expect(strcmp(name, "largest gradient") != 0 && strcmp(name, "sum of squares") != 0 &&
                      strcmp(name, "Adam") != 0 && strcmp(name, "accumulate") != 0,
                  "%s on the device", name);
    }
    cr_expect_gt(trace.ranks[0].interval_count[LANE_CPU], 0);
    trace_close(&trace);
}

// Of a late update nothing is being sent when the ranks tell each other their losses, however slow the collectives are.
Test(offload, a_delayed_update_leaves_the_collectives_to_the_next_step)
{
    for (int stage = 1; stage <= 2; stage++) {
        struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt-nano", .stage = stage, .world = 3, .steps = 5, .delay = 2,
                                               OFFLOAD_ON_HOST, .bucket = 998 * 2);
        const struct train_setting setting = {.verify = true, .emulation = {{[LANE_COLLECTIVE] = 2e6}}};
        struct train_result result = offload_succeed(&t, setting);
        cr_assert_not(result.difference.found);
        cr_assert(result.accounting_equal);
    }
}

// Overflow, before the delay begins, at its first step and amid it: a skipped step changes nothing, on any tier.
static void delays(int from, int stride)
{
    static const enum dtype precisions[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};
    int number = 0;
    for (uint64_t delay = 1; delay <= 3; delay++)
        for (int overflows = 0; overflows < 2; overflows++)
            for (int i = 0; i < PLACEMENTS; i++) {
                enum dtype precision = precisions[overflows ? number % 2 : number % 3];
                struct offload_trial t =
                    placed(OFFLOAD_TRIAL(.model = overflows ? "linear-overflow" : "linear", OFFLOAD_IN(precision),
                                         .steps = overflows ? 7 : 4, .world = 1 + number % 3, .delay = delay,
                                         .schedule = {number % 3, (uint64_t)number}),
                           i);
                if (t.optimizer == TIER_DEVICE || number++ % stride != from)
                    continue;
                struct train_result result = offload_demand(&t);
                cr_assert_eq(result.skipped_steps, !overflows ? 0 : t.world == 1 ? 1 : 2, "%s", offload_name(&t));
            }
}

Test(offload, a_delayed_update_is_its_unsharded_twin_concurrent)
{
    delays(3, 7);
}
Test(offload, a_delayed_update_everywhere_long)
{
    delays(0, 1);
}

// The largest shard of this model, its first bucket's, has two elements, and a buffer of two is enough.
Test(offload, a_shard_larger_than_the_buffers_is_refused)
{
    const struct offload_trial t = OFFLOAD_TRIAL(.model = "linear-few", .world = 1, .parameter = TIER_NVME);
    for (size_t size = 1; size <= 2; size++) {
        struct config config;
        struct train_result result;
        cr_assert_eq(offload_config(&t, &config), ERR_NONE);
        config.offload_param.buffer_size = size;
        struct train_setting setting = {.config = &config, .world = 1, .steps = 1, .threads = 1, .verify = true};
        cr_assert_eq(model_find(t.model, &setting.model), ERR_NONE);
        int rc = train_run(&setting, &result);
        free(result.step_ns);
        cr_assert_eq(rc, size == 1 ? ERR_USAGE : ERR_NONE, "%zu: %s", size, rc ? err_message() : "");
        if (size == 1)
            cr_assert(strstr(err_message(), "offload_param.buffer_size is 1 elements, expected at least 2"), "%s",
                      err_message());
    }
}

// A parameter is read from NVMe unless the host still has it: `room` layers stay, the last used ones, and at each of
// the 2 x accumulation - 1 turns of the passes as many need not be read again; tied ones, with room of their own, are
// read once. A block of gpt-nano has 3280 elements; of two ranks each holds one block of storage of it, of 2048.
Test(offload, parameters_stay_on_the_host_as_long_as_there_is_room)
{
    static const uint64_t rooms[] = {0, 1, 2, 3, 9};
    // gpt-nano: positions, two blocks and the last norm take turns; the embedding is the head, too.
    const uint64_t turning_layers = 4, tied_layers = 1, tied_uses = 2;
    for (int r = 0; r < COUNT(rooms); r++)
        for (size_t accumulation = 1; accumulation <= 3; accumulation += 2)
            for (int s = 0; s < 3; s++) {
                struct offload_trial t =
                    OFFLOAD_TRIAL(.model = "gpt-nano", .parameter = TIER_NVME, .param_buffers = 1,
                                  .max_in_cpu = rooms[r] * 2048, .accumulation = accumulation, .sum = DTYPE_FP32,
                                  .schedule = {s, 3}, .prefetch = s == 1 ? 0 : 100000);
                struct train_result result = offload_demand(&t);
                uint64_t room = rooms[r] < 1 ? 1 : rooms[r];
                room = room < turning_layers ? room : turning_layers;
                uint64_t passes = 2 * accumulation, rounds = t.steps * (uint64_t)t.world;
                uint64_t asked = passes * (turning_layers + tied_layers * tied_uses);
                uint64_t hits = (passes - 1) * room + (passes * tied_uses - 1) * tied_layers;
                cr_assert_eq(result.host_hits + result.host_misses, rounds * asked, "%s", offload_name(&t));
                cr_assert_eq(result.host_hits, rounds * hits, "%d of %d, expected %d\n%s", (int)result.host_hits,
                             (int)(rounds * asked), (int)(rounds * hits), offload_name(&t));
            }
}

// A run of middle size: a GPT of ten million parameters with everything on NVMe, on text.

// The preset at world 2 on the program's own text, a few sequences a step.
static void run_preset(const char *preset, struct train_result *result)
{
    static const char *const folder[] = {storage_folder}, *const set[] = {"train_micro_batch_size_per_gpu=2"};
    const struct config_options options = {
        .world = 2, .set = set, .set_count = 1, .nvme_paths = folder, .nvme_path_count = 1};
    struct config config;
    struct text *text;
    cr_assert_eq(config_load_preset(preset, &options, &config, NULL), ERR_NONE, "%s", err_message());
    struct train_setting setting = {.config = &config,
                                    .world = 2,
                                    .steps = 20,
                                    .seed = 1,
                                    .schedule = {EXECUTOR_OVERLAP, 0},
                                    .threads = 1,
                                    .swap_checksum = true};
    cr_assert_eq(model_find("gpt-10m", &setting.model), ERR_NONE);
    cr_assert_eq(text_open(NULL, &text), ERR_NONE, "%s", err_message());
    setting.text = text;
    int rc = train_run(&setting, result);
    text_close(text);
    free(result->step_ns);
    cr_assert_eq(rc, ERR_NONE, "%s", rc ? err_message() : "");
    cr_assert(result->accounting_equal);
}

Test(offload_text, ten_million_parameters_on_nvme_learn_as_they_do_in_memory_long, .timeout = 580)
{
    struct train_result infinity, memory;
    run_preset("zero_infinity", &infinity);
    cr_expect_eq(infinity.steps, 20);
    cr_expect_lt(infinity.loss, infinity.first_loss - 1.5, "%f to %f", infinity.first_loss, infinity.loss);
    // No state of the model is on the device, or on the host; all of it is on NVMe.
    for (int tier = TIER_DEVICE; tier <= TIER_HOST; tier++)
        for (int kind = KIND_PARAMETER; kind <= KIND_MASTER; kind++)
            cr_expect_eq(infinity.held_bytes[tier][kind], 0);
    cr_expect_geq(infinity.held_bytes[TIER_NVME][KIND_OPTIMIZER], 8 * infinity.param_elements / 2);
    run_preset("zero3", &memory);
    cr_expect_str_eq(infinity.digest, memory.digest);
    cr_expect_eq(infinity.loss, memory.loss);
    cr_expect_eq(memory.held_bytes[TIER_NVME][KIND_OPTIMIZER], 0);
}
