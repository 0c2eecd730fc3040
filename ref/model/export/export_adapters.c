// SPDX-License-Identifier: Apache-2.0
// Exports of models with adapters (lora.h): the adapters as PEFT stores them, and the merged weights.
#include "ref/model/export/export.h"

#include "base/err.h"
#include "base/json.h"
#include "ref/arithmetic/matmul.h"
#include "ref/checkpoint/weights.h"
#include "ref/model/gpt_find.h"
#include "ref/model/lora/lora.h"
#include "ref/model/names/model_find.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// PEFT's names begin with its wrapper's, and with that of GPT2LMHeadModel's body.
enum { PEFT_NAME_BYTES = MODEL_NAME_BYTES + 48 };

struct adapters {
    const struct checkpoint *checkpoint;
    const struct model *model;
    bool is_gpt;  // weights are input x output
    struct export_tensor *tensors;
    char (*names)[PEFT_NAME_BYTES];
    const struct model *base;  // merging: the model that has the base's initial values
    uint64_t seed;
    enum dtype precision;
    size_t *params;  // merging: by tensor, the model's parameter
    size_t open;     // merging: the tensor in `merged`, SIZE_MAX: none
    float *merged;
};

static int open_adapters(const struct checkpoint *checkpoint, struct adapters *out)
{
    const struct manifest *m = checkpoint_manifest(checkpoint);
    *out = (struct adapters){.checkpoint = checkpoint, .open = SIZE_MAX, .is_gpt = gpt_is_name(m->model)};
    TRY(model_find(m->model, &out->model));
    TRY(checkpoint_check_model(checkpoint, out->model));
    TRY(checkpoint_check_digests(checkpoint));
    size_t count = (size_t)out->model->param_count + 1;
    out->tensors = calloc(count, sizeof *out->tensors);
    out->names = calloc(count, sizeof *out->names);
    out->params = calloc(count, sizeof *out->params);
    return out->tensors && out->names && out->params
               ? ERR_NONE
               : err_set(ERR_MEMORY, "no memory for the names of %zu tensors", count);
}

static void close_adapters(struct adapters *a)
{
    free(a->tensors);
    free(a->names);
    free(a->params);
    free(a->merged);
}

static int read_adapter(void *context, size_t tensor, uint64_t first, size_t count, float *out)
{
    return checkpoint_read(((struct adapters *)context)->checkpoint, STATE_PARAMETER, tensor, first, count, out);
}

static int write_config(const char *folder, const struct adapters *a)
{
    char path[PATH_MAX];
    const struct lora *lora = a->model->lora;
    json_t *targets = json_array();
    // PEFT knows all-linear as a word, not as one name among others.
    bool all = lora_adapts_all(lora);
    for (const char *target = lora->targets; *target && !all; target += *target == '+') {
        size_t length = strcspn(target, "+");
        json_array_append_new(targets, json_stringn(target, length));
        target += length;
    }
    json_t *config =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:s, s:b, s:o, s:b}", "peft_type", "LORA", "task_type", "CAUSAL_LM",
                  "base_model_name_or_path", a->model->name, "r", (int)lora->rank, "lora_alpha", (int)lora->alpha,
                  "lora_dropout", 0.0, "bias", "none", "fan_in_fan_out", a->is_gpt, "target_modules",
                  all ? json_string("all-linear") : json_incref(targets), "inference_mode", true);
    json_decref(targets);
    int rc = file_join(folder, "adapter_config.json", path);
    if (rc == ERR_NONE)
        rc = json_write(path, FILE_NEW, config, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(config);
    return rc;
}

static int write_adapters(const char *folder, struct adapters *a, enum dtype dtype)
{
    const struct manifest *m = checkpoint_manifest(a->checkpoint);
    char path[PATH_MAX];
    for (size_t i = 0; i < m->param_count; i++) {
        snprintf(a->names[i], PEFT_NAME_BYTES, "base_model.model.%s%s", a->is_gpt ? "transformer." : "",
                 m->params[i].name);
        a->tensors[i] = (struct export_tensor){
            .name = a->names[i], .shape_rank = m->params[i].shape_rank, .count = m->params[i].count};
        memcpy(a->tensors[i].shape, m->params[i].shape, sizeof a->tensors[i].shape);
    }
    TRY(file_make_folder(folder));
    TRY(file_join(folder, "adapter_model.safetensors", path));
    TRY(export_tensors(path, a->tensors, m->param_count, dtype, read_adapter, a));
    return write_config(folder, a);
}

int export_adapters(const struct checkpoint *checkpoint, const char *folder, enum dtype dtype)
{
    struct adapters a;
    int rc = open_adapters(checkpoint, &a);
    if (rc == ERR_NONE)
        rc = write_adapters(folder, &a, dtype);
    close_adapters(&a);
    return rc;
}

// Adds (alpha / rank) B A to a matrix, transposed for a GPT, where the checkpoint has its adapters.
static int add_adapters(const struct adapters *a, const struct model_param *param, float *weight)
{
    char module[MODEL_NAME_BYTES], name[MODEL_NAME_BYTES];
    size_t index_a, index_b, rank = a->model->lora->rank;
    lora_module(param->name, module);
    if (param->shape_rank != 2 || param->count == 0 ||
        !checkpoint_find(a->checkpoint, lora_param_name(module, false, name), &index_a) ||
        !checkpoint_find(a->checkpoint, lora_param_name(module, true, name), &index_b))
        return ERR_NONE;
    size_t in_width = param->shape[a->is_gpt ? 0 : 1], out_width = param->shape[a->is_gpt ? 1 : 0];
    float *low = malloc((in_width + out_width) * rank * sizeof *low), *high = low + in_width * rank;
    if (!low)
        return err_set(ERR_MEMORY, "no memory for the adapters of %s", param->name);
    int rc = checkpoint_read(a->checkpoint, STATE_PARAMETER, index_a, 0, in_width * rank, low);
    if (rc == ERR_NONE)
        rc = checkpoint_read(a->checkpoint, STATE_PARAMETER, index_b, 0, out_width * rank, high);
    const struct matmul_operand of_a = {low, in_width, a->is_gpt}, of_b = {high, rank, a->is_gpt};
    if (rc == ERR_NONE)
        matmul(&(struct matmul_product){.m = param->shape[0],
                                        .n = param->shape[1],
                                        .k = rank,
                                        .alpha = lora_scale(a->model->lora),
                                        .add = true,
                                        .a = a->is_gpt ? of_a : of_b,
                                        .b = a->is_gpt ? of_b : of_a,
                                        .c = weight,
                                        .c_stride = param->shape[1]});
    free(low);
    return rc;
}

// The run's base has the precision of its model: each element is rounded in place.
static void round_base(enum dtype precision, size_t count, float *values)
{
    enum { BLOCK = 4096 };
    uint16_t bits[BLOCK];
    for (size_t i = 0; i < count && precision != DTYPE_FP32; i += BLOCK) {
        size_t now = count - i < BLOCK ? count - i : BLOCK;
        dtype_narrow(precision, values + i, bits, now);
        dtype_widen(precision, bits, values + i, now);
    }
}

static int read_merged(void *context, size_t tensor, uint64_t first, size_t count, float *out)
{
    struct adapters *a = context;
    int param = (int)a->params[tensor];
    if (a->open != tensor) {
        TRY(model_initialise(a->base, param, a->seed, a->merged));
        round_base(a->precision, a->model->params[param].count, a->merged);
        TRY(add_adapters(a, &a->model->params[param], a->merged));
        a->open = tensor;
    }
    memcpy(out, a->merged + first, count * sizeof *out);
    return ERR_NONE;
}

static int check_base(const struct adapters *a, const struct weights *weights)
{
    const struct manifest *m = checkpoint_manifest(a->checkpoint);
    const char *began = manifest_made_with(m, "initial_weights"), *given = weights ? weights->digest : "of the seed";
    if (began && strcmp(began, given) == 0)
        return ERR_NONE;
    return err_set(ERR_USAGE,
                   "%s: the run began with the weights %s, not %s: give the file of --load-weights with --base",
                   checkpoint_path(a->checkpoint), began ? began : "unknown", given);
}

// Sets what the base's values follow from.
static int read_facts(struct adapters *a)
{
    const struct manifest *m = checkpoint_manifest(a->checkpoint);
    const char *seed = manifest_made_with(m, "seed"), *precision = manifest_made_with(m, "precision");
    if (!seed || !precision || !dtype_of_name(precision, &a->precision))
        return err_set(ERR_USAGE, "%s: its manifest does not say with which seed and precision it was made",
                       checkpoint_path(a->checkpoint));
    a->seed = strtoull(seed, NULL, 10);
    return ERR_NONE;
}

static int write_merged(struct adapters *a, const char *path, enum dtype dtype)
{
    size_t count = 0, largest = 1;
    for (int i = 0; i < a->model->param_count; i++) {
        const struct model_param *param = &a->model->params[i];
        if (!param->frozen)
            continue;
        a->params[count] = (size_t)i;
        a->tensors[count] =
            (struct export_tensor){.name = param->name, .shape_rank = param->shape_rank, .count = param->count};
        for (int k = 0; k < param->shape_rank; k++)
            a->tensors[count].shape[k] = param->shape[k];
        largest = param->count > largest ? param->count : largest;
        count++;
    }
    a->merged = malloc(largest * sizeof *a->merged);
    if (!a->merged)
        return err_set(ERR_MEMORY, "no memory for a matrix of %zu elements", largest);
    return export_tensors(path, a->tensors, count, dtype, read_merged, a);
}

int export_merged(const struct checkpoint *checkpoint, const char *base_path, const char *path, enum dtype dtype)
{
    struct adapters a;
    struct weights *weights = NULL;
    int rc = open_adapters(checkpoint, &a);
    if (rc == ERR_NONE && base_path)
        rc = weights_open(base_path, a.model, &weights);
    if (rc == ERR_NONE)
        rc = check_base(&a, weights);
    if (rc == ERR_NONE) {
        a.base = weights ? &weights->model : a.model;
        rc = read_facts(&a);
    }
    if (rc == ERR_NONE)
        rc = write_merged(&a, path, dtype);
    weights_close(weights);
    close_adapters(&a);
    return rc;
}
