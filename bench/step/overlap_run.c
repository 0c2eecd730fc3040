// SPDX-License-Identifier: Apache-2.0
#include "bench/step/overlap_run.h"

#include "base/err.h"
#include "bench/step/lane_kinds.h"
#include "bench/step/step_case.h"
#include "plan/planner/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 1 };

// Threads of a rank on the host: one, which computes; or its share of the processors (0) if a device computes and the
// host only runs the optimizer.
static int threads(const struct overlap_bench *bench)
{
    return bench->device.accelerator ? 0 : 1;
}

// Prefetches two layers, and keeps no other parameters in memory. The update waits for all gradients, to clip them and
// to detect overflow; an eager one updates a layer as soon as its gradient is complete, and so does a
// speculative one, which makes the update again where the step is clipped.
// The configuration of a run.
static int overlap_config(const struct overlap_bench *bench, bool infinity, struct config *out)
{
    const struct overlap_options *given = bench->options;
    size_t elements = step_largest_layer(bench->model);
    char sequences[80], reduce[80], gather[80], prefetch[80], sub_group[80];
    snprintf(sequences, sizeof sequences, "train_micro_batch_size_per_gpu=%zu", bench->sequences);
    snprintf(reduce, sizeof reduce, "zero_optimization.reduce_bucket_size=%zu", elements + elements % 2);
    snprintf(gather, sizeof gather, "zero_optimization.allgather_bucket_size=%zu", elements + elements % 2);
    snprintf(prefetch, sizeof prefetch, "zero_optimization.stage3_prefetch_bucket_size=%zu", 2 * elements);
    snprintf(sub_group, sizeof sub_group, "zero_optimization.sub_group_size=%zu",
             elements / bench->sub_groups / (size_t)given->world + 1);
    const char *const set[] = {sequences,
                               given->eager ? "gradient_clipping=0" : "gradient_clipping=1",
                               given->eager ? "bf16.check_grad_overflow=false" : "bf16.check_grad_overflow=true",
                               reduce,
                               gather,
                               prefetch,
                               sub_group,
                               "zerogauge.activation_checkpointing.enabled=false",
                               "zerogauge.activation_checkpointing.device=none",
                               given->speculative ? "zerogauge.speculative_update=true"
                                                  : "zerogauge.speculative_update=false",
                               "zero_optimization.offload_param.max_in_cpu=0"};
    enum { COMMON_SET = 3 };
    const struct config_options options = {
        .world = given->world,
        .set = set,
        .set_count = infinity ? sizeof set / sizeof set[0] : COMMON_SET,
        .nvme_paths = given->shared.storage.paths,
        .nvme_path_count = (size_t)given->shared.storage.path_count,
        .engine = given->shared.storage.engine,
    };
    return config_load_preset(infinity ? "zero_infinity" : "zero3", &options, out, NULL);
}

int overlap_train(const struct overlap_bench *bench, struct overlap_run *run)
{
    struct config config;
    TRY(overlap_config(bench, run->infinity, &config));
    TRY(trace_open(bench->options->world, &run->trace));
    const struct train_setting setting = {
        .config = &config,
        .model = bench->model,
        .text = bench->text,
        .world = bench->options->world,
        .steps = run->steps,
        .seed = SEED,
        .schedule = {run->mode, 0},
        .accelerator = bench->device.accelerator,
        .device_count = bench->device.count,
        .threads = threads(bench),
        .swap_checksum = !bench->options->shared.storage.no_checksum,
        .buffered = bench->options->shared.storage.buffered,
        .emulation = run->emulation,
        .inject = bench->inject,
        .trace = &run->trace,
    };
    struct train_result result;
    int code = train_run(&setting, &result);
    free(result.step_ns);
    if (code == ERR_NONE && !result.accounting_equal)
        code = err_set(ERR_CHECK, "bytes held or moved differ from the formulas");
    memcpy(run->digest, result.digest, sizeof run->digest);
    run->redone_steps = result.redone_steps;
    run->unlocked_bytes = result.unlocked_bytes;
    return code;
}

// Trains in memory, and notes the model's first such run.
static int train_plain(struct overlap_bench *bench, struct overlap_run *plain, double *flops)
{
    TRY(overlap_train(bench, plain));
    if (bench->plain_steps > 0)
        return ERR_NONE;
    struct lane_table table;
    lane_table_of(&plain->trace, bench->options->shared.warmup, &table);
    *flops = model_flops(bench->model, bench->sequences) / (bench_median(&table.busy_ms[LANE_COMPUTE]) * 1e-3);
    bench->plain_steps = plain->steps;
    memcpy(bench->plain_digest, plain->digest, sizeof bench->plain_digest);
    return ERR_NONE;
}

int overlap_compare(struct overlap_bench *bench, const struct overlap_run *run, double *flops)
{
    struct overlap_run plain = {.mode = EXECUTOR_SERIAL, .steps = run->steps};
    int code = ERR_NONE;
    memcpy(plain.digest, bench->plain_digest, sizeof plain.digest);
    if (bench->plain_steps != run->steps)
        code = train_plain(bench, &plain, flops);
    if (code == ERR_NONE && *run->digest && strcmp(run->digest, plain.digest) != 0)
        code = err_set(ERR_CHECK, "the run ended with digest %s, the same steps in memory with %s", run->digest,
                       plain.digest);
    trace_close(&plain.trace);
    return code;
}

// An operation's share of the time of its kind is its share of the work.
static double seconds_of(const void *context, const struct executor_operation *operation)
{
    const struct lane_kind *kind = lane_kinds_find(context, operation->lane, operation->name);
    if (!kind)
        return 0;
    if (kind->flops > 0)
        return kind->seconds * operation->flops / kind->flops;
    if (kind->bytes > 0)
        return kind->seconds * (double)operation->bytes / kind->bytes;
    if (kind->work_bytes > 0)
        return kind->seconds * (double)operation->work_bytes / kind->work_bytes;
    return kind->seconds * (double)operation->times / kind->count;
}

int overlap_plan_of(const struct overlap_bench *bench, const struct overlap_run *run, struct overlap_plan *out)
{
    struct config config;
    struct lane_kinds kinds = {.count = 0};
    struct plan plan;
    TRY(overlap_config(bench, run->infinity, &config));
    const struct trace_rank *rank = &run->trace.ranks[0];
    TRY(lane_kinds_add(rank, rank->steps[bench->options->shared.warmup].begin_ns, UINT64_MAX, &kinds));
    const struct plan_setting setting = {.config = &config,
                                         .model = bench->model,
                                         .world = bench->options->world,
                                         .seconds = seconds_of,
                                         .seconds_context = &kinds};
    TRY(plan_run(&setting, &plan));
    *out = (struct overlap_plan){.step_ms = plan.step_s * 1e3};
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (plan.busy_s[lane] * 1e3 > out->busy_ms) {
            out->busiest = (enum lane)lane;
            out->busy_ms = plan.busy_s[lane] * 1e3;
        }
    return ERR_NONE;
}

json_t *overlap_plan_json(const struct overlap_plan *plan, double measured)
{
    double efficiency = plan->busy_ms / plan->step_ms;
    return json_pack("{s:f, s:s, s:f, s:f, s:f, s:f}", "step_ms", plan->step_ms, "busiest_lane",
                     ledger_lane_name(plan->busiest), "busy_ms", plan->busy_ms, "efficiency", efficiency, "measured",
                     measured, "difference", measured - efficiency);
}
