// SPDX-License-Identifier: Apache-2.0
// The run: one thread per rank makes the steps. An error of one rank ends all.
#include "ref/train/train_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "ref/partition/collectives.h"

#include <malloc.h>
#include <stdlib.h>

int train_agree_begin(struct train_rank *rank)
{
    const volatile sig_atomic_t *interrupted = rank->setting->interrupted;
    const struct executor_span loss = {rank->loss, sizeof *rank->loss, EXECUTOR_READ};
    TRY(executor_wait_for(rank->executor, &loss));
    bool differs = rank->rank == 0 && rank->difference.found;
    *rank->report = (struct train_report_of_rank){
        .loss = *rank->loss, .stop = differs || (interrupted && *interrupted), .saves = train_save_writes(rank)};
    return exchange_numbers(rank->executor, rank->comm, rank->report, rank->reports, sizeof *rank->report);
}

int train_agree_end(struct train_rank *rank, struct train_outcome *out)
{
    int world = comm_world(rank->comm);
    const struct mesh *mesh = &rank->mesh;
    const struct train_report_of_rank *all = rank->reports;
    const struct executor_span span = {all, (size_t)world * sizeof *all, EXECUTOR_READ};
    TRY(executor_wait_for(rank->executor, &span));
    out->loss = 0.0;
    out->stop = out->saves = false;
    if (executor_is_dry(rank->executor))
        return ERR_NONE;
    for (int i = 0; i < world; i++) {
        out->stop |= all[i].stop != 0;
        out->saves |= all[i].saves != 0;
    }
    // Of the ranks with the same micro-batches the last stage's first rank reports their loss.
    int count = mesh_group_size(mesh, MESH_DATA), reporting = mesh_group_count(mesh, MESH_DATA) - mesh->tensor;
    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += all[mesh_rank_at(mesh, MESH_DATA, reporting, i)].loss;
    double given = rank->stage.optimizer.mean_count,
           plain = (double)count * (double)rank->setting->config->accumulation;
    out->loss = sum / (given > 0 ? given : plain);
    return ERR_NONE;
}

int train_settle(struct train_rank *rank)
{
    TRY(stage_end_update(&rank->stage));
    return executor_wait(rank->executor);
}

static void note_step(struct train_rank *rank, uint64_t step, bool applied, double loss, uint64_t took_ns)
{
    struct train_result *result = rank->result;
    const struct train_setting *setting = rank->setting;
    uint64_t tokens = setting->config->train_batch * setting->model->sequence_length;
    result->steps = step;
    result->skipped_steps += !applied;
    result->redone_steps = rank->stage.optimizer.redone;
    result->rescanned_steps = rank->stage.optimizer.rescanned;
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

static int observe(struct train_rank *rank, uint64_t step, struct train_outcome made)
{
    const struct train_setting *setting = rank->setting;
    if (!setting->observe)
        return ERR_NONE;
    TRY(train_settle(rank));
    comm_count_in(rank->comm, NULL);
    const struct train_moment moment = {
        .stage = &rank->stage, .rank = rank->rank, .step = step, .applied = made.applied, .loss = made.loss};
    int rc = setting->observe(setting->observe_context, &moment);
    comm_count_in(rank->comm, &rank->ledger);
    return rc;
}

static int run_steps(struct train_rank *rank)
{
    struct train_outcome now = {0};
    TRY(comm_barrier(rank->comm));
    TRY(observe(rank, rank->resumed_step, now));
    for (uint64_t step = rank->resumed_step + 1; step <= rank->setting->steps && !now.stop; step++) {
        if (inject_death_step(&rank->setting->inject, rank->rank, INJECT_KILL) == step)
            raise(SIGKILL);
        if (inject_death_step(&rank->setting->inject, rank->rank, INJECT_DIE) == step)
            return err_set(ERR_IO, "ended in step %llu by --inject", (unsigned long long)step);
        uint64_t begin = clock_now_ns();
        TRY(train_step(rank, step, &now));
        bool last = now.stop || step == rank->setting->steps;
        if (last)
            TRY(train_settle(rank));
        uint64_t end = clock_now_ns(), took = end - begin;
        TRY(trace_step(rank->setting->trace, rank->rank, step, begin, end));
        if (rank->rank == 0)
            note_step(rank, step, now.applied, now.loss, took);
        const struct oracle_decision made = verify_made(rank, now.applied, now.loss);
        if (rank->setting->verify == TRAIN_VERIFY_EACH)
            TRY(verify_step(rank, step, &made));
        if (rank->setting->verify == TRAIN_VERIFY)
            TRY(verify_note(rank, &made));
        TRY(observe(rank, step, now));
        TRY(train_save(rank, step, &now, last));
    }
    TRY(train_settle(rank));
    if (rank->setting->verify == TRAIN_VERIFY)
        TRY(verify_catch_up(rank));
    if (rank->rank == 0)
        rank->result->interrupted = now.stop && !rank->difference.found;
    return ERR_NONE;
}

static int run_rank(struct train_rank *rank)
{
    TRY(train_rank_open(rank));
    if (rank->setting->config->reduction_group > 0 && rank->setting->accelerator)
        return err_set(ERR_USAGE, "\"zerogauge.reduction_group\": GPUs support only the canonical order of sums");
    if (rank->setting->config->quantization_block > 0 && rank->setting->accelerator)
        return err_set(ERR_USAGE, "quantized communication runs in host memory alone: leave out the device");
    if ((rank->setting->config->master_dtype != DTYPE_FP32 || rank->setting->config->moment_dtype != DTYPE_FP32) &&
        rank->setting->accelerator)
        return err_set(ERR_USAGE, "\"zerogauge.master_dtype\" and \"zerogauge.moment_dtype\": GPUs keep states in fp32 "
                                  "alone; leave out these keys, bf16_master_weights_and_grads and "
                                  "bf16_optimizer_states, or the device");
    if (rank->setting->config->uses_muon && rank->setting->accelerator)
        return err_set(ERR_USAGE, "\"optimizer.type\": Muon runs in host memory alone: leave out the device");
    TRY(comm_set_group(rank->data_comm, (int)rank->setting->config->reduction_group));
    TRY(train_resume(rank));
    TRY(run_steps(rank));
    train_account(rank);
    if (rank->rank == 0) {
        rank->result->operations = rank->stage.operations;
        rank->result->traffic_formula = formula_traffic_text(&rank->stage);
    }
    TRY(train_add_totals(rank));
    train_rank_close_runs(rank);
    if (rank->setting->verify && rank->rank == 0 && !rank->difference.found)
        verify_digest(rank, rank->result->oracle_digest);
    return train_states_digest(rank, rank->result->digest);
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
    int missing = started < count ? comm_rank(comms[started]) : 0;
    for (int i = started; i < count; i++) {
        comm_abort(comms[i], "its thread could not be started");
        if (!setting->comm)
            comm_close(comms[i]);
    }
    for (int i = 0; i < started; i++)
        pthread_join(ranks[i].thread, NULL);
    TRY(first_error(ranks, started));
    if (started < count)
        return err_set(ERR_MEMORY, "the thread of rank %d could not be started", missing);
    train_keep_totals(&ranks[0].totals, out);
    return ERR_NONE;
}

// malloc keeps freed blocks of up to 32 MiB for later. Those of a run, above all of its comparison with unsharded Adam,
// are as large as the model, and would stay resident in whatever the process does next.
static void return_freed_memory(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

int train_run_once(const struct train_setting *setting, struct train_result *out, uint64_t *difference_step)
{
    int count = setting->comm ? 1 : setting->world;
    struct train_rank *ranks = calloc((size_t)count, sizeof *ranks);
    struct comm *comms[count];
    comms[0] = setting->comm;
    out->step_ns = calloc(setting->steps + 1, sizeof *out->step_ns);
    int rc = ranks && out->step_ns ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %d ranks", count);
    if (rc == ERR_NONE && !setting->comm)
        rc = comm_local_open(count, comms);
    if (rc == ERR_NONE)
        rc = run_ranks(ranks, count, comms, setting, out);
    *difference_step = rc == ERR_NONE && ranks[0].difference.found ? ranks[0].difference.step : 0;
    free(ranks);
    // Of a small model they are less than it costs to return them and have them again.
    if (model_param_elements(setting->model, false) >= 1 << 18)
        return_freed_memory();
    return rc;
}
