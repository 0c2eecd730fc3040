// SPDX-License-Identifier: Apache-2.0
#include "ref/checkpoint/weights.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "ref/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

static int initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    const struct weights *weights = (const struct weights *)model;
    if (!weights->values[param])
        return weights->initialise(model, param, seed, out);
    memcpy(out, weights->values[param], model->params[param].count * sizeof *out);
    return ERR_NONE;
}

static int check_shape(const struct safetensors *file, const struct safetensors_tensor *tensor,
                       const struct model_param *param)
{
    bool equal = tensor->shape_rank == param->shape_rank;
    for (int i = 0; equal && i < param->shape_rank; i++)
        equal = tensor->shape[i] == param->shape[i];
    if (equal)
        return ERR_NONE;
    char text[2][256] = {"", ""};
    for (int i = 0; i < tensor->shape_rank && strlen(text[0]) < 200; i++)
        snprintf(text[0] + strlen(text[0]), 32, "%s%llu", i ? ", " : "", (unsigned long long)tensor->shape[i]);
    for (int i = 0; i < param->shape_rank; i++)
        snprintf(text[1] + strlen(text[1]), 32, "%s%zu", i ? ", " : "", param->shape[i]);
    return err_set(ERR_USAGE, "%s: tensor \"%s\" has the shape [%s], the model's parameter [%s]", file->path,
                   param->name, text[0], text[1]);
}

static int read_tensors(const struct safetensors *file, const struct model *model, float **values)
{
    size_t found = 0;
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *param = &model->params[i];
        const struct safetensors_tensor *tensor = safetensors_find(file, param->name);
        if (!tensor && model->lora && !param->frozen)
            continue;  // adapters may begin by the seed
        if (!tensor)
            return err_set(ERR_USAGE, "%s: has no tensor \"%s\", which the model %s needs", file->path, param->name,
                           model->name);
        TRY(check_shape(file, tensor, param));
        if (!(values[i] = malloc((param->count + 1) * sizeof **values)))
            return err_set(ERR_MEMORY, "no memory for the %zu elements of %s", param->count, param->name);
        TRY(safetensors_read_fp32(file, tensor, 0, param->count, values[i]));
        found++;
    }
    for (size_t i = 0; i < file->tensor_count && found < file->tensor_count; i++) {
        bool known = false;
        for (int k = 0; k < model->param_count; k++)
            known |= strcmp(model->params[k].name, file->tensors[i].name) == 0;
        char shown[TEXT_MESSAGE_BYTES];
        if (!known)
            return err_set(ERR_USAGE, "%s: tensor \"%s\" is not a parameter of the model %s", file->path,
                           text_message(shown, file->tensors[i].name, 100), model->name);
    }
    return ERR_NONE;
}

int weights_open(const char *path, const struct model *model, struct weights **out)
{
    struct weights *weights = *out = calloc(1, sizeof *weights);
    if (!weights)
        return err_set(ERR_MEMORY, "no memory for the weights in %s", path);
    weights->model = *model;
    weights->operations = *model->operations;
    weights->initialise = model->operations->initialise;
    weights->operations.initialise = initialise;
    weights->model.operations = &weights->operations;
    weights->values = calloc((size_t)model->param_count + 1, sizeof *weights->values);
    struct safetensors file = {.fd = -1};
    int rc =
        weights->values ? safetensors_open(path, &file) : err_set(ERR_MEMORY, "no memory for the weights in %s", path);
    if (rc == ERR_NONE)
        rc = read_tensors(&file, model, weights->values);
    if (rc == ERR_NONE)
        rc = file_digest(file.fd, path, weights->digest);
    safetensors_close(&file);
    if (rc != ERR_NONE) {
        weights_close(weights);
        *out = NULL;
    }
    return rc;
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    for (int i = 0; weights->values && i < weights->model.param_count; i++)
        free(weights->values[i]);
    free(weights->values);
    free(weights);
}
