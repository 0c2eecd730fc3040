// SPDX-License-Identifier: Apache-2.0
// What moves between tiers, a parameter and step, from Psi alone: the numbers of ZeRO-Offload (2 bytes down, 2 bytes
// up) and of states on NVMe, against what runs moved. (That the formulas equal the ledger, other tests demand.)
#include "ref/train/offload_test.h"

#include "ref/executor/trace.h"
#include "ref/model/names/model_find.h"

// A GPT whose shards have no padding at up to 4 ranks.
enum { WIDTH = 128 };
#define MODEL "gpt:layers=2,width=128,heads=2,length=64"

static uint64_t psi(const char *name)
{
    const struct model *model;
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", err_message());
    return model_param_elements(model, true);
}

// Bytes of all ranks on that lane, a parameter and step.
static double per_param(const struct train_result *result, enum lane lane, const struct offload_trial *t)
{
    return (double)result->moved_bytes[lane][OPERATION_COPY] / (double)(psi(t->model) * t->steps);
}

// ZeRO-Offload, section 4.1: gradients go down in 16 bits as they are made, parameters go up in 16 bits, at any
// number of ranks; nothing else crosses the link.
Test(offload_bytes, two_bytes_down_and_two_bytes_up_for_each_parameter_and_step)
{
    static const enum dtype precisions[] = {DTYPE_BF16, DTYPE_FP16};
    for (int stage = 1; stage <= 2; stage++)
        for (int world = 1; world <= 4; world++) {
            enum dtype precision = precisions[world % 2];
            struct offload_trial t = OFFLOAD_TRIAL(.model = MODEL, .stage = stage, .world = world, .steps = 2,
                                                   OFFLOAD_ON_HOST, OFFLOAD_IN(precision));
            struct train_result result = offload_demand(&t);
            uint64_t applied_steps = t.steps - result.skipped_steps;
            cr_expect_eq(result.moved_bytes[LANE_D2H][OPERATION_COPY], 2 * psi(MODEL) * t.steps);
            cr_expect_eq(result.moved_bytes[LANE_H2D][OPERATION_COPY], 2 * psi(MODEL) * applied_steps);
            cr_expect_eq(result.moved_bytes[LANE_NVME_READ][OPERATION_COPY], 0);
            cr_expect_eq(result.moved_bytes[LANE_NVME_WRITE][OPERATION_COPY], 0);
        }
}

// Each further micro-step of ZeRO-2 sends its gradients down once more; ZeRO-1 adds them on the device.
Test(offload_bytes, accumulation_multiplies_what_goes_down_in_stage_2_alone)
{
    for (int stage = 1; stage <= 2; stage++) {
        struct offload_trial t =
            OFFLOAD_TRIAL(.model = MODEL, .stage = stage, OFFLOAD_ON_HOST, .steps = 2, .accumulation = 3);
        struct train_result result = offload_demand(&t);
        cr_expect_eq(per_param(&result, LANE_D2H, &t), stage == 1 ? 2 : 6);
        cr_expect_eq(per_param(&result, LANE_H2D, &t), 2);
    }
}

// fp32 has 4 bytes each way.
Test(offload_bytes, four_bytes_each_way_in_fp32)
{
    struct offload_trial t = OFFLOAD_TRIAL(.model = MODEL, .stage = 2, OFFLOAD_ON_HOST, OFFLOAD_IN(DTYPE_FP32));
    struct train_result result = offload_demand(&t);
    cr_expect_eq(per_param(&result, LANE_D2H, &t), 4);
    cr_expect_eq(per_param(&result, LANE_H2D, &t), 4);
}

// Whole blocks of storage of all ranks' shards: of the embedding, the positions, the last norm and the two layers.
enum { BLOCK = TIER_NVME_ALIGNMENT };

static uint64_t in_blocks(const struct model *model, int world, uint64_t element_bytes)
{
    uint64_t bytes = 0;
    const uint64_t layer = 12 * WIDTH * WIDTH + 13 * WIDTH, ends[] = {256 * WIDTH, 64 * WIDTH, 2 * WIDTH};
    for (int i = 0; i < 3; i++)
        bytes += ((ends[i] / (uint64_t)world * element_bytes + BLOCK - 1) / BLOCK) * BLOCK;
    bytes += 2 * ((layer / (uint64_t)world * element_bytes + BLOCK - 1) / BLOCK) * BLOCK;
    cr_assert_eq(ends[0] + ends[1] + ends[2] + 2 * layer, model_param_elements(model, false));
    return (uint64_t)world * bytes;
}

// Everything on NVMe: master and moments are read and written once a step, 12 bytes each; a 16-bit gradient is written
// once and read for Adam; a parameter is written once, and read for forward and backward, but for the embedding, which
// has room of its own on the host, and the last unit's own, which is used last in forward and first in backward. In the
// first step the norm reads gradients, too, and takes the buffers of the states that were read ahead, those of the
// embedding, which are read again.
Test(offload_bytes, twelve_and_twelve_for_the_states_and_two_to_four_for_gradients_and_parameters_on_nvme)
{
    const struct model *model;
    cr_assert_eq(model_find(MODEL, &model), ERR_NONE);
    for (int world = 1; world <= 2; world++) {
        struct offload_trial t = OFFLOAD_TRIAL(.model = MODEL, .world = world, .steps = 2, OFFLOAD_ON_NVME,
                                               .param_buffers = 1, .sub_group = 1000000000);
        struct train_result result = offload_demand(&t);
        uint64_t of_fp32 = in_blocks(model, world, 4), of_16 = in_blocks(model, world, 2);
        uint64_t written = 3 * of_fp32 + of_16 + of_16;
        cr_expect_eq(result.moved_bytes[LANE_NVME_WRITE][OPERATION_COPY], t.steps * written);
        const uint64_t kept[] = {256 * WIDTH, 2 * WIDTH};
        uint64_t once = 0;
        for (int i = 0; i < 2; i++)
            once += (uint64_t)world * ((kept[i] / (uint64_t)world * 2 + BLOCK - 1) / BLOCK) * BLOCK;
        uint64_t read = 3 * of_fp32 + of_16 + (2 * of_16 - once);
        uint64_t first = of_16 + 3 * (uint64_t)world * ((kept[0] / (uint64_t)world * 4 + BLOCK - 1) / BLOCK) * BLOCK;
        cr_expect_eq(result.moved_bytes[LANE_NVME_READ][OPERATION_COPY], t.steps * read + first, "world %d", world);
        // But for the ends of shards that fill no block: 12 + 2 + 2 written, 12 + 3 + not quite 4 read, and the
        // embedding's states.
        cr_expect_float_eq(per_param(&result, LANE_NVME_WRITE, &t), 16, 0.3);
        cr_expect(per_param(&result, LANE_NVME_READ, &t) > 18 && per_param(&result, LANE_NVME_READ, &t) < 19.5, "%g",
                  per_param(&result, LANE_NVME_READ, &t));
        // The link to the device: gradients down, and parameters up for forward and backward.
        cr_expect_eq(per_param(&result, LANE_D2H, &t), 2);
    }
}

// Optimizer states alone on NVMe: 12 read, 12 written, at every number of ranks and in sub-groups of any size.
Test(offload_bytes, sub_groups_move_no_more_than_their_bytes)
{
    for (int world = 1; world <= 2; world++)
        for (int s = 0; s < 3; s++) {
            static const size_t sizes[] = {2048, 10000, 1000000000};
            struct offload_trial t = OFFLOAD_TRIAL(.model = MODEL, .world = world, .steps = 2, .gradient = TIER_HOST,
                                                   .optimizer = TIER_NVME, .sub_group = sizes[s]);
            const struct model *model;
            cr_assert_eq(model_find(MODEL, &model), ERR_NONE);
            struct train_result result = offload_demand(&t);
            uint64_t states = 3 * in_blocks(model, world, 4) * t.steps;
            cr_expect_eq(result.moved_bytes[LANE_NVME_READ][OPERATION_COPY], states);
            cr_expect_eq(result.moved_bytes[LANE_NVME_WRITE][OPERATION_COPY], states);
            cr_expect_float_eq(per_param(&result, LANE_NVME_READ, &t), 12, 0.3);
        }
}

static uint64_t sum_held(const struct train_result *result, enum ledger_tier tier)
{
    return train_sum(result->held_bytes[tier], KIND_COUNT);
}

Test(offload_bytes, without_offloading_all_is_on_the_device)
{
    for (int stage = 0; stage <= 3; stage++)
        for (size_t accumulation = 1; accumulation <= 2; accumulation++) {
            struct offload_trial t = OFFLOAD_TRIAL(.stage = stage, .accumulation = accumulation,
                                                   .communication = DTYPE_FP32, .sum = DTYPE_FP32);
            struct train_result result = offload_demand(&t);
            cr_expect_gt(sum_held(&result, TIER_DEVICE), 0);
            cr_expect_eq(sum_held(&result, TIER_HOST), 0);
            cr_expect_eq(sum_held(&result, TIER_NVME), 0);
            for (enum lane lane = LANE_H2D; lane <= LANE_NVME_WRITE; lane++)
                cr_expect_eq(result.moved_bytes[lane][OPERATION_COPY], 0);
        }
}

// ZeRO-3's staging on the device, in elements: a layer being used and those fetched ahead of it; a layer's gradients
// being made, and where collectives overlap another's being sent; and the tied embedding in both.
Test(offload_bytes, staging_on_the_device_is_a_few_layers)
{
    const uint64_t layer = 12 * WIDTH * WIDTH + 13 * WIDTH, tied = 256 * WIDTH;
    for (uint64_t ahead = 0; ahead < 3; ahead++)
        for (uint64_t overlap = 0; overlap < 2; overlap++) {
            struct offload_trial t = OFFLOAD_TRIAL(.model = MODEL, .world = 1, .steps = 1, .parameter = TIER_HOST,
                                                   OFFLOAD_ON_HOST, .prefetch = ahead * layer, .overlap_comm = overlap);
            struct train_result result = offload_demand(&t);
            uint64_t elements = (1 + ahead) * layer + tied + (1 + overlap) * layer + tied;
            cr_expect_eq(result.held_bytes[TIER_DEVICE][KIND_STAGING], 2 * elements, "%d ahead", (int)ahead);
        }
}

// The largest layer has 12 width^2 elements; with tiles it is attention, with 4 width^2.
Test(offload_bytes, tiles_need_less_staging)
{
    uint64_t staging[3];
    for (int i = 0; i < 3; i++) {
        struct offload_trial t =
            OFFLOAD_TRIAL(.model = "gpt:layers=2,width=48,heads=2,length=8", .tiles = 1 << i, .world = 3, .steps = 2,
                          .prefetch = 0, .checkpointing = i != 1, .schedule = {EXECUTOR_CHAOS, (uint64_t)i});
        staging[i] = offload_demand(&t).held_bytes[TIER_DEVICE][KIND_STAGING];
    }
    cr_expect_lt(staging[1] * 2, staging[0]);
    cr_expect_eq(staging[2], staging[1]);
}

// Stages 1 and 2 send small units together, as many as the bucket holds.
Test(offload_bytes, small_layers_travel_together_in_stages_1_and_2)
{
    static const size_t buckets[] = {64, 100000};
    for (int stage = 1; stage <= 2; stage++) {
        size_t sent[2] = {0};
        for (int i = 0; i < 2; i++) {
            struct offload_trial t = OFFLOAD_TRIAL(.stage = stage, .steps = 1, .bucket = buckets[i]);
            struct trace trace;
            offload_trace(&t, (struct train_setting){0}, &trace);
            for (size_t j = 0; j < trace.ranks[0].interval_count[LANE_COLLECTIVE]; j++)
                sent[i] += strcmp(trace.ranks[0].intervals[LANE_COLLECTIVE][j].name, "reduce-scatter") == 0;
            trace_close(&trace);
        }
        // All units in one bucket, and the tied parameter, whose gradient is complete last.
        cr_expect_eq(sent[1], 2, "stage %d: %zu", stage, sent[1]);
        cr_expect_gt(sent[0], 50);
    }
}
