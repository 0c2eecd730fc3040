// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan.h"

#include "base/clock.h"
#include "plan/planner/plan_model.h"
#include "ref/comm/comm_dry.h"
#include "base/err.h"
#include "ref/train/train_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// A dry run, and the start of its last step.
struct dry_run {
    const struct plan_setting *setting;
    struct config config;
    struct train_setting training;
    struct train_result result;
    struct train_rank rank;
    struct plan_lanes lanes;
    uint64_t step_begin_ns;
    size_t step_first_event;
};

// Replaces each count by the ledger's count minus it: a call at the start and one at the end leave the difference.
static void note_ledger(const struct ledger *ledger, uint64_t bytes[LANE_COUNT][OPERATION_COUNT],
                        uint64_t count[LANE_COUNT][OPERATION_COUNT], uint64_t sent_bytes[PURPOSE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int operation = 0; operation < OPERATION_COUNT; operation++) {
            bytes[lane][operation] = ledger->moved_bytes[lane][operation] - bytes[lane][operation];
            count[lane][operation] = ledger->moved_count[lane][operation] - count[lane][operation];
        }
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        sent_bytes[purpose] = ledger->sent_bytes[purpose] - sent_bytes[purpose];
}

static int run_steps(struct dry_run *run, uint64_t steps, struct plan *out)
{
    struct train_rank *rank = &run->rank;
    for (uint64_t step = 1; step <= steps; step++) {
        struct train_outcome outcome;
        if (step == steps) {
            run->step_begin_ns = executor_dry_now(rank->executor);
            executor_dry_events(rank->executor, &run->step_first_event);
            note_ledger(&rank->ledger, out->step_bytes, out->step_count, out->step_sent_bytes);
        }
        TRY(train_step(rank, step, &outcome));
    }
    note_ledger(&rank->ledger, out->step_bytes, out->step_count, out->step_sent_bytes);
    note_ledger(&rank->ledger, out->run_bytes, out->run_count, out->run_sent_bytes);
    out->steps = steps;
    return ERR_NONE;
}

static double checkpointed_share(const struct plan_setting *setting)
{
    return setting->checkpointed_share > 0 ? setting->checkpointed_share : setting->config->activation_checkpointing;
}

static void note_device(const struct plan_setting *setting, struct plan *out)
{
    struct transformer transformer;
    for (int tier = 0; tier < TIER_COUNT; tier++)
        out->needed_bytes[tier] = out->peak_bytes[tier];
    if (!setting->machine || !plan_machine_is_gpu(setting->machine) ||
        !plan_model_transformer(setting->model, &transformer))
        return;
    const struct device_setting of = {.config = setting->config,
                                      .model = setting->model,
                                      .transformer = &transformer,
                                      .held_bytes = (const uint64_t(*)[KIND_COUNT])out->held_bytes,
                                      .world = setting->world,
                                      .logit_bytes = setting->logit_bytes,
                                      .checkpointed_share = checkpointed_share(setting)};
    device_memory_of(&of, &out->device);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        out->needed_bytes[tier] = out->device.total_bytes[tier];
}

static void note_memory(const struct dry_run *run, struct plan *out)
{
    const struct plan_machine *machine = run->setting->machine;
    static const enum machine_figure figures[TIER_COUNT] = {
        [TIER_DEVICE] = MACHINE_DEVICE_MEMORY_BYTES,
        [TIER_HOST] = MACHINE_NODE_HOST_MEMORY_BYTES,
        [TIER_NVME] = MACHINE_NODE_NVME_BYTES,
    };
    out->fits_all = true;
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        for (int kind = 0; kind < KIND_COUNT; kind++)
            out->held_bytes[tier][kind] = run->rank.ledger.held_bytes[tier][kind];
        out->peak_bytes[tier] = run->rank.ledger.tier_peak_bytes[tier];
    }
    note_device(run->setting, out);
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        if (machine) {
            int sharers = tier == TIER_DEVICE ? 1 : plan_machine_active(machine, run->setting->world);
            out->available_bytes[tier] = (uint64_t)(machine->figures[figures[tier]].value / sharers);
        }
        out->fits[tier] = !machine || out->needed_bytes[tier] <= out->available_bytes[tier];
        out->fits_all &= out->fits[tier];
    }
}

// The part of an event within the step, ns.
static uint64_t within(const struct executor_event *event, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t from = event->begin_ns > begin_ns ? event->begin_ns : begin_ns;
    uint64_t to = event->end_ns < end_ns ? event->end_ns : end_ns;
    return from < to ? to - from : 0;
}

static struct plan_part *part_of(struct plan *plan, const struct executor_event *event)
{
    for (int i = 0; i < plan->part_count; i++)
        if (plan->parts[i].lane == event->lane && strcmp(plan->parts[i].name, event->name) == 0)
            return &plan->parts[i];
    if (plan->part_count == PLAN_PART_MAX)
        return NULL;
    plan->parts[plan->part_count] = (struct plan_part){.name = event->name, .lane = event->lane};
    return &plan->parts[plan->part_count++];
}

static int compare_parts(const void *left, const void *right)
{
    const struct plan_part *a = left, *b = right;
    if (a->critical_s != b->critical_s)
        return a->critical_s < b->critical_s ? 1 : -1;
    return a->busy_s < b->busy_s ? 1 : a->busy_s > b->busy_s ? -1 : 0;
}

static int note_time(const struct dry_run *run, struct plan *out)
{
    const struct executor *executor = run->rank.executor;
    size_t count;
    const struct executor_event *events = executor_dry_events(executor, &count);
    uint64_t begin_ns = run->step_begin_ns, end_ns = executor_dry_now(executor);
    out->step_s = (double)(end_ns - begin_ns) * 1e-9;
    for (size_t i = 0; i < count; i++) {
        bool issued = i >= run->step_first_event;
        uint64_t busy_ns = within(&events[i], begin_ns, end_ns);
        struct plan_part *part = issued || busy_ns > 0 ? part_of(out, &events[i]) : NULL;
        if (!part && (issued || busy_ns > 0))
            return err_set(ERR_INTERNAL, "a plan has more than %d kinds of operations", PLAN_PART_MAX);
        if (!part)
            continue;
        part->count += issued ? events[i].times : 0;
        part->bytes += issued ? events[i].bytes : 0;
        part->flops += issued ? events[i].flops : 0;
        out->device_flops += issued ? events[i].flops : 0;
        part->busy_s += (double)busy_ns * 1e-9;
        out->busy_s[events[i].lane] += (double)busy_ns * 1e-9;
    }
    for (long at = executor_dry_last(executor); at != EXECUTOR_NO_EVENT && events[at].end_ns > begin_ns;
         at = events[at].after) {
        double critical_s = (double)within(&events[at], begin_ns, end_ns) * 1e-9;
        part_of(out, &events[at])->critical_s += critical_s;
        out->critical_s[events[at].lane] += critical_s;
    }
    qsort(out->parts, (size_t)out->part_count, sizeof out->parts[0], compare_parts);
    return ERR_NONE;
}

// Copies the events that ran in the step, with times since its start.
static int keep_events(const struct dry_run *run, struct plan *out)
{
    size_t count;
    const struct executor_event *events = executor_dry_events(run->rank.executor, &count);
    uint64_t begin_ns = run->step_begin_ns, end_ns = executor_dry_now(run->rank.executor);
    long *index = malloc((count + 1) * sizeof *index);
    out->events = malloc((count + 1) * sizeof *out->events);
    if (!index || !out->events) {
        free(index);
        return err_set(ERR_MEMORY, "no memory for the timeline of %zu operations", count);
    }
    for (size_t i = 0; i < count; i++) {
        struct executor_event event = events[i];
        bool there = event.end_ns > begin_ns && event.begin_ns < end_ns;
        index[i] = there ? (long)out->event_count : EXECUTOR_NO_EVENT;
        if (!there)
            continue;
        event.begin_ns = event.begin_ns > begin_ns ? event.begin_ns - begin_ns : 0;
        event.end_ns = (event.end_ns < end_ns ? event.end_ns : end_ns) - begin_ns;
        event.after = event.after == EXECUTOR_NO_EVENT ? EXECUTOR_NO_EVENT : index[event.after];
        out->events[out->event_count++] = event;
    }
    long last = executor_dry_last(run->rank.executor);
    out->last_event = last == EXECUTOR_NO_EVENT ? EXECUTOR_NO_EVENT : index[last];
    free(index);
    return ERR_NONE;
}

static void note_stragglers(const struct plan_setting *setting, struct plan *out)
{
    if (setting->machine)
        out->straggler_s = out->step_s * plan_machine_straggler_share(setting->machine, setting->world);
    out->step_s += out->straggler_s;
}

static void note_work(const struct dry_run *run, struct plan *out)
{
    const struct plan_setting *setting = run->setting;
    const struct config *config = setting->config;
    struct transformer transformer;
    bool is_frozen = plan_model_transformer(setting->model, &transformer) && transformer.is_frozen;
    out->model_flops = (double)config->accumulation * model_flops(setting->model, config->micro_batch);
    out->model_flops *= is_frozen ? 2.0 / 3 : 1;  // without the weights' gradients
    out->peak_flops_per_s = setting->machine ? plan_machine_peak(setting->machine, config->precision) : 0;
    out->tokens = config->train_batch * setting->model->sequence_length;
}

static void note_kernels(const struct plan_setting *setting, struct plan_lanes *lanes)
{
    const struct config *config = setting->config;
    struct transformer transformer;
    if (plan_machine_is_gpu(setting->machine) && plan_model_transformer(setting->model, &transformer))
        plan_lanes_compute(setting->machine, &transformer, config->micro_batch, config->precision,
                           checkpointed_share(setting), config->activation_checkpointing,
                           model_flops(setting->model, config->micro_batch) / 3, lanes);
}

static int run_rank(struct dry_run *run, struct plan *out)
{
    const struct plan_setting *setting = run->setting;
    uint64_t steps = setting->steps;
    TRY(comm_dry_open(setting->rank, setting->world, &run->rank.comm));
    TRY(train_rank_open(&run->rank));
    if (setting->machine) {
        TRY(plan_lanes_of(setting->machine, setting->world, setting->config->precision, &run->lanes));
        note_kernels(setting, &run->lanes);
        executor_dry_time(run->rank.executor, plan_lanes_seconds, &run->lanes);
    }
    // The first step records the access trace; an update that runs beside the next step shows one step later.
    if (steps == 0)
        steps = stage_updates_beside(&run->rank.stage) ? 3 : 2;
    TRY(run_steps(run, steps, out));
    note_memory(run, out);
    note_work(run, out);
    TRY(note_time(run, out));
    note_stragglers(setting, out);
    return setting->keeps_events ? keep_events(run, out) : ERR_NONE;
}

int plan_run(const struct plan_setting *setting, struct plan *out)
{
    assert(setting->config && setting->model && setting->world >= 1);
    assert(setting->rank >= 0 && setting->rank < setting->world);
    double began_s = clock_now_s();
    *out = (struct plan){0};
    struct dry_run *run = calloc(1, sizeof *run);
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
    free(run);
    out->took_s = clock_now_s() - began_s;
    return code;
}

void plan_free(struct plan *plan)
{
    free(plan->events);
    plan->events = NULL;
}
