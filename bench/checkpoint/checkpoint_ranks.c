// SPDX-License-Identifier: Apache-2.0
#include "bench/checkpoint/checkpoint_rank.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 1 };

static const char *const state_names[STATE_COUNT] = {"parameter", "exp_avg", "exp_avg_sq"};

static void *rank_main(void *argument)
{
    struct checkpoint_rank *rank = argument;
    rank->code = rank->run(rank, rank->context);
    if (rank->code == ERR_NONE)
        return NULL;
    snprintf(rank->message, sizeof rank->message, "%s", err_message());
    if (rank->code != ERR_CHECK)  // a comparison, for which no other rank waits
        comm_abort(rank->comm, rank->message);
    return NULL;
}

int checkpoint_on_all(struct checkpoint_ranks *ranks, int (*run)(struct checkpoint_rank *rank, void *context),
                      void *context)
{
    int started = 0, code = ERR_NONE;
    for (; started < ranks->setting.world; started++) {
        struct checkpoint_rank *rank = &ranks->ranks[started];
        rank->run = run;
        rank->context = context;
        if (pthread_create(&rank->thread, NULL, rank_main, rank) != 0)
            break;
    }
    if (started < ranks->setting.world) {
        code = err_set(ERR_MEMORY, "no thread for rank %d", started);
        comm_abort(ranks->ranks[started].comm, err_message());
    }
    for (int i = 0; i < started; i++)
        pthread_join(ranks->ranks[i].thread, NULL);
    for (int pass = 0; pass < 2 && code == ERR_NONE; pass++)
        for (int i = 0; i < started && code == ERR_NONE; i++)
            if (ranks->ranks[i].code != ERR_NONE && (pass == 1 || ranks->ranks[i].code != ERR_PEER))
                code = err_set(ranks->ranks[i].code, "rank %d: %s", i, ranks->ranks[i].message);
    return code;
}

static int open_tiers(struct checkpoint_rank *rank)
{
    const struct config *config = &rank->all->config;
    const struct bench_storage *storage = rank->all->setting.storage;
    TRY(tier_open(&rank->ledger, &(struct tier_setting){0}, &rank->tier));
    if (!config_uses_nvme(config))
        return ERR_NONE;
    const struct tier_nvme_setting nvme = {
        .paths = storage->paths,
        .path_count = storage->path_count,
        .rank = rank->number,
        .aio = config->aio,
        .buffered = storage->buffered,
        .checksum = true,
    };
    return tier_nvme_open(&nvme, &rank->ledger, &rank->nvme);
}

static int open_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    const struct stage_operations *operations;
    size_t largest = 1;
    TRY(stage_find(rank->all->config.stage, &operations));
    TRY(open_tiers(rank));
    TRY(executor_open((struct executor_schedule){EXECUTOR_OVERLAP, 0}, rank->number, rank->tier, NULL, NULL,
                      &rank->executor));
    const struct stage_setting setting = {
        .model = rank->all->setting.model,
        .config = &rank->all->config,
        .comm = rank->comm,
        .executor = rank->executor,
        .tier = rank->tier,
        .nvme = rank->nvme,
        .ledger = &rank->ledger,
        .seed = SEED,
        .threads = 1,
    };
    TRY(stage_open(operations, &setting, &rank->stage));
    for (int i = 0; i < rank->stage.layout.bucket_count; i++)
        if (rank->stage.layout.buckets[i].shard_elements > largest)
            largest = rank->stage.layout.buckets[i].shard_elements;
    rank->shard = malloc(largest * sizeof *rank->shard);
    return rank->shard ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a shard of %zu elements", largest);
}

static int open_all(struct checkpoint_ranks *ranks)
{
    const struct checkpoint_ranks_setting *setting = &ranks->setting;
    const struct config_options options = {
        .world = setting->world,
        .nvme_paths = setting->storage->paths,
        .nvme_path_count = (size_t)setting->storage->path_count,
        .engine = setting->on_nvme ? setting->storage->engine : NULL,
    };
    struct comm *comms[CHECKPOINT_WORLD_MAX];
    TRY(config_load_preset(setting->on_nvme ? "zero_infinity" : "zero3", &options, &ranks->config, NULL));
    const struct facts_setting facts = {
        .model = setting->model, .config = &ranks->config, .seed = SEED, .world = setting->world};
    TRY(facts_of(&facts, &ranks->facts));
    TRY(comm_local_open(setting->world, comms));
    for (int i = 0; i < setting->world; i++) {
        ranks->ranks[i].all = ranks;
        ranks->ranks[i].number = i;
        ranks->ranks[i].comm = comms[i];
    }
    return checkpoint_on_all(ranks, open_rank, NULL);
}

int checkpoint_ranks_open(const struct checkpoint_ranks_setting *setting, struct checkpoint_ranks *out)
{
    *out = (struct checkpoint_ranks){.setting = *setting};
    out->ranks = calloc((size_t)setting->world, sizeof *out->ranks);
    int code = out->ranks ? open_all(out) : err_set(ERR_MEMORY, "no memory for %d ranks", setting->world);
    if (code != ERR_NONE)
        checkpoint_ranks_close(out);
    return code;
}

void checkpoint_ranks_close(struct checkpoint_ranks *ranks)
{
    for (int i = 0; ranks->ranks && i < ranks->setting.world; i++) {
        struct checkpoint_rank *rank = &ranks->ranks[i];
        checkpoint_abandon_save(rank->saving);
        free(rank->copy);
        executor_close(rank->executor);
        if (rank->stage.operations)
            stage_close(&rank->stage);
        tier_nvme_close(rank->nvme);
        tier_close(rank->tier);
        free(rank->shard);
    }
    for (int i = 0; ranks->ranks && i < ranks->setting.world; i++)
        comm_close(ranks->ranks[i].comm);
    free(ranks->ranks);
    *ranks = (struct checkpoint_ranks){0};
}

// A finite value above 0, as every state may have.
static float value_of(int state, int param, size_t element)
{
    uint64_t random = random_at((uint64_t)param * STATE_COUNT + (uint64_t)state + 1, element);
    uint32_t bits = UINT32_C(0x3f800000) | (uint32_t)(random >> 41);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Visits the pieces of all states; `write`: the shard is written back, else it was read.
static int each_piece(struct checkpoint_rank *rank, bool write,
                      int (*visit)(const struct piece *piece, int state, const char *name, float *values))
{
    struct stage *stage = &rank->stage;
    const struct model *model = rank->all->setting.model;
    struct piece piece;
    for (int bucket = 0; bucket < stage->layout.bucket_count; bucket++)
        for (int state = 0; state < (stage->layout.buckets[bucket].frozen ? 1 : STATE_COUNT); state++) {
            if (!write)
                TRY(stage_read_shard(stage, bucket, (enum state)state, rank->shard));
            for (int next = 0;
                 bucket_next_piece(&stage->layout, model, bucket, stage_shard(stage, bucket), &next, &piece);)
                TRY(visit(&piece, state, model->params[piece.param].name, rank->shard + piece.shard_index));
            if (write)
                TRY(stage_write_shard(stage, bucket, (enum state)state, rank->shard));
        }
    return write ? stage_regather(stage) : ERR_NONE;
}

static int fill(const struct piece *piece, int state, const char *name, float *values)
{
    (void)name;
    for (size_t i = 0; i < piece->count; i++)
        values[i] = value_of(state, piece->param, piece->param_index + i);
    return ERR_NONE;
}

static int clear(const struct piece *piece, int state, const char *name, float *values)
{
    (void)state, (void)name;
    memset(values, 0, piece->count * sizeof *values);
    return ERR_NONE;
}

static int compare(const struct piece *piece, int state, const char *name, float *values)
{
    for (size_t i = 0; i < piece->count; i++) {
        float expected = value_of(state, piece->param, piece->param_index + i);
        if (memcmp(&values[i], &expected, sizeof expected) != 0)
            return err_set(ERR_CHECK, "%s of %s[%zu] is %.9g, expected %.9g", state_names[state], name,
                           piece->param_index + i, (double)values[i], (double)expected);
    }
    return ERR_NONE;
}

static int fill_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    return each_piece(rank, true, fill);
}

static int clear_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    return each_piece(rank, true, clear);
}

static int compare_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    return each_piece(rank, false, compare);
}

int checkpoint_ranks_fill(struct checkpoint_ranks *ranks)
{
    return checkpoint_on_all(ranks, fill_rank, NULL);
}

int checkpoint_ranks_clear(struct checkpoint_ranks *ranks)
{
    return checkpoint_on_all(ranks, clear_rank, NULL);
}

int checkpoint_ranks_compare(struct checkpoint_ranks *ranks)
{
    return checkpoint_on_all(ranks, compare_rank, NULL);
}
