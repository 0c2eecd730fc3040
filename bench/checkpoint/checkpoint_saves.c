// SPDX-License-Identifier: Apache-2.0
// Saves and loads of the ranks' states.
#include "bench/checkpoint/checkpoint_rank.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

struct saving {
    struct store *store;
    uint64_t step;
};

static struct save_moment moment_of(struct checkpoint_rank *rank, const struct saving *saving)
{
    rank->stage.optimizer.step = saving->step;
    return (struct save_moment){
        .step = saving->step, .last_applied = true, .loss = 1, .repeatable = true, .facts = &rank->all->facts};
}

static int save_rank(struct checkpoint_rank *rank, void *context)
{
    const struct saving *saving = context;
    const struct save_moment moment = moment_of(rank, saving);
    return checkpoint_save(saving->store, rank->comm, &rank->stage, &moment);
}

int checkpoint_ranks_save(struct checkpoint_ranks *ranks, struct store *store, uint64_t step)
{
    struct saving saving = {store, step};
    return checkpoint_on_all(ranks, save_rank, &saving);
}

// A copy of zeros before the first save: no save touches its memory first.
static int prepare_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    size_t bytes = checkpoint_copy_bytes(&rank->stage);
    rank->copy = rank->copy ? rank->copy : malloc(bytes + 1);
    if (!rank->copy)
        return err_set(ERR_MEMORY, "no memory for a copy of %zu bytes", bytes);
    memset(rank->copy, 0, bytes);
    return ERR_NONE;
}

static int begin_rank(struct checkpoint_rank *rank, void *context)
{
    const struct saving *saving = context;
    const struct save_moment moment = moment_of(rank, saving);
    return checkpoint_begin_save(saving->store, rank->comm, &rank->stage, &moment, rank->copy, &rank->saving);
}

static int end_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    struct ongoing_save *saving = rank->saving;
    rank->saving = NULL;
    return checkpoint_end_save(saving);
}

// From one half of the copy to the other, twice.
static int copy_rank(struct checkpoint_rank *rank, void *context)
{
    (void)context;
    size_t half = checkpoint_copy_bytes(&rank->stage) / sizeof *rank->copy / 2;
    for (int i = 0; i < 2; i++)
        memcpy(rank->copy + half, rank->copy, half * sizeof *rank->copy);
    return ERR_NONE;
}

int checkpoint_ranks_prepare_save(struct checkpoint_ranks *ranks, uint64_t *total_bytes)
{
    *total_bytes = 0;
    for (int i = 0; i < ranks->setting.world; i++)
        *total_bytes += checkpoint_copy_bytes(&ranks->ranks[i].stage);
    return checkpoint_on_all(ranks, prepare_rank, NULL);
}

int checkpoint_ranks_begin_save(struct checkpoint_ranks *ranks, struct store *store, uint64_t step)
{
    struct saving saving = {store, step};
    return checkpoint_on_all(ranks, begin_rank, &saving);
}

int checkpoint_ranks_end_save(struct checkpoint_ranks *ranks)
{
    return checkpoint_on_all(ranks, end_rank, NULL);
}

int checkpoint_ranks_copy(struct checkpoint_ranks *ranks)
{
    return checkpoint_on_all(ranks, copy_rank, NULL);
}

static int load_rank(struct checkpoint_rank *rank, void *context)
{
    return checkpoint_load(context, rank->comm, &rank->stage);
}

int checkpoint_ranks_load(struct checkpoint_ranks *ranks, const char *store)
{
    char notes[NOTES_BYTES];
    struct checkpoint *checkpoint;
    TRY(checkpoint_open(store, &checkpoint, notes));
    if (!checkpoint)
        return err_set(ERR_USAGE, "%s: has no checkpoint", store);
    int code = checkpoint_on_all(ranks, load_rank, checkpoint);
    checkpoint_close(checkpoint);
    return code;
}
