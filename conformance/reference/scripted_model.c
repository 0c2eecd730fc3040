// SPDX-License-Identifier: Apache-2.0
// The operations of the scripted model: forward notes the parameters that it is given, backward returns the gradients
// of the case.
#include "conformance/reference/scripted_model_internal.h"

#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1024 };

const struct model *scripted_model(const struct scripted *scripted)
{
    return &scripted->model;
}

int scripted_param(const struct scripted *scripted, int param)
{
    return scripted->param_of[param];
}

const void *const *scripted_seen(const struct scripted *scripted, int rank, int micro)
{
    assert(scripted->seen && rank >= 0 && rank < scripted->setting.c->world);
    assert(micro >= 0 && micro < scripted->setting.c->accumulation);
    return (const void *const *)scripted->seen + scripted_position(scripted->setting.c, rank, micro);
}

static const char *gradient_of(const struct scripted *scripted, const struct model_batch *batch, int use)
{
    assert(batch->step + (uint64_t)scripted->setting.before_steps <= CASE_STEP_MAX);
    const struct scripted_step *step = &scripted->steps[batch->step + (uint64_t)scripted->setting.before_steps];
    return step->tensors[scripted_position(scripted->setting.c, batch->rank, batch->micro) + (size_t)use];
}

// A run's memory: g of a chunk, and p or rounded gradients of it.
static size_t scripted_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    (void)model, (void)sequence_count, (void)dtype, (void)checkpointing;
    return 2 * CHUNK * sizeof(float);
}

// Nothing passes from layer to layer.
static size_t scripted_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    (void)model, (void)layer, (void)sequence_count;
    return 0;
}

// The sum over a parameter's use; a product that is no finite number is left out.
static double dot(struct model_run *run, const char *gradient, const char *param, size_t count)
{
    float *g = run->memory, *p = g + CHUNK;
    size_t element_bytes = dtype_bytes(run->dtype);
    double sum = 0.0;
    for (size_t first = 0, piece; gradient && first < count; first += piece) {
        piece = count - first < CHUNK ? count - first : CHUNK;
        dtype_widen(run->dtype, gradient + first * element_bytes, g, piece);
        dtype_widen(run->dtype, param + first * element_bytes, p, piece);
        for (size_t i = 0; i < piece; i++) {
            double product = (double)p[i] * (double)g[i];
            sum += isfinite(product) ? product : 0.0;
        }
    }
    return sum;
}

static int scripted_forward(struct model_run *run, int layer, const struct model_batch *batch,
                            const void *const params[], void *checkpoint)
{
    (void)checkpoint;
    const struct scripted *scripted = run->model->shape;
    const struct model_layer *u = &run->model->layers[layer];
    const int *uses = scripted->uses + (u->params - scripted->layer_params);
    if (layer == 0)
        run->loss = 0.0;
    for (int i = 0; i < u->param_count; i++) {
        size_t count = run->model->params[u->params[i]].count;
        run->loss += dot(run, gradient_of(scripted, batch, uses[i]), params[u->params[i]], count);
        if (scripted->seen)
            memcpy(scripted->seen[scripted_position(scripted->setting.c, batch->rank, batch->micro) + (size_t)uses[i]],
                   params[u->params[i]], count * dtype_bytes(run->dtype));
    }
    return ERR_NONE;
}

// out = or += loss_scale x gradient, rounded to the precision. A use without gradient has zeros.
static void hand_over(struct model_run *run, const char *gradient, float loss_scale, const struct model_gradient *to,
                      size_t count)
{
    float *g = run->memory, *rounded = g + CHUNK;
    size_t element_bytes = dtype_bytes(run->dtype);
    for (size_t first = 0, piece; first < count; first += piece) {
        piece = count - first < CHUNK ? count - first : CHUNK;
        void *out = (char *)to->data + first * element_bytes;
        if (gradient)
            dtype_widen(run->dtype, gradient + first * element_bytes, g, piece);
        else
            memset(g, 0, piece * sizeof *g);
        for (size_t i = 0; i < piece; i++)
            g[i] *= loss_scale;
        // Each use's gradient is rounded by itself, before two of them are added.
        dtype_narrow(run->dtype, g, to->accumulate ? rounded : out, piece);
        if (to->accumulate)
            dtype_accumulate(run->dtype, out, run->dtype, rounded, piece);
    }
}

static int scripted_backward(struct model_run *run, int layer, const struct model_batch *batch,
                             const void *const params[], const struct model_gradient gradients[], float loss_scale,
                             const void *checkpoint)
{
    (void)params, (void)checkpoint;
    const struct scripted *scripted = run->model->shape;
    const struct model_layer *u = &run->model->layers[layer];
    const int *uses = scripted->uses + (u->params - scripted->layer_params);
    for (int i = 0; i < u->param_count; i++) {
        const struct model_gradient *to = &gradients[u->params[i]];
        if (to->data)
            hand_over(run, gradient_of(scripted, batch, uses[i]), loss_scale, to,
                      run->model->params[u->params[i]].count);
    }
    return ERR_NONE;
}

// Gradients are given, nothing is computed.
static double scripted_layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    (void)model, (void)layer, (void)sequence_count;
    return 0;
}

static int scripted_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    (void)seed;
    const struct scripted *scripted = model->shape;
    memcpy(out, scripted->initial[param], model->params[param].count * sizeof *out);
    return ERR_NONE;
}

const struct model_operations scripted_operations = {
    .initialise = scripted_initialise,
    .layer_flops = scripted_layer_flops,
    .run_bytes = scripted_run_bytes,
    .checkpoint_bytes = scripted_checkpoint_bytes,
    .forward = scripted_forward,
    .backward = scripted_backward,
};
