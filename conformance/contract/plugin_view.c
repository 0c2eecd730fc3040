// SPDX-License-Identifier: Apache-2.0
// A case as plug-ins see it.
#include "conformance/contract/plugin.h"

#include "conformance/cases/case.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"

#include <limits.h>
#include <stdlib.h>

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
