// SPDX-License-Identifier: Apache-2.0
// A rank of a run: its ledger, tiers, executor, stage and model run.
#include "ref/train/train_internal.h"

#include "base/err.h"
#include "base/resources.h"
#include "ref/checkpoint/checkpoint.h"
#include "ref/executor/executor_log.h"
#include "ref/optimizer/muon.h"

#include <stdlib.h>
#include <unistd.h>

static void abort_peers(void *context, const char *message)
{
    comm_abort(context, message);
}

// Each micro-step's tokens begin on a page: those of one are drawn while others' are in use.
static int open_tokens(struct train_rank *rank)
{
    const struct config *config = rank->setting->config;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (config->micro_batch * (rank->setting->model->sequence_length + 1) + 1) * sizeof(uint16_t);
    size_t stride = (bytes + page - 1) / page * page;
    char *tokens;
    TRY(tier_share(rank->tier, "tokens", config->accumulation * stride, (void **)&tokens));
    for (size_t i = 0; i < config->accumulation; i++)
        rank->batches[i].tokens = (const uint16_t *)(void *)(tokens + i * stride);
    return ERR_NONE;
}

static int open_batches(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    rank->batches = calloc(setting->config->accumulation, sizeof *rank->batches);
    size_t pointers = (size_t)rank->model->param_count * (sizeof(void *) + sizeof(struct model_gradient));
    rank->arguments = malloc(256 + pointers);
    if (!rank->batches || !rank->arguments)
        return err_set(ERR_MEMORY, "no memory for %zu micro-batches", setting->config->accumulation);
    TRY(open_tokens(rank));
    TRY(tier_share(rank->tier, "loss", sizeof *rank->loss, (void **)&rank->loss));
    TRY(tier_share(rank->tier, "report of this rank", sizeof *rank->report, (void **)&rank->report));
    return tier_share(rank->tier, "reports of all ranks", (size_t)setting->world * sizeof *rank->reports,
                      (void **)&rank->reports);
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

// Threads of a rank: as many as the setting says, or its share of the processors.
static int thread_count(const struct train_setting *setting)
{
    if (setting->threads > 0)
        return setting->threads;
    int share = resources_processor_count() / setting->world;
    return share > 1 ? share : 1;
}

// Working memory for the micro-batches in flight. Those that keep checkpoints share it.
static int open_runs(struct train_rank *rank)
{
    const struct config *config = rank->setting->config;
    int in_flight = pipeline_in_flight(&rank->pipeline.schedule, rank->pipeline.stage);
    rank->run_count = config->activation_checkpointing ? 1 : in_flight;
    rank->runs = calloc((size_t)rank->run_count, sizeof(struct model_run *));
    if (!rank->runs)
        return err_set(ERR_MEMORY, "no memory for %d micro-batches in flight", rank->run_count);
    for (int i = 0; i < rank->run_count; i++) {
        TRY(model_run_open(rank->model, config->micro_batch, config->precision, config->activation_checkpointing,
                           rank->tier, &rank->runs[i]));
        rank->runs[i]->threads = thread_count(rank->setting);
        rank->runs[i]->tensor_comm = rank->tensor_comm;
        rank->runs[i]->expert_comm = rank->stage.groups.expert_comm;
    }
    return activations_open(rank->model, config, in_flight, &rank->stage.move, rank->tier, &rank->activations);
}

// A model whose matrices nobody has marked would be trained by Adam alone.
static int check_whole(const struct model *model, const struct config *config)
{
    bool any = false;
    for (int i = 0; i < model->param_count; i++)
        any |= model->params[i].whole;
    if (any && (config->master_dtype != DTYPE_FP32 || config->moment_dtype != DTYPE_FP32))
        return err_set(ERR_USAGE, "\"optimizer.type\": Muon keeps its states in fp32 alone: leave out "
                                  "zerogauge.master_dtype and zerogauge.moment_dtype, or bf16_optimizer_states");
    return any || !config->uses_muon ? ERR_NONE
                                     : err_set(ERR_USAGE, "\"optimizer.type\": Muon is only of training and plans");
}

int train_rank_open(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    const struct config *config = setting->config;
    const struct stage_operations *operations;
    TRY(stage_find(config->stage, &operations));
    TRY(check_whole(setting->model, config));
    TRY(train_part_open(rank));
    train_pipeline_place(rank);
    TRY(open_tiers(rank));
    TRY(open_batches(rank));
    TRY(executor_open(setting->schedule, rank->rank, rank->tier, abort_peers, rank->comm, &rank->executor));
    if (setting->logs)
        executor_keep_log(rank->executor, &setting->logs[rank->rank]);
    executor_emulate(rank->executor, setting->emulation.bytes_per_s);
    executor_record(rank->executor, setting->trace);
    const struct stage_setting stage_setting = {
        .model = rank->model,
        .config = config,
        .comm = rank->data_comm,
        .parts_comm = rank->parts_comm,
        .slices_comm = rank->slices_comm,
        .executor = rank->executor,
        .tier = rank->tier,
        .nvme = rank->nvme,
        .ledger = &rank->ledger,
        .seed = setting->seed,
        .threads = thread_count(setting),
        .whole = &muon_update,
    };
    TRY((is_dry(rank) ? stage_plan : stage_open)(operations, &stage_setting, &rank->stage));
    TRY(open_runs(rank));
    rank->run_bytes =
        model_run_bytes(rank->model, config->micro_batch, config->precision, config->activation_checkpointing);
    TRY(train_pipeline_open(rank));
    uint64_t report_bytes = (uint64_t)(setting->world - 1) * sizeof(struct train_report_of_rank);
    formula_of(&rank->stage, rank->data_rank, (uint64_t)rank->run_count * rank->run_bytes, report_bytes,
               &rank->formula);
    activations_formula(&rank->activations, &rank->formula);
    train_pipeline_formula(rank, &rank->formula);
    train_exchange_formula(rank, &rank->formula);
    TRY(train_save_open(rank));
    if (!is_dry(rank))
        TRY(verify_open(rank));
    comm_count_in(rank->comm, &rank->ledger);
    return ERR_NONE;
}

void train_rank_close_runs(struct train_rank *rank)
{
    for (int i = 0; rank->runs && i < rank->run_count; i++)
        model_run_close(rank->runs[i]);
    free(rank->runs);
    rank->runs = NULL;
}

void train_rank_close(struct train_rank *rank)
{
    executor_close(rank->executor);
    checkpoint_abandon_save(rank->saving);
    verify_close(rank);
    train_rank_close_runs(rank);
    activations_close(&rank->activations);
    if (rank->stage.operations)
        stage_close(&rank->stage);
    train_part_close(rank);
    tier_nvme_close(rank->nvme);
    tier_close(rank->tier);
    free(rank->batches);
    free(rank->arguments);
}
