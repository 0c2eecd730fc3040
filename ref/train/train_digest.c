// SPDX-License-Identifier: Apache-2.0
// The digest of a run: of every bit of parameters and moments.
#include "ref/train/train_internal.h"

#include "base/digest.h"
#include "base/err.h"

#include <stdlib.h>

// One state of parameters [first, end) of the whole model, which rank 0 collects from all parts: at most as many
// elements as the largest bucket or parameter has, so that a digest takes no room for the model. begin: of each in
// values.
struct window {
    enum state state;
    int first, end;
    uint64_t *begin;
    float *values;
};

static bool holds(const struct window *window, int param)
{
    return param >= window->first && param < window->end;
}

// All ranks know the pieces, so that they skip the same buckets.
static int collect_bucket(struct train_rank *rank, const struct train_bucket *b, void *context)
{
    const struct window *window = context;
    bool wanted = false;
    for (int i = 0; i < b->piece_count; i++)
        wanted |= holds(window, b->pieces[i].slice.param);
    if (b->frozen || !wanted)
        return ERR_NONE;
    if (b->mine)
        TRY(stage_collect(&rank->stage, b->index, window->state, rank->full));
    if (b->first_rank != 0)
        TRY(comm_broadcast(rank->comm, rank->full, b->count * sizeof(float), b->first_rank));
    for (int i = 0; window->values && i < b->piece_count; i++)
        if (holds(window, b->pieces[i].slice.param))
            model_slice_put(&b->pieces[i].slice, rank->full + b->pieces[i].offset, sizeof(float),
                            window->values + window->begin[b->pieces[i].slice.param]);
    return ERR_NONE;
}

static uint64_t trainable_elements(const struct model *model, int param)
{
    return model->params[param].frozen ? 0 : model->params[param].count;
}

// Places the parameters from window->first on, as many as there is room for and at least one. Returns their elements.
static uint64_t open_window(const struct model *model, uint64_t room, struct window *window)
{
    uint64_t used = 0;
    for (window->end = window->first; window->end < model->param_count; window->end++) {
        uint64_t count = trainable_elements(model, window->end);
        if (window->end > window->first && used + count > room)
            break;
        window->begin[window->end] = used;
        used += count;
    }
    return used;
}

static int digest_states(struct train_rank *rank, XXH3_state_t *hash, uint64_t room, struct window *window)
{
    const struct model *model = rank->setting->model;
    for (int state = 0; state < STATE_COUNT; state++) {
        window->state = (enum state)state;
        for (window->first = 0; window->first < model->param_count; window->first = window->end) {
            uint64_t count = open_window(model, room, window);
            TRY(train_each_bucket(rank, collect_bucket, window));
            if (hash)
                XXH3_128bits_update(hash, window->values, count * sizeof(float));
        }
    }
    return ERR_NONE;
}

// Of the trainable tensors in the model's order: all parameters, then all exp_avg, then all exp_avg_sq.
int train_states_digest(struct train_rank *rank, char digest[FILE_DIGEST_BYTES])
{
    const struct model *model = rank->setting->model;
    bool here = rank->rank == 0;
    XXH3_state_t *hash = here ? XXH3_createState() : NULL;
    uint64_t room = rank->full_elements;
    for (int param = 0; param < model->param_count; param++)
        if (trainable_elements(model, param) > room)
            room = trainable_elements(model, param);
    struct window window = {.begin = calloc((size_t)model->param_count + 1, sizeof *window.begin),
                            .values = here ? malloc(room * sizeof *window.values) : NULL};
    int rc = ERR_NONE;
    if (!window.begin || (here && (!hash || !window.values)))
        rc = err_set(ERR_MEMORY, "no memory for a digest of %llu elements", (unsigned long long)room);
    if (hash)
        XXH3_128bits_reset(hash);
    comm_count_in(rank->comm, NULL);
    if (rc == ERR_NONE)
        rc = digest_states(rank, hash, room, &window);
    if (rc == ERR_NONE && here)
        digest_text(XXH3_128bits_digest(hash), digest);
    XXH3_freeState(hash);
    free(window.values);
    free(window.begin);
    return rc;
}
