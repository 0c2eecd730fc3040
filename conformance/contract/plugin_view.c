// SPDX-License-Identifier: Apache-2.0
// A case as plug-ins see it.
#include "conformance/contract/plugin.h"

#include "conformance/cases/case.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "conformance/contract/plugin_internal.h"
#include "ref/checkpoint/safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The enums of contract.h have the values of the suite's own, which may not be seen there.
_Static_assert((int)ZEROGAUGE_FP32 == DTYPE_FP32 && (int)ZEROGAUGE_BF16 == DTYPE_BF16 &&
                   (int)ZEROGAUGE_FP16 == DTYPE_FP16,
               "dtypes");
_Static_assert((int)ZEROGAUGE_NONE == TIER_DEVICE && (int)ZEROGAUGE_CPU == TIER_HOST &&
                   (int)ZEROGAUGE_NVME == TIER_NVME,
               "tiers");
_Static_assert((int)ZEROGAUGE_SCALE_NONE == SCALE_NONE && (int)ZEROGAUGE_SCALE_STATIC == SCALE_STATIC &&
                   (int)ZEROGAUGE_SCALE_DYNAMIC == SCALE_DYNAMIC,
               "loss scales");
_Static_assert((int)ZEROGAUGE_WHOLE == PHASE_WHOLE && (int)ZEROGAUGE_SAVE == PHASE_SAVE &&
                   (int)ZEROGAUGE_RESUME == PHASE_RESUME,
               "phases");
_Static_assert(CASE_SHAPE_MAX == sizeof(((struct plugin_view *)0)->shapes[0]) / sizeof(uint64_t), "shapes");
// A plug-in and the host share these sizes: a struct changes only with the version of the contract.
_Static_assert(ZEROGAUGE_CONTRACT == CASE_CONTRACT && sizeof(struct zerogauge_implementation) == 96 &&
                   sizeof(struct zerogauge_case) == 232 && sizeof(struct zerogauge_param) == 48 &&
                   sizeof(struct zerogauge_group) == 48 && sizeof(struct zerogauge_outcome) == 32 &&
                   sizeof(struct zerogauge_usage) == 72,
               "contract 1, on machines of 64 bits");

static void fill_params(const struct check_case *c, struct plugin_view *view)
{
    for (int i = 0; i < c->param_count; i++) {
        const struct case_param *param = &c->params[i];
        for (int k = 0; k < param->shape_rank; k++)
            view->shapes[i][k] = param->shape[k];
        view->params[i] = (struct zerogauge_param){.name = param->name,
                                                   .shape = view->shapes[i],
                                                   .count = param->count,
                                                   .shape_rank = param->shape_rank,
                                                   .group = param->group,
                                                   .frozen = param->frozen,
                                                   .used = param->used,
                                                   .tied_to = param->tied_to};
    }
    for (int i = 0; i < c->group_count; i++) {
        const struct case_group *group = &c->groups[i];
        view->groups[i] = (struct zerogauge_group){.lr = group->lr,
                                                   .beta1 = group->beta1,
                                                   .beta2 = group->beta2,
                                                   .eps = group->eps,
                                                   .weight_decay = group->weight_decay,
                                                   .decoupled = group->decoupled,
                                                   .bias_correction = group->bias_correction};
    }
}

static void fill(const struct check_case *c, struct plugin_view *view)
{
    fill_params(c, view);
    view->c = (struct zerogauge_case){
        .struct_bytes = sizeof view->c,
        .name = c->name,
        .json = view->json,
        .message = view->message,
        .message_bytes = sizeof view->message,
        .world = c->world,
        .steps = c->steps,
        .accumulation = c->accumulation,
        .stage = c->stage,
        .first_step = case_first_step(c),
        .last_step = case_last_step(c),
        .precision = (int32_t)c->precision,
        .communication_dtype = (int32_t)c->communication_dtype,
        .accumulation_dtype = (int32_t)c->accumulation_dtype,
        .param_count = c->param_count,
        .group_count = c->group_count,
        .overflow_check = c->overflow_check,
        .delayed_update = c->delayed_update,
        .loss_scale = (int32_t)c->loss_scale.kind,
        .offload_optimizer = (int32_t)c->offload_optimizer,
        .offload_param = (int32_t)c->offload_param,
        .phase = (int32_t)c->phase,
        .checkpoint_step = c->checkpoint_step,
        .weights_only = c->weights_only,
        .overlap = c->overlap,
        .contiguous_gradients = c->contiguous_gradients,
        .reduce_scatter = c->reduce_scatter,
        .reduce_bucket = c->reduce_bucket,
        .allgather_bucket = c->allgather_bucket,
        .prefetch_bucket = c->prefetch_bucket,
        .sub_group = c->sub_group,
        .gradient_clipping = c->gradient_clipping,
        .scale = c->loss_scale.scale,
        .min_scale = c->loss_scale.min_scale,
        .scale_window = c->loss_scale.window,
        .scale_hysteresis = c->loss_scale.hysteresis,
        .params = view->params,
        .groups = view->groups,
    };
}

int plugin_view_open(const struct check_case *c, const char *folder, struct plugin_view *out)
{
    char path[PATH_MAX];
    size_t bytes;
    *out = (struct plugin_view){0};
    TRY(file_join(folder, "case.json", path));
    TRY(file_read_text(path, JSON_TEXT_BYTES_MAX, &out->json, &bytes));
    out->params = calloc(CASE_PARAM_MAX, sizeof *out->params);
    out->groups = calloc(CASE_GROUP_MAX, sizeof *out->groups);
    out->shapes = calloc(CASE_PARAM_MAX, sizeof *out->shapes);
    if (!out->params || !out->groups || !out->shapes) {
        plugin_view_close(out);
        return err_set(ERR_MEMORY, "no memory for a case");
    }
    fill(c, out);
    return ERR_NONE;
}

void plugin_view_close(struct plugin_view *view)
{
    free(view->params);
    free(view->groups);
    free(view->shapes);
    free(view->json);
    *view = (struct plugin_view){0};
}

// One more: an empty tensor is there, too.
static int make_array(size_t count, size_t element_bytes, void *out)
{
    void *array = calloc(count + 1, element_bytes);
    if (!array)
        return err_set(ERR_MEMORY, "no memory for %zu elements", count);
    memcpy(out, &array, sizeof array);
    return ERR_NONE;
}

int plugin_arrays_open(struct plugin_run *run)
{
    const struct check_case *c = &run->c;
    size_t element_bytes = dtype_bytes(c->precision);
    for (int i = 0; i < c->param_count; i++) {
        size_t count = c->params[i].count;
        if (case_owner(c, i) == i) {
            TRY(make_array(count, sizeof(float), &run->initial[i]));
            TRY(make_array(count, sizeof(float), &run->now.param[i]));
        }
        if (case_is_trained(c, i)) {
            TRY(make_array(count, sizeof(float), &run->now.exp_avg[i]));
            TRY(make_array(count, sizeof(float), &run->now.exp_avg_sq[i]));
            TRY(make_array(count, sizeof(float), &run->now.grad[i]));
        }
        if (case_is_used(&run->c, i))
            TRY(make_array(count, element_bytes, &run->gradients[i]));
        for (int rank = 0; rank < c->world && c->params[i].used; rank++)
            for (int micro = 0; micro < c->accumulation; micro++)
                TRY(make_array(count, element_bytes, &run->seen[rank][micro][i]));
    }
    return ERR_NONE;
}

void plugin_arrays_close(struct plugin_run *run)
{
    for (int i = 0; i < CASE_PARAM_MAX; i++) {
        free(run->initial[i]);
        free(run->gradients[i]);
        for (int rank = 0; rank < CASE_WORLD_MAX; rank++)
            for (int micro = 0; micro < CASE_ACCUMULATION_MAX; micro++)
                free(run->seen[rank][micro][i]);
    }
    answer_step_close(&run->now);
}

static int read_tensor(const struct safetensors *file, const char *name, enum dtype dtype, size_t count, void *out)
{
    const struct safetensors_tensor *tensor = safetensors_find(file, name);
    if (!tensor || tensor->type != safetensors_type_of(dtype) || tensor->count != count)
        return err_set(ERR_USAGE, "%s: tensor \"%s\" is missing or not as the case says", file->path, name);
    return safetensors_read(file, tensor, 0, count, out);
}

static int open_tensors(const struct plugin_run *run, const char *name, struct safetensors *out)
{
    char path[PATH_MAX];
    TRY(file_join(run->folder, name, path));
    return safetensors_open(path, out);
}

int plugin_read_initial(struct plugin_run *run)
{
    struct safetensors file;
    TRY(open_tensors(run, "init.safetensors", &file));
    int rc = ERR_NONE;
    for (int i = 0; i < run->c.param_count && rc == ERR_NONE; i++)
        if (run->initial[i])
            rc = read_tensor(&file, run->c.params[i].name, DTYPE_FP32, run->c.params[i].count, run->initial[i]);
    safetensors_close(&file);
    return rc;
}

static int hand_over(struct plugin_run *run, const struct safetensors *file, int step, int micro, int rank)
{
    const struct check_case *c = &run->c;
    char name[CASE_TENSOR_BYTES];
    const void *gradients[CASE_PARAM_MAX] = {NULL};
    void *seen[CASE_PARAM_MAX] = {NULL};
    for (int i = 0; i < c->param_count; i++) {
        // NaN: what is not filled in shows.
        if (c->params[i].used)
            memset(run->seen[rank][micro][i], 0xff, c->params[i].count * dtype_bytes(c->precision));
        gradients[i] = case_is_used_in(c, i, step, micro) ? run->gradients[i] : NULL;
        seen[i] = case_is_seen_in(c, i, step, micro) ? run->seen[rank][micro][i] : NULL;
        if (!gradients[i])
            continue;
        case_gradient_name(name, micro, rank, c->params[i].name);
        TRY(read_tensor(file, name, c->precision, c->params[i].count, run->gradients[i]));
    }
    return plugin_result(run, "gradients", run->table->gradients(run->context, step, micro, rank, gradients, seen));
}

int plugin_feed(struct plugin_run *run, int step)
{
    char name[40];
    struct safetensors file;
    int rc = ERR_NONE;
    snprintf(name, sizeof name, "grads-%d.safetensors", step);
    TRY(open_tensors(run, name, &file));
    for (int micro = 0; micro < run->c.accumulation && rc == ERR_NONE; micro++)
        for (int rank = 0; rank < run->c.world && rc == ERR_NONE; rank++)
            rc = hand_over(run, &file, step, micro, rank);
    safetensors_close(&file);
    return rc;
}
