// SPDX-License-Identifier: Apache-2.0
// The run: one thread a rank, each with its ledger, tier, executor, stage and model run; errors of one end all.
#include "ref/train/train_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "ref/train/train_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void abort_peers(void *context, const char *message)
{
    comm_abort(context, message);
}

static int open_batches(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    size_t token_count = setting->config->micro_batch * (setting->model->sequence_length + 1) + 1;
    rank->batches = calloc(setting->config->accumulation, sizeof *rank->batches);
    size_t pointers = (size_t)setting->model->param_count * (sizeof(void *) + sizeof(struct model_gradient));
    rank->arguments = malloc(256 + pointers);
    if (!rank->batches || !rank->arguments)
        return err_set(ERR_MEMORY, "no memory for %zu micro-batches", setting->config->accumulation);
    for (size_t i = 0; i < setting->config->accumulation; i++)
        if (!(rank->batches[i].tokens = malloc(token_count * sizeof(uint16_t))))
            return err_set(ERR_MEMORY, "no memory for %zu tokens", token_count);
    return ERR_NONE;
}

// Without data: tiers have addresses alone, and states no values.
static bool is_dry(const struct train_rank *rank)
{
    return rank->setting->schedule.mode == EXECUTOR_DRY;
}

static int open_tiers(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    const struct config *config = setting->config;
    const struct tier_setting memory = {
        .device_bytes = setting->device_memory_bytes,
        .host_bytes = setting->host_memory_bytes,
        .lock_host = config->offload_optimizer.pin_memory || config->offload_param.pin_memory,
        .planned = is_dry(rank),
        .accelerator = setting->accelerator,
        .device = setting->comm          ? setting->device
                  : setting->accelerator ? (setting->device + rank->rank) % setting->device_count
                                         : 0,
    };
    TRY(tier_open(&rank->ledger, &memory, &rank->tier));
    if (!config_uses_nvme(config))
        return ERR_NONE;
    const char *paths[CONFIG_NVME_PATH_MAX];
    for (int i = 0; i < config->nvme_path_count; i++)
        paths[i] = config->nvme_paths[i];
    inject_begin(&rank->inject, &setting->inject);
    const struct tier_nvme_setting nvme = {
        .paths = paths,
        .path_count = config->nvme_path_count,
        .rank = rank->rank,
        .budget_bytes = setting->nvme_space_bytes,
        .aio = config->aio,
        .buffered = setting->buffered,
        .checksum = setting->swap_checksum,
        .planned = is_dry(rank),
        .inject = setting->inject.fault_count > 0 ? &rank->inject : NULL,
    };
    return tier_nvme_open(&nvme, &rank->ledger, &rank->nvme);
}

int train_rank_open(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    const struct config *config = setting->config;
    const struct stage_operations *operations;
    TRY(stage_find(config->stage, &operations));
    TRY(open_batches(rank));
    TRY(open_tiers(rank));
    TRY(executor_open(setting->schedule, rank->rank, rank->tier, abort_peers, rank->comm, &rank->executor));
    executor_emulate(rank->executor, setting->emulation.bytes_per_s);
    executor_record(rank->executor, setting->trace);
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const struct stage_setting stage_setting = {
        .model = setting->model,
        .config = config,
        .comm = rank->comm,
        .executor = rank->executor,
        .tier = rank->tier,
        .nvme = rank->nvme,
        .ledger = &rank->ledger,
        .seed = setting->seed,
        .threads = setting->threads > 0     ? setting->threads
                   : cores > setting->world ? cores / setting->world
                                            : 1,
    };
    TRY((is_dry(rank) ? stage_plan : stage_open)(operations, &stage_setting, &rank->stage));
    TRY(model_run_open(setting->model, config->micro_batch, config->precision, config->activation_checkpointing,
                       rank->tier, &rank->run));
    size_t run_bytes =
        model_run_bytes(setting->model, config->micro_batch, config->precision, config->activation_checkpointing);
    TRY(activations_open(setting->model, config, &rank->stage.move, rank->tier, &rank->activations));
    comm_count_in(rank->comm, &rank->ledger);
    formula_of(&rank->stage, rank->rank, run_bytes, sizeof(struct train_report_of_rank), &rank->formula);
    activations_formula(&rank->activations, &rank->formula);
    return is_dry(rank) ? ERR_NONE : verify_open(rank);
}

void train_rank_close(struct train_rank *rank)
{
    executor_close(rank->executor);
    verify_close(rank);
    model_run_close(rank->run);
    activations_close(&rank->activations);
    if (rank->stage.operations)
        stage_close(&rank->stage);
    tier_nvme_close(rank->nvme);
    tier_close(rank->tier);
    for (size_t i = 0; rank->batches && i < rank->setting->config->accumulation; i++)
        free((void *)(uintptr_t)rank->batches[i].tokens);
    free(rank->batches);
    free(rank->arguments);
}

// The mean loss over ranks, and whether any rank wants to stop: all do the same.
int train_agree(struct train_rank *rank, double *loss, bool *stop)
{
    int world = comm_world(rank->comm);
    const volatile sig_atomic_t *interrupted = rank->setting->interrupted;
    bool differs = rank->rank == 0 && rank->result->difference.found;
    struct train_report_of_rank mine = {rank->loss, differs || (interrupted && *interrupted)}, all[world];
    size_t counts[world], offsets[world];
    for (int i = 0; i < world; i++) {
        counts[i] = sizeof mine;
        offsets[i] = (size_t)i * sizeof mine;
    }
    TRY(comm_all_gather(rank->comm, &mine, all, counts, offsets, DTYPE_BYTE));
    double sum = 0.0;
    *stop = false;
    for (int i = 0; i < world; i++) {
        sum += all[i].loss;
        *stop |= all[i].stop != 0;
    }
    *loss = sum / ((double)world * (double)rank->setting->config->accumulation);
    return ERR_NONE;
}

static void note_step(struct train_rank *rank, uint64_t step, bool applied, double loss, uint64_t took_ns)
{
    struct train_result *result = rank->result;
    const struct train_setting *setting = rank->setting;
    uint64_t tokens = setting->config->train_batch * setting->model->sequence_length;
    result->steps = step;
    result->skipped_steps += !applied;
    result->first_loss = step == rank->resumed_step + 1 ? loss : result->first_loss;
    result->loss = loss;
    result->step_ns[step - rank->resumed_step - 1] = took_ns;
    result->seconds += (double)took_ns * 1e-9;
    result->tokens += tokens;
    if (!setting->progress)
        return;
    const struct optimizer *optimizer = &rank->stage.optimizer;
    const struct train_progress progress = {
        .step = step,
        .steps = setting->steps,
        .loss = loss,
        .lr = optimizer->lr,
        .norm = optimizer->norm,
        .scale = scaler_scale(&optimizer->scaler),
        .tokens_per_s = (double)tokens * 1e9 / (double)took_ns,
        .eta_s = result->seconds / (double)(step - rank->resumed_step) * (double)(setting->steps - step),
        .skipped = !applied,
    };
    setting->progress(setting->progress_context, &progress);
}

static int observe(struct train_rank *rank, uint64_t step, bool applied)
{
    const struct train_setting *setting = rank->setting;
    if (!setting->observe)
        return ERR_NONE;
    TRY(executor_wait(rank->executor));
    comm_count_in(rank->comm, NULL);
    const struct train_moment moment = {.stage = &rank->stage, .rank = rank->rank, .step = step, .applied = applied};
    int rc = setting->observe(setting->observe_context, &moment);
    comm_count_in(rank->comm, &rank->ledger);
    return rc;
}

static int run_steps(struct train_rank *rank)
{
    bool stop = false;
    TRY(comm_barrier(rank->comm));
    TRY(observe(rank, rank->resumed_step, false));
    for (uint64_t step = rank->resumed_step + 1; step <= rank->setting->steps && !stop; step++) {
        bool applied;
        double loss;
        if (inject_death_step(&rank->setting->inject, rank->rank, INJECT_KILL) == step)
            raise(SIGKILL);
        if (inject_death_step(&rank->setting->inject, rank->rank, INJECT_DIE) == step)
            return err_set(ERR_IO, "dies in step %llu, as --inject asks", (unsigned long long)step);
        uint64_t begin = clock_now_ns();
        TRY(train_step(rank, step, &applied));
        TRY(train_agree(rank, &loss, &stop));
        uint64_t end = clock_now_ns(), took = end - begin;
        TRY(trace_step(rank->setting->trace, rank->rank, step, begin, end));
        if (rank->rank == 0)
            note_step(rank, step, applied, loss, took);
        if (rank->setting->verify)
            TRY(verify_step(rank, step, applied, loss));
        TRY(observe(rank, step, applied));
        TRY(train_save(rank, step, applied, loss, stop || step == rank->setting->steps));
    }
    if (rank->rank == 0)
        rank->result->interrupted = stop && !rank->result->difference.found;
    return executor_wait(rank->executor);
}

// The ledger against the formula, line by line.
static void account(struct train_rank *rank)
{
    const struct optimizer *optimizer = &rank->stage.optimizer;
    const struct formula *formula = &rank->formula;
    struct train_totals *totals = &rank->totals;
    uint64_t steps = optimizer->step + optimizer->skipped - rank->resumed_step;
    uint64_t applied = optimizer->step - rank->resumed_applied;
    bool equal = true;
    *totals = (struct train_totals){
        .unlocked_bytes = tier_unlocked_bytes(rank->tier),
        .host_hits = rank->stage.prefetcher.host_hits,
        .host_misses = rank->stage.prefetcher.host_misses,
    };
    for (int tier = 0; tier < TIER_COUNT; tier++)
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            uint64_t held = rank->ledger.held_bytes[tier][kind];
            equal &= held == formula->held_bytes[tier][kind];
            if (rank->rank != 0)
                continue;
            rank->result->held_bytes[tier][kind] = held;
            rank->result->formula_held_bytes[tier][kind] = formula->held_bytes[tier][kind];
        }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int operation = 0; operation < OPERATION_COUNT; operation++) {
            uint64_t bytes = steps * formula->step_bytes[lane][operation] +
                             applied * formula->applied_bytes[lane][operation] +
                             optimizer->returned * formula->returned_bytes[lane][operation];
            uint64_t moved = rank->ledger.moved_bytes[lane][operation];
            equal &= moved == bytes;
            totals->moved_bytes[lane][operation] = moved;
            totals->formula_moved_bytes[lane][operation] = bytes;
        }
    totals->accounting_differs = !equal;
}

// Collective: every rank's totals become those of all.
static int add_totals(struct train_rank *rank)
{
    enum { NUMBER_COUNT = sizeof(struct train_totals) / sizeof(uint64_t) };
    int world = comm_world(rank->comm);
    size_t counts[world], offsets[world];
    for (int i = 0; i < world; i++) {
        counts[i] = sizeof rank->totals;
        offsets[i] = (size_t)i * sizeof rank->totals;
    }
    uint64_t(*all)[NUMBER_COUNT] = malloc((size_t)world * sizeof *all), *sum = (uint64_t *)&rank->totals;
    if (!all)
        return err_set(ERR_MEMORY, "no memory for the totals of %d ranks", world);
    comm_count_in(rank->comm, NULL);
    int rc = comm_all_gather(rank->comm, &rank->totals, all, counts, offsets, DTYPE_BYTE);
    memset(sum, 0, sizeof rank->totals);
    for (int i = 0; rc == ERR_NONE && i < world; i++)
        for (int k = 0; k < NUMBER_COUNT; k++)
            sum[k] += all[i][k];
    free(all);
    return rc;
}

static int run_rank(struct train_rank *rank)
{
    TRY(train_rank_open(rank));
    if (rank->setting->config->reduction_group > 0 && rank->setting->accelerator)
        return err_set(ERR_USAGE, "\"zerogauge.reduction_group\": sums on a GPU have the canonical order alone");
    TRY(comm_set_group(rank->comm, (int)rank->setting->config->reduction_group));
    if (rank->setting->native_reduction)
        TRY(comm_native_begin(rank->comm));
    TRY(train_resume(rank));
    TRY(run_steps(rank));
    account(rank);
    if (rank->rank == 0) {
        rank->result->operations = rank->stage.operations;
        rank->result->traffic_formula = formula_traffic_text(&rank->stage);
    }
    TRY(add_totals(rank));
    if (rank->setting->native_reduction) {
        struct comm_native found;
        TRY(comm_native_found(rank->comm, &found));
        if (rank->rank == 0)
            rank->result->native = found;
    }
    return verify_digest(rank, rank->result->digest);
}

static void *rank_thread(void *context)
{
    struct train_rank *rank = context;
    rank->rc = run_rank(rank);
    int traced = trace_take(rank->setting->trace, rank->rank, rank->executor);
    rank->rc = rank->rc != ERR_NONE ? rank->rc : traced;
    if (rank->rc != ERR_NONE) {
        snprintf(rank->message, sizeof rank->message, "%s", err_message());
        comm_abort(rank->comm, rank->message);
    }
    train_rank_close(rank);
    if (!rank->setting->comm)
        comm_close(rank->comm);
    return NULL;
}

// The error of the rank that failed by itself, before those of the ranks that it took along.
static int first_error(const struct train_rank *ranks, int world)
{
    const struct train_rank *first = NULL;
    for (int i = 0; i < world; i++)
        if (ranks[i].rc != ERR_NONE && (!first || (first->rc == ERR_PEER && ranks[i].rc != ERR_PEER)))
            first = &ranks[i];
    if (!first)
        return ERR_NONE;
    if (first->rc == ERR_PEER)
        return err_set(first->rc, "%s", first->message);
    return err_set(first->rc, "rank %d: %s", first->rank, first->message);
}

static void keep_totals(const struct train_totals *totals, struct train_result *out)
{
    out->accounting_equal = totals->accounting_differs == 0;
    out->unlocked_bytes = totals->unlocked_bytes;
    out->host_hits = totals->host_hits;
    out->host_misses = totals->host_misses;
    memcpy(out->moved_bytes, totals->moved_bytes, sizeof out->moved_bytes);
    memcpy(out->formula_moved_bytes, totals->formula_moved_bytes, sizeof out->formula_moved_bytes);
}

// The ranks of this process, each in a thread of its own.
static int run_ranks(struct train_rank ranks[], int count, struct comm *const comms[],
                     const struct train_setting *setting, struct train_result *out)
{
    int started = 0;
    for (; started < count; started++) {
        struct train_rank *rank = &ranks[started];
        rank->setting = setting;
        rank->result = out;
        rank->rank = comm_rank(comms[started]);
        rank->comm = comms[started];
        if (pthread_create(&rank->thread, NULL, rank_thread, rank) != 0)
            break;
    }
    for (int i = started; i < count; i++) {
        comm_abort(comms[i], "its thread could not be started");
        if (!setting->comm)
            comm_close(comms[i]);
    }
    for (int i = 0; i < started; i++)
        pthread_join(ranks[i].thread, NULL);
    TRY(first_error(ranks, started));
    if (started < count)
        return err_set(ERR_MEMORY, "the thread of rank %d could not be started", comm_rank(comms[started]));
    keep_totals(&ranks[0].totals, out);
    return ERR_NONE;
}

int train_run(const struct train_setting *setting, struct train_result *out)
{
    int count = setting->comm ? 1 : setting->world;
    *out = (struct train_result){.param_elements = model_param_elements(setting->model, false)};
    struct train_rank *ranks = calloc((size_t)count, sizeof *ranks);
    struct comm *comms[count];
    comms[0] = setting->comm;
    out->step_ns = calloc(setting->steps + 1, sizeof *out->step_ns);
    int rc = ranks && out->step_ns ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %d ranks", count);
    if (rc == ERR_NONE && !setting->comm)
        rc = comm_local_open(count, comms);
    if (rc == ERR_NONE)
        rc = run_ranks(ranks, count, comms, setting, out);
    free(ranks);
    return rc;
}
