// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_internal.h"

#include "base/clock.h"
#include "plan/planner/plan_degrees.h"
#include "plan/planner/plan_model.h"
#include "plan/shape/decoder.h"
#include "ref/comm/comm.h"
#include "ref/model/whole.h"
#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Replaces each count by the ledger's count minus it: a call at the start and one at the end leave the difference.
static void note_ledger(const struct ledger *ledger, uint64_t bytes[LANE_COUNT][OPERATION_COUNT],
                        uint64_t count[LANE_COUNT][OPERATION_COUNT], uint64_t sent_bytes[PURPOSE_COUNT],
                        uint64_t group_bytes[GROUP_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int operation = 0; operation < OPERATION_COUNT; operation++) {
            bytes[lane][operation] = ledger->moved_bytes[lane][operation] - bytes[lane][operation];
            count[lane][operation] = ledger->moved_count[lane][operation] - count[lane][operation];
        }
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        sent_bytes[purpose] = ledger->sent_bytes[purpose] - sent_bytes[purpose];
    for (int group = 0; group < GROUP_COUNT; group++)
        group_bytes[group] = ledger->group_bytes[group] - group_bytes[group];
}

static int run_steps(struct plan_dry *run, uint64_t steps, struct plan *out)
{
    struct train_rank *rank = &run->rank;
    for (uint64_t step = 1; step <= steps; step++) {
        struct train_outcome outcome;
        if (step == steps) {
            run->step_begin_ns = executor_dry_now(rank->executor);
            executor_dry_events(rank->executor, &run->step_first_event);
            note_ledger(&rank->ledger, out->step_bytes, out->step_count, out->step_sent_bytes, out->step_group_bytes);
        }
        TRY(train_step(rank, step, &outcome));
    }
    note_ledger(&rank->ledger, out->step_bytes, out->step_count, out->step_sent_bytes, out->step_group_bytes);
    out->steps = steps;
    return ERR_NONE;
}

// A run ends with the update that the next step's forward would issue.
static int end_run(struct plan_dry *run, struct plan *out)
{
    TRY(stage_end_update(&run->rank.stage));
    note_ledger(&run->rank.ledger, out->run_bytes, out->run_count, out->run_sent_bytes, out->run_group_bytes);
    return ERR_NONE;
}

static double checkpointed_share(const struct plan_setting *setting)
{
    double share = setting->choice.checkpointed_share;
    return !setting->config->activation_checkpointing ? 0 : share > 0 ? share : 1;
}

// The sizes of the part of a transformer that a rank trains. False: the model is no transformer.
static bool transformer_of(const struct plan_dry *run, bool with_head, struct transformer *out)
{
    const struct train_pipeline *pipeline = &run->rank.pipeline;
    bool is_last = pipeline->stage == pipeline->schedule.stage_count - 1;
    if (!plan_model_transformer(run->rank.model, out))
        return false;
    out->vocabulary = with_head || is_last ? out->vocabulary : 0;
    return true;
}

static void note_device(const struct plan_dry *run, struct plan *out)
{
    const struct plan_setting *setting = run->setting;
    const struct train_pipeline *pipeline = &run->rank.pipeline;
    struct transformer transformer;
    for (int tier = 0; tier < TIER_COUNT; tier++)
        out->needed_bytes[tier] = out->at_most_bytes[tier] = out->peak_bytes[tier];
    if (!setting->machine || !plan_machine_is_gpu(setting->machine) || !transformer_of(run, false, &transformer))
        return;
    struct framework_choice choice = setting->choice;
    choice.checkpointed_share = checkpointed_share(setting);
    const struct device_setting of = {
        .config = setting->config,
        .model = run->rank.model,
        .transformer = &transformer,
        .held_bytes = (const uint64_t(*)[KIND_COUNT])out->held_bytes,
        .world = setting->world,
        .choice = &choice,
        .in_flight = plan_degrees_in_flight(&setting->choice, &pipeline->schedule, pipeline->stage)};
    device_memory_of(&of, &out->device);
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        out->needed_bytes[tier] = out->device.total_bytes[tier];
        out->at_most_bytes[tier] = out->device.at_most_bytes[tier];
    }
}

static void note_memory(const struct plan_dry *run, struct plan *out)
{
    const struct plan_machine *machine = run->setting->machine;
    static const enum machine_figure figures[TIER_COUNT] = {
        [TIER_DEVICE] = MACHINE_DEVICE_MEMORY_BYTES,
        [TIER_HOST] = MACHINE_NODE_HOST_MEMORY_BYTES,
        [TIER_NVME] = MACHINE_NODE_NVME_BYTES,
    };
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        for (int kind = 0; kind < KIND_COUNT; kind++)
            out->held_bytes[tier][kind] = run->rank.ledger.held_bytes[tier][kind];
        out->peak_bytes[tier] = run->rank.ledger.tier_peak_bytes[tier];
    }
    note_device(run, out);
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        if (machine) {
            int sharers = tier == TIER_DEVICE ? 1 : plan_machine_active(machine, run->setting->world);
            out->available_bytes[tier] = (uint64_t)(machine->figures[figures[tier]].value / sharers);
        }
        if (machine && out->at_most_bytes[tier] > out->available_bytes[tier])
            out->verdicts[tier] = out->needed_bytes[tier] > out->available_bytes[tier] ? PLAN_DOES_NOT_FIT : PLAN_TIGHT;
        if (out->verdicts[tier] > out->verdict)
            out->verdict = out->verdicts[tier];
    }
}

static void note_stragglers(const struct plan_setting *setting, struct plan *out)
{
    if (setting->machine)
        out->straggler_s = out->step_s * plan_machine_straggler_share(setting->machine, setting->world);
    out->step_s += out->straggler_s;
}

// Adds what rings and the borders of an interleaved stage send, which the ledger lacks.
static void note_sends(const struct plan_dry *run, struct plan *out)
{
    const struct train_pipeline *pipeline = &run->rank.pipeline;
    double more = plan_degrees_borders(&run->setting->choice, &pipeline->schedule, pipeline->stage) - 1;
    struct transformer own;
    if (transformer_of(run, false, &own))
        out->ring_bytes = plan_degrees_ring_bytes(&run->setting->choice, run->setting->config, &own);
    for (int i = 0; i < out->part_count; i++)
        if (strncmp(out->parts[i].name, "send ", strlen("send ")) == 0 && !strstr(out->parts[i].name, " tied ")) {
            uint64_t bytes = (uint64_t)(more * (double)out->parts[i].bytes);
            out->step_group_bytes[GROUP_PIPELINE] += bytes;
            out->step_bytes[LANE_COLLECTIVE][OPERATION_SEND] += bytes;
        }
}

static void note_work(const struct plan_dry *run, struct plan *out)
{
    const struct plan_setting *setting = run->setting;
    const struct config *config = setting->config;
    struct transformer transformer;
    bool is_frozen = plan_model_transformer(setting->model, &transformer) && transformer.is_frozen;
    out->model_flops =
        (double)config->accumulation * model_flops(setting->model, config->micro_batch) / mesh_parts(&run->rank.mesh);
    out->model_flops *= is_frozen ? 2.0 / 3 : 1;  // without the weights' gradients
    out->peak_flops_per_s = setting->machine ? plan_machine_peak(setting->machine, config->precision) : 0;
    // A sequence is counted once, and each of its ranks has a part of it.
    out->tokens = config->train_batch * plan_model_length(setting->model);
    note_sends(run, out);
}

// A pipeline is as fast as its slowest stage: where the stages have as many blocks, the last one, for its head; else
// that one, or one with the most blocks.
static void note_kernels(struct plan_dry *run, struct plan_lanes *lanes)
{
    const struct plan_setting *setting = run->setting;
    const struct config *config = setting->config;
    struct transformer own, whole;
    if (!plan_machine_is_gpu(setting->machine) || !transformer_of(run, true, &own) ||
        !plan_model_transformer(setting->model, &whole))
        return;
    size_t stages = (size_t)run->rank.mesh.pipeline, last = decoder_stage_blocks(whole.blocks, stages, stages - 1);
    size_t most = last;
    for (size_t stage = 0; stage < stages; stage++)
        most = decoder_stage_blocks(whole.blocks, stages, stage) > most
                   ? decoder_stage_blocks(whole.blocks, stages, stage)
                   : most;
    struct transformer candidates[] = {own, own};
    candidates[0].blocks = last;
    candidates[1].blocks = most;
    candidates[1].vocabulary = 0;
    const struct train_pipeline *pipeline = &run->rank.pipeline;
    for (int i = 0; i < 2; i++) {
        struct plan_lanes candidate = *lanes;
        plan_lanes_compute(setting->machine, &candidates[i], config->micro_batch, config->precision,
                           setting->choice.products, framework_of(&setting->choice, config)->has_fused_kernels,
                           checkpointed_share(setting), config->activation_checkpointing,
                           model_flops(run->rank.model, config->micro_batch) / 3, run->rank.mesh.tensor, &candidate);
        if (i == 0 || candidate.forward_flops_per_s < lanes->forward_flops_per_s)
            *lanes = candidate;
    }
    lanes->borders = plan_degrees_borders(&setting->choice, &pipeline->schedule, pipeline->stage);
    lanes->activation_share = (double)dtype_bytes(config->precision) / sizeof(float);
}

// Names a dtype that the machine computes where it does not compute the configuration's.
static int check_dtype(const struct plan_setting *setting)
{
    const struct plan_machine *machine = setting->machine;
    enum dtype dtype = setting->config->precision;
    if (plan_machine_peak(machine, dtype) > 0)
        return ERR_NONE;
    bool has_bf16 = plan_machine_peak(machine, DTYPE_BF16) > 0, has_fp16 = plan_machine_peak(machine, DTYPE_FP16) > 0;
    return err_set(ERR_USAGE,
                   "the machine %s has no %s matrices (no device_%s_flops_per_s): plan %s with --set bf16.enabled=%s "
                   "--set fp16.enabled=%s",
                   machine->name, dtype_name(dtype), dtype_name(dtype),
                   dtype_name(has_bf16   ? DTYPE_BF16
                              : has_fp16 ? DTYPE_FP16
                                         : DTYPE_FP32),
                   has_bf16 ? "true" : "false", has_fp16 && !has_bf16 ? "true" : "false");
}

static int run_rank(struct plan_dry *run, struct plan *out)
{
    const struct plan_setting *setting = run->setting;
    uint64_t steps = setting->steps;
    TRY(plan_degrees_check(&setting->choice, setting->config, setting->world, setting->model));
    if (run->config.uses_muon) {
        TRY(model_whole_open(setting->model, &run->whole));
        run->training.model = &run->whole->model;
    }
    TRY(comm_dry_open(setting->rank, setting->world, &run->rank.comm));
    TRY(train_rank_open(&run->rank));
    if (setting->machine && !setting->seconds) {
        double rate;
        bool fused = framework_of(&setting->choice, setting->config)->has_fused_kernels;
        TRY(check_dtype(setting));
        TRY(plan_lanes_of(setting->machine, setting->world, setting->config->precision, &run->lanes));
        TRY(plan_machine_product_rate(setting->machine, setting->config->precision, setting->choice.products, fused,
                                      &rate));
        note_kernels(run, &run->lanes);
        if (plan_machine_is_gpu(setting->machine))
            executor_dry_reduces_beside(run->rank.executor);
        executor_dry_time(run->rank.executor, plan_lanes_seconds, &run->lanes);
    }
    if (setting->seconds)
        executor_dry_time(run->rank.executor, setting->seconds, setting->seconds_context);
    note_memory(run, out);
    if (setting->only_memory ||
        (setting->only_fitting && out->verdict > (setting->also_tight ? PLAN_TIGHT : PLAN_FITS)))
        return ERR_NONE;
    // The first step records the access trace; an update that overlaps the next step shows one step later.
    if (steps == 0)
        steps = stage_overlaps_updates(&run->rank.stage) ? 3 : 2;
    TRY(run_steps(run, steps, out));
    TRY(plan_note_time(run, out));
    note_work(run, out);
    plan_note_bubble(run, out);
    note_stragglers(setting, out);
    return end_run(run, out);
}

int plan_run(const struct plan_setting *setting, struct plan *out)
{
    assert(setting->config && setting->model && setting->world >= 1);
    assert(setting->rank >= 0 && setting->rank < setting->world);
    double began_s = clock_now_s();
    *out = (struct plan){0};
    struct plan_dry *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a plan");
    run->setting = setting;
    run->config = *setting->config;
    if (setting->steps == 0 && run->config.delayed_update_start_step > 0)
        run->config.delayed_update_start_step = 1;
    run->training = (struct train_setting){
        .config = &run->config,
        .model = setting->model,
        .world = setting->world,
        .schedule = {.mode = EXECUTOR_DRY},
        .threads = 1,
    };
    run->rank.setting = &run->training;
    run->rank.result = &run->result;
    run->rank.rank = setting->rank;
    int code = run_rank(run, out);
    train_rank_close(&run->rank);
    comm_close(run->rank.comm);
    model_whole_close(run->whole);
    free(run);
    out->took_s = clock_now_s() - began_s;
    return code;
}
