// SPDX-License-Identifier: Apache-2.0
// The functions of a model, called through its table, and the memory of a run.
#include "ref/model/model.h"

#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

size_t model_width(const struct model *model)
{
    return model->wants_text && model->param_count > 0 && model->params[0].shape_rank == 2 ? model->params[0].shape[1]
                                                                                           : 0;
}

int model_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    assert(param >= 0 && param < model->param_count);
    return model->operations->initialise(model, param, seed, out);
}

void model_param_set(struct model_param *param, const char *name, size_t rows, size_t columns, int layer)
{
    snprintf(param->name, sizeof param->name, "%s", name);
    param->shape_rank = rows ? 2 : 1;
    param->shape[0] = rows ? rows : columns;
    param->shape[1] = rows ? columns : 0;
    param->count = rows ? rows * columns : columns;
    param->used = true;
    param->first_layer = layer;
    param->layer_count = 1;
}

uint64_t model_param_elements(const struct model *model, bool trainable_only)
{
    uint64_t count = 0;
    for (int i = 0; i < model->param_count; i++) {
        if (!trainable_only || !model->params[i].frozen)
            count += model->params[i].count;
    }
    return count;
}

size_t model_layer_elements(const struct model *model, int layer)
{
    size_t count = 0;
    for (int i = 0; i < model->layers[layer].param_count; i++)
        count += model->params[model->layers[layer].params[i]].count;
    return count;
}

double model_layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    assert(layer >= 0 && layer < model->layer_count);
    return model->operations->layer_flops(model, layer, sequence_count);
}

double model_flops(const struct model *model, size_t sequence_count)
{
    double flops = 0;
    for (int layer = 0; layer < model->layer_count; layer++)
        flops += 3.0 * model_layer_flops(model, layer, sequence_count);
    return flops;
}

size_t model_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    return model->operations->run_bytes(model, sequence_count, dtype, checkpointing);
}

size_t model_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    assert(layer >= 0 && layer < model->layer_count);
    return model->operations->checkpoint_bytes(model, layer, sequence_count);
}

int model_run_open(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing,
                   struct tier *tier, struct model_run **out)
{
    if (sequence_count == 0)
        return err_set(ERR_USAGE, "a micro-batch of %s needs at least one sequence", model->name);
    if (sequence_count > INT_MAX / model->sequence_length)
        return err_set(ERR_USAGE, "a micro-batch of %zu sequences of %s has more than %d tokens: choose a smaller one",
                       sequence_count, model->name, INT_MAX);
    size_t bytes = model_run_bytes(model, sequence_count, dtype, checkpointing);
    struct model_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a run of %s", model->name);
    *run = (struct model_run){
        .model = model, .sequence_count = sequence_count, .dtype = dtype, .checkpointing = checkpointing, .tier = tier};
    int code = ERR_NONE;
    if (tier)
        code = tier_allocate(tier, TIER_DEVICE, KIND_ACTIVATION, "activations", bytes, 0, &run->memory);
    else if (posix_memalign(&run->memory, 4096, bytes) != 0)
        code = err_set(ERR_MEMORY, "no memory for the %zu bytes of a run of %s", bytes, model->name);
    if (code != ERR_NONE) {
        free(run);
        return code;
    }
    *out = run;
    return ERR_NONE;
}

void model_run_close(struct model_run *run)
{
    if (!run)
        return;
    if (run->tier)
        tier_free(run->tier, run->memory);
    else
        free(run->memory);
    free(run);
}

size_t model_token_bytes(const struct model *model, int layer, size_t sequence_count)
{
    assert(layer >= 0 && layer < model->layer_count);
    const struct model_operations *operations = model->operations;
    return operations->token_bytes ? operations->token_bytes(model, layer, sequence_count) : 0;
}

void *model_run_memory(const struct model_run *run)
{
    return run->memory;
}

// Sets *checkpoint to null for a layer without a checkpoint.
static int checkpoint_check(const struct model_run *run, int layer, const void **checkpoint)
{
    if (!run->checkpointing || model_checkpoint_bytes(run->model, layer, run->sequence_count) == 0)
        *checkpoint = NULL;
    else if (!*checkpoint)
        return err_set(ERR_INTERNAL, "a run of %s with checkpointing has no memory for the checkpoint of %s",
                       run->model->name, run->model->layers[layer].name);
    return ERR_NONE;
}

int model_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                  void *checkpoint)
{
    assert(layer >= 0 && layer < run->model->layer_count && batch->step > 0 && batch->micro >= 0 && batch->rank >= 0);
    assert(batch->tokens || !run->model->wants_text);
    TRY(checkpoint_check(run, layer, (const void **)&checkpoint));
    math_set_threads(run->threads);
    return run->model->operations->forward(run, layer, batch, params, checkpoint);
}

int model_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   const struct model_gradient gradients[], float loss_scale, const void *checkpoint)
{
    assert(layer >= 0 && layer < run->model->layer_count);
    assert(batch->tokens || !run->model->wants_text);
    TRY(checkpoint_check(run, layer, &checkpoint));
    math_set_threads(run->threads);
    return run->model->operations->backward(run, layer, batch, params, gradients, loss_scale, checkpoint);
}

struct model_exchange model_exchange(const struct model *model, int layer, size_t sequence_count, bool backward,
                                     bool checkpointing)
{
    if (!model->part || !model->operations->exchange)
        return (struct model_exchange){0};
    return model->operations->exchange(model, layer, sequence_count, backward, checkpointing);
}

void model_expect(struct model_run *run, float loss_scale)
{
    run->expected_scale = loss_scale;
}

double model_loss(const struct model_run *run)
{
    return run->loss;
}
