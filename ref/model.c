// SPDX-License-Identifier: Apache-2.0
// The models by name, and what is common to all of them.
#include "model.h"

#include "err.h"
#include "gpt.h"
#include "gpt_math.h"
#include "linear.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    struct gpt_shape shape;
} gpts[] = {
    {"gpt-nano", {.layer_count = 2, .width = 16, .head_count = 2, .sequence_length = 16, .vocabulary = 256}},
    {"gpt-tiny", {.layer_count = 4, .width = 64, .head_count = 4, .sequence_length = 64, .vocabulary = 256}},
    {"gpt-3m", {.layer_count = 4, .width = 256, .head_count = 4, .sequence_length = 128, .vocabulary = 256}},
    {"gpt-10m", {.layer_count = 6, .width = 384, .head_count = 6, .sequence_length = 256, .vocabulary = 256}},
    {"gpt2-124m", {.layer_count = 12, .width = 768, .head_count = 12, .sequence_length = 1024, .vocabulary = 50257}},
};
enum { GPT_COUNT = sizeof gpts / sizeof *gpts };

// The GPTs are built when first asked for and kept until the process ends.
static pthread_mutex_t built_lock = PTHREAD_MUTEX_INITIALIZER;
static struct model *built[GPT_COUNT];

static int gpt_find(int index, const struct model **out)
{
    pthread_mutex_lock(&built_lock);
    int code = built[index] ? ERR_NONE : gpt_make(gpts[index].name, &gpts[index].shape, &built[index]);
    *out = built[index];
    pthread_mutex_unlock(&built_lock);
    return code;
}

int model_find(const char *name, const struct model **out)
{
    char names[512] = "";
    size_t used = 0;
    for (int i = 0; i < GPT_COUNT; i++) {
        if (strcmp(name, gpts[i].name) == 0)
            return gpt_find(i, out);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s, ", gpts[i].name);
    }
    const struct model *model;
    for (int i = 0; (model = linear_model(i)) != NULL; i++) {
        if (strcmp(name, model->name) == 0) {
            *out = model;
            return ERR_NONE;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", model->name);
    }
    return err_set(ERR_USAGE, "no model is called '%s'; there are %s", name, names);
}

void model_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    model->operations->initialise(model, param, seed, out);
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

double model_flops(const struct model *model, size_t sequence_count)
{
    return model->operations->flops(model, sequence_count);
}

size_t model_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    return model->operations->run_bytes(model, sequence_count, dtype, checkpointing);
}

size_t model_checkpoint_bytes(const struct model *model, int unit, size_t sequence_count)
{
    return model->operations->checkpoint_bytes(model, unit, sequence_count);
}

int model_run_open(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing,
                   struct tier *tier, struct model_run **out)
{
    if (sequence_count == 0)
        return err_set(ERR_USAGE, "a micro-batch of %s needs at least one sequence", model->name);
    matmul_prepare();
    size_t bytes = model_run_bytes(model, sequence_count, dtype, checkpointing);
    struct model_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a run of %s", model->name);
    *run = (struct model_run){.model = model,
                              .sequence_count = sequence_count,
                              .dtype = dtype,
                              .checkpointing = checkpointing,
                              .tier = tier};
    int code = ERR_NONE;
    if (tier)
        code = tier_allocate(tier, KIND_ACTIVATION, "activations", bytes, 0, &run->memory);
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

void *model_run_memory(const struct model_run *run)
{
    return run->memory;
}

// *checkpoint stays where the unit has one, and becomes null where it has none.
static int checkpoint_check(const struct model_run *run, int unit, const void **checkpoint)
{
    if (!run->checkpointing || model_checkpoint_bytes(run->model, unit, run->sequence_count) == 0)
        *checkpoint = NULL;
    else if (!*checkpoint)
        return err_set(ERR_INTERNAL, "a run of %s with checkpointing has no memory for the checkpoint of %s",
                       run->model->name, run->model->units[unit].name);
    return ERR_NONE;
}

int model_forward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                  void *checkpoint)
{
    TRY(checkpoint_check(run, unit, (const void **)&checkpoint));
    return run->model->operations->forward(run, unit, batch, params, checkpoint);
}

int model_backward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                   const struct model_gradient gradients[], float loss_scale, const void *checkpoint)
{
    TRY(checkpoint_check(run, unit, &checkpoint));
    return run->model->operations->backward(run, unit, batch, params, gradients, loss_scale, checkpoint);
}

double model_loss(const struct model_run *run)
{
    return run->loss;
}
