// SPDX-License-Identifier: Apache-2.0
// For tests of transformers: a model with parameters, gradients and tokens at chosen addresses.
#ifndef ZG_GPT_TEST_H
#define ZG_GPT_TEST_H

#include "ref/arithmetic/dtype.h"
#include "base/err.h"
#include "ref/model/gpt.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Sizes that are neither powers of two nor multiples of a vector, and few enough tokens that some repeat in a
// micro-batch.
static const struct gpt_shape odd_shape = {.block_count = 2,
                                           .width = 21,
                                           .head_count = 3,
                                           .sequence_length = 5,
                                           .vocabulary = 11,
                                           .tile_count = 1,
                                           .product_blocks = 1};
enum { ODD_SEQUENCES = 3 };

// The address of a trial's tensors: `offset` bytes after a multiple of 64, or with the last byte before an inaccessible
// page.
struct placing {
    bool edge;
    size_t offset;
};

struct block {
    void *base;
    size_t mapped_bytes;  // 0: from the heap
};

// A model and everything that a pass over it needs.
struct trial {
    const struct model *model;
    struct model_run *run;
    struct model_batch batch;
    uint16_t *tokens;
    float **values;  // the parameters in fp32, representable in the run's dtype
    void **params;
    struct model_gradient *gradients;
    void **checkpoints;  // by layer
    struct block *blocks;
    int block_count;
};

static inline void *place_memory(struct trial *trial, struct placing place, size_t bytes)
{
    struct block *block = &trial->blocks[trial->block_count++];
    if (!place.edge) {
        block->base = aligned_alloc(64, (bytes + place.offset + 64) / 64 * 64);
        return (char *)block->base + place.offset;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    block->mapped_bytes = inside + page;
    block->base = mmap(NULL, inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(block->base != MAP_FAILED);
    cr_assert(mprotect((char *)block->base + inside, page, PROT_NONE) == 0);
    return (char *)block->base + inside - bytes;
}

static inline struct trial trial_make_as(const struct model *model, size_t sequence_count, enum dtype dtype,
                                         struct placing place, bool checkpointing)
{
    struct trial trial = {.model = model};
    size_t params = (size_t)model->param_count, token_count = sequence_count * (model->sequence_length + 1);
    size_t vocabulary = model->params[0].shape[0];  // of the embedding's table
    cr_assert(model_run_open(model, sequence_count, dtype, checkpointing, NULL, &trial.run) == ERR_NONE, "%s",
              err_message());
    trial.values = calloc(params, sizeof *trial.values);
    trial.params = calloc(params, sizeof *trial.params);
    trial.gradients = calloc(params, sizeof *trial.gradients);
    trial.checkpoints = calloc((size_t)model->layer_count, sizeof *trial.checkpoints);
    trial.blocks = calloc(2 * params + (size_t)model->layer_count + 2, sizeof *trial.blocks);
    for (int layer = 0; layer < model->layer_count && checkpointing; layer++) {
        size_t bytes = model_checkpoint_bytes(model, layer, sequence_count);
        trial.checkpoints[layer] = bytes ? place_memory(&trial, (struct placing){.edge = place.edge}, bytes) : NULL;
    }
    for (int i = 0; i < model->param_count; i++) {
        size_t count = model->params[i].count;
        trial.values[i] = malloc(count * sizeof(float));
        model_initialise(model, i, 7, trial.values[i]);
        // Random values: initial ones would leave biases 0 and norms without effect.
        for (size_t j = 0; j < count; j++)
            trial.values[i][j] += 0.2f * random_normal(random_at((uint64_t)i, j));
        trial.params[i] = place_memory(&trial, place, count * dtype_bytes(dtype));
        dtype_narrow(dtype, trial.values[i], trial.params[i], count);
        dtype_widen(dtype, trial.params[i], trial.values[i], count);
        trial.gradients[i].data = place_memory(&trial, place, count * dtype_bytes(dtype));
        memset(trial.gradients[i].data, 0xff, count * dtype_bytes(dtype));
    }
    trial.tokens = place_memory(&trial, (struct placing){.edge = place.edge}, token_count * sizeof *trial.tokens);
    for (size_t i = 0; i < token_count; i++)
        trial.tokens[i] = (uint16_t)random_below(random_at(99, i), vocabulary);
    trial.batch = (struct model_batch){.tokens = trial.tokens, .sequence_count = sequence_count, .step = 1};
    return trial;
}

static inline struct trial trial_make(const struct model *model, size_t sequence_count, enum dtype dtype,
                                      struct placing place)
{
    return trial_make_as(model, sequence_count, dtype, place, false);
}

static inline void trial_free(struct trial *trial)
{
    for (int i = 0; i < trial->model->param_count; i++)
        free(trial->values[i]);
    for (int i = 0; i < trial->block_count; i++) {
        if (trial->blocks[i].mapped_bytes)
            munmap(trial->blocks[i].base, trial->blocks[i].mapped_bytes);
        else
            free(trial->blocks[i].base);
    }
    model_run_close(trial->run);
    free(trial->values);
    free(trial->params);
    free(trial->gradients);
    free(trial->checkpoints);
    free(trial->blocks);
}

static inline void trial_forward(struct trial *trial)
{
    for (int layer = 0; layer < trial->model->layer_count; layer++)
        cr_assert(model_forward(trial->run, layer, &trial->batch, (const void *const *)trial->params,
                                trial->checkpoints[layer]) == ERR_NONE);
}

static inline void trial_backward(struct trial *trial, float loss_scale)
{
    for (int layer = trial->model->layer_count - 1; layer >= 0; layer--) {
        trial->gradients[0].accumulate = layer == 0 && trial->model->params[0].layer_count > 1;
        cr_assert(model_backward(trial->run, layer, &trial->batch, (const void *const *)trial->params, trial->gradients,
                                 loss_scale, trial->checkpoints[layer]) == ERR_NONE);
    }
}

static inline void trial_pass(struct trial *trial, float loss_scale)
{
    trial_forward(trial);
    trial_backward(trial, loss_scale);
}

static inline size_t gradient_bytes(const struct trial *trial, int param)
{
    return trial->model->params[param].count * dtype_bytes(trial->run->dtype);
}

static inline void cr_same_gradients(const struct trial *a, const struct trial *b)
{
    for (int i = 0; i < a->model->param_count; i++)
        cr_assert(memcmp(a->gradients[i].data, b->gradients[i].data, gradient_bytes(a, i)) == 0, "%s differs",
                  a->model->params[i].name);
}

// All memory ends before an inaccessible page; parameters are read-only; the working memory has exactly the size that
// model_run_bytes returns and begins as NaN.
static inline void cr_stays_inside(const struct model *model)
{
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        struct trial usual = trial_make(model, 3, dtype, (struct placing){0});
        struct trial tight = trial_make(model, 3, dtype, (struct placing){.edge = true});
        size_t bytes = model_run_bytes(model, 3, dtype, false), page = (size_t)sysconf(_SC_PAGESIZE);
        void *given = tight.run->memory;
        tight.run->memory = place_memory(&tight, (struct placing){.edge = true}, bytes);
        memset(tight.run->memory, 0xff, bytes);
        for (int i = 0; i < model->param_count; i++) {
            uintptr_t start = (uintptr_t)tight.params[i], end = start + gradient_bytes(&tight, i);
            cr_assert(mprotect((void *)(start / page * page), end - start / page * page, PROT_READ) == 0);
        }
        trial_pass(&usual, 1.0f);
        trial_pass(&tight, 1.0f);
        cr_same_gradients(&tight, &usual);
        cr_assert(model_loss(tight.run) == model_loss(usual.run));
        tight.run->memory = given;
        trial_free(&tight);
        trial_free(&usual);
    }
}

static inline struct model *make(const struct gpt_shape *shape)
{
    struct model *model;
    cr_assert(gpt_make("gpt-test", shape, &model) == ERR_NONE, "%s", err_message());
    return model;
}

#endif
