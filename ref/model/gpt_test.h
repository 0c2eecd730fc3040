// SPDX-License-Identifier: Apache-2.0
// For tests of transformers: a model with parameters, gradients and tokens at chosen addresses.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "base/err.h"
#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/random.h"
#include "ref/model/gpt.h"
#include "ref/model/names/model_find.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
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
static const struct placing plain = {0};

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
        struct trial usual = trial_make(model, 3, dtype, plain);
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

static inline double cr_norm(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += ((double)a[j] - (b ? (double)b[j] : 0)) * ((double)a[j] - (b ? (double)b[j] : 0));
    return sqrt(sum);
}

// With the same parameters as in fp32, operands are rounded about ten times from a parameter to the loss and back: a
// gradient is off by some roundings of its dtype, and by more than the one that hands it over, `least`.
static inline void cr_rounded_operands(const struct model *model, double least)
{
    const double rounding[] = {[DTYPE_BF16] = 0x1p-8, [DTYPE_FP16] = 0x1p-11};
    const enum dtype halves[] = {DTYPE_BF16, DTYPE_FP16};
    for (int d = 0; d < 2; d++) {
        enum dtype dtype = halves[d];
        struct trial half = trial_make(model, 3, dtype, plain), wide = trial_make(model, 3, DTYPE_FP32, plain);
        for (int i = 0; i < model->param_count; i++)
            memcpy(wide.params[i], half.values[i], model->params[i].count * sizeof(float));
        trial_pass(&half, 8.0f);
        trial_pass(&wide, 8.0f);
        double loss = fabs(model_loss(half.run) / model_loss(wide.run) - 1);
        cr_expect(loss > 0 && loss < 4 * rounding[dtype], "%s: the loss is off by %g", dtype_name(dtype), loss);
        for (int i = 0; i < model->param_count; i++) {
            size_t count = model->params[i].count;
            float found[count], *exact = wide.gradients[i].data;
            dtype_widen(dtype, half.gradients[i].data, found, count);
            double off = cr_norm(found, exact, count) / cr_norm(exact, NULL, count) / rounding[dtype];
            cr_expect(off > least && off < 10, "%s in %s is off by %.2f roundings", model->params[i].name,
                      dtype_name(dtype), off);
        }
        trial_free(&half);
        trial_free(&wide);
    }
}

// Returns the number of builds in addition to the scalar one.
static inline int cr_same_in_every_build(const struct model *model)
{
    int builds = 0;
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        struct trial first = trial_make(model, 2, dtype, plain);
        isa_set(ISA_SCALAR);
        trial_pass(&first, 4.0f);
        for (EACH_ISA(isa)) {
            struct trial trial = trial_make(model, 2, dtype, plain);
            trial_pass(&trial, 4.0f);
            cr_assert(model_loss(trial.run) == model_loss(first.run), "%s", isa_name((enum isa)isa));
            cr_same_gradients(&trial, &first);
            trial_free(&trial);
            builds += isa != ISA_SCALAR;
        }
        trial_free(&first);
    }
    return builds;
}

// Backward uses only the checkpoints: between the passes the run's memory is filled with NaN. Checkpoints and memory
// end before an inaccessible page.
static inline void cr_checkpoints_suffice(const struct model *model)
{
    const struct placing edge = {.edge = true};
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        struct trial whole = trial_make(model, 3, dtype, plain), frugal = trial_make_as(model, 3, dtype, edge, true);
        size_t bytes = model_run_bytes(model, 3, dtype, true);
        void *given = frugal.run->memory;
        frugal.run->memory = place_memory(&frugal, edge, bytes);
        trial_pass(&whole, 8.0f);
        memset(frugal.run->memory, 0xff, bytes);
        trial_forward(&frugal);
        cr_assert(isfinite(model_loss(whole.run)) && model_loss(frugal.run) == model_loss(whole.run));
        memset(frugal.run->memory, 0xff, bytes);
        trial_backward(&frugal, 8.0f);
        cr_same_gradients(&frugal, &whole);
        frugal.run->memory = given;
        trial_free(&frugal);
        trial_free(&whole);
    }
}

static inline void cr_skipped_gradients_change_no_other(const struct model *model)
{
    struct trial all = trial_make(model, 3, DTYPE_FP32, plain);
    trial_pass(&all, 1.0f);
    for (int parity = 0; parity < 2; parity++) {
        struct trial some = trial_make(model, 3, DTYPE_FP32, plain);
        for (int i = parity; i < model->param_count; i += 2)
            some.gradients[i].data = NULL;
        trial_pass(&some, 1.0f);
        for (int i = 1 - parity; i < model->param_count; i += 2)
            cr_assert(memcmp(some.gradients[i].data, all.gradients[i].data, gradient_bytes(&all, i)) == 0, "%s",
                      model->params[i].name);
        trial_free(&some);
    }
    trial_free(&all);
}

// A power of two as loss scale multiplies every gradient exactly.
static inline void cr_scales_exactly(const struct model *model, float scale)
{
    struct trial once = trial_make(model, 3, DTYPE_FP32, plain), scaled = trial_make(model, 3, DTYPE_FP32, plain);
    trial_pass(&once, 1.0f);
    trial_pass(&scaled, scale);
    cr_assert(model_loss(once.run) == model_loss(scaled.run));
    for (int i = 0; i < model->param_count; i++) {
        const float *a = once.gradients[i].data, *b = scaled.gradients[i].data;
        for (size_t j = 0; j < model->params[i].count; j++)
            cr_assert(a[j] * scale == b[j], "%s[%zu]", model->params[i].name, j);
    }
    trial_free(&once);
    trial_free(&scaled);
}

// An infinity in any parameter, of the embedding in the row of a token that occurs.
static inline void cr_overflow_shows(const struct model *model)
{
    for (int param = 0; param < model->param_count; param++) {
        struct trial trial = trial_make(model, 3, DTYPE_FP32, plain);
        float *values = trial.params[param];
        values[param == 0 ? trial.tokens[0] * model->params[0].shape[1] : 0] = INFINITY;
        trial_pass(&trial, 1.0f);
        bool finite = true;
        for (int i = 0; i < model->param_count; i++)
            for (size_t j = 0; j < model->params[i].count; j++)
                finite = finite && isfinite(((float *)trial.gradients[i].data)[j]);
        cr_assert(!finite, "an infinity in %s is lost", model->params[param].name);
        trial_free(&trial);
    }
}

// The largest difference of two gradients, in parts of the largest element.
static inline double cr_distance(const struct trial *a, const struct trial *b, int param)
{
    const float *x = a->gradients[param].data, *y = b->gradients[param].data;
    double difference = 0, largest = 0;
    for (size_t i = 0; x && i < a->model->params[param].count; i++) {
        difference = fmax(difference, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)x[i]));
    }
    return largest > 0 ? difference / largest : difference;
}

static inline void cr_token_is_refused(const struct model *model)
{
    struct trial trial = trial_make(model, 3, DTYPE_FP32, plain);
    trial.tokens[3 * (model->sequence_length + 1) - 1] = 11;
    cr_assert(model_forward(trial.run, 0, &trial.batch, (const void *const *)trial.params, NULL) == ERR_USAGE);
    cr_assert(strstr(err_message(), "token 11"), "%s", err_message());
    trial_free(&trial);
}

// The model of that name.
static inline const struct model *find(const char *name)
{
    const struct model *model = NULL;
    cr_assert(model_find(name, &model) == ERR_NONE, "%s", err_message());
    cr_assert_str_eq(model->name, name);
    return model;
}

static inline void cr_name_is_refused(const char *name, const char *message)
{
    const struct model *model;
    cr_expect_eq(model_find(name, &model), ERR_USAGE, "%s", name);
    cr_expect(strstr(err_message(), message), "%s: %s", name, err_message());
}

static inline struct model *make(const struct gpt_shape *shape)
{
    struct model *model;
    cr_assert(gpt_make("gpt-test", shape, &model) == ERR_NONE, "%s", err_message());
    return model;
}

// A model has more than others: nothing, adapters on all modules, or experts.
enum more { NOTHING, ADAPTERS, EXPERTS, MORE_COUNT };

static inline struct model *make_with(enum more more, struct gpt_shape shape)
{
    if (more == ADAPTERS)
        shape.lora = (struct lora){5, 7, "all-linear"};
    if (more == EXPERTS)
        shape.experts = (struct gpt_experts){4, 2, 800, 0};
    return make(&shape);
}

// The index of a parameter; -1: there is none of this name.
static inline int param_named(const struct model *model, const char *name)
{
    int i = model->param_count - 1;
    while (i >= 0 && strcmp(model->params[i].name, name) != 0)
        i--;
    return i;
}
