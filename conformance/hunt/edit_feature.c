// SPDX-License-Identifier: Apache-2.0
// The features of a case, each of which can be left out or replaced by something plainer. A case that has nothing of
// the kind stays as it is.
#include "conformance/hunt/edit.h"
#include "conformance/hunt/hunt_mesh.h"

#include <stdio.h>
#include <string.h>

// Elements: everything fits; next to nothing does. Of two plain values neither takes the other's place.
enum { PLAIN_BUCKET = 1000000, TIGHT_BUCKET = 2, WIDE_WINDOW = 1000, TIGHT_WINDOW = 1 };

// Those in front leave most out.
enum feature {
    FEATURE_SAME_WORLD,  // a checkpoint that the same number of ranks continues
    FEATURE_NO_MESH,
    FEATURE_NO_TOKENS,
    FEATURE_NO_E4M3,
    FEATURE_HALF_SEQUENCE,
    FEATURE_NO_EXPERTS,
    FEATURE_NO_PIPELINE,
    FEATURE_NO_TENSOR,
    FEATURE_LESS_TENSOR,
    FEATURE_ONE_REPLICA,
    FEATURE_SHARDS_OF_ONE,
    FEATURE_NO_OPTIMIZER_OFFLOAD,
    FEATURE_NO_PARAM_OFFLOAD,
    FEATURE_HOST_FOR_NVME,
    FEATURE_NO_DELAY,
    FEATURE_NO_CLIPPING,
    FEATURE_NO_LOSS_SCALE,
    FEATURE_SINGLE_PRECISION,
    FEATURE_ONE_DTYPE,
    FEATURE_PLAIN_COMMUNICATION,
    FEATURE_PLAIN_ACCUMULATION,
    FEATURE_STATIC_SCALE,
    FEATURE_PLAIN_SCALER,
    FEATURE_WIDE_WINDOW,
    FEATURE_TIGHT_WINDOW,
    FEATURE_NO_OVERFLOW_CHECK,
    FEATURE_STAGE_0,
    FEATURE_STAGE_1,
    FEATURE_STAGE_2,
    FEATURE_NO_OVERLAP,
    FEATURE_CONTIGUOUS,
    FEATURE_REDUCE_SCATTER,
    FEATURE_PLAIN_REDUCE_BUCKET,
    FEATURE_PLAIN_ALLGATHER_BUCKET,
    FEATURE_PLAIN_PREFETCH_BUCKET,
    FEATURE_PLAIN_SUB_GROUP,
    FEATURE_TIGHT_REDUCE_BUCKET,
    FEATURE_TIGHT_ALLGATHER_BUCKET,
    FEATURE_TIGHT_SUB_GROUP,
    FEATURE_ALL_OF_A_CHECKPOINT,
    FEATURE_TIGHT_CLIPPING,
    FEATURE_PLAIN_CLIPPING,
    FEATURE_PLAIN_NAMES,
    FEATURE_COUNT
};

static void plain_size(size_t *elements)
{
    if (*elements != TIGHT_BUCKET)
        *elements = PLAIN_BUCKET;
}

// Where several buckets matter, one small tensor fills them.
static void tight_size(size_t *elements)
{
    if (*elements > TIGHT_BUCKET && *elements < PLAIN_BUCKET)
        *elements = TIGHT_BUCKET;
}

static void make_plain(enum feature feature, struct check_case *c)
{
    switch (feature) {
    case FEATURE_STAGE_0:
        c->stage = 0;
        break;
    case FEATURE_STAGE_1:
        c->stage = c->stage > 1 ? 1 : c->stage;
        break;
    case FEATURE_STAGE_2:
        c->stage = c->stage > 2 ? 2 : c->stage;
        break;
    case FEATURE_NO_OVERLAP:
        c->overlap = false;
        break;
    case FEATURE_CONTIGUOUS:
        c->contiguous_gradients = true;
        break;
    case FEATURE_REDUCE_SCATTER:
        c->reduce_scatter = true;
        break;
    case FEATURE_PLAIN_REDUCE_BUCKET:
        plain_size(&c->reduce_bucket);
        break;
    case FEATURE_PLAIN_ALLGATHER_BUCKET:
        plain_size(&c->allgather_bucket);
        break;
    case FEATURE_PLAIN_PREFETCH_BUCKET:
        c->prefetch_bucket = PLAIN_BUCKET;
        break;
    case FEATURE_PLAIN_SUB_GROUP:
        plain_size(&c->sub_group);
        break;
    case FEATURE_TIGHT_REDUCE_BUCKET:
        tight_size(&c->reduce_bucket);
        break;
    case FEATURE_TIGHT_ALLGATHER_BUCKET:
        tight_size(&c->allgather_bucket);
        break;
    case FEATURE_TIGHT_SUB_GROUP:
        tight_size(&c->sub_group);
        break;
    case FEATURE_ALL_OF_A_CHECKPOINT:
        c->weights_only = false;
        break;
    case FEATURE_TIGHT_CLIPPING:  // A threshold that small tensors exceed, too.
        c->gradient_clipping = c->gradient_clipping > 0 ? 0x1p-10 : 0;
        break;
    case FEATURE_PLAIN_CLIPPING:
        if (c->gradient_clipping > 0 && c->gradient_clipping != 0x1p-10)
            c->gradient_clipping = 1;
        break;
    case FEATURE_PLAIN_NAMES:
        for (int i = 0; i < c->param_count; i++) {
            memset(c->params[i].name, 0, sizeof c->params[i].name);
            snprintf(c->params[i].name, sizeof c->params[i].name, "t%d", i);
        }
        break;
    default:
        break;
    }
}

static void leave_out(enum feature feature, struct check_case *c)
{
    switch (feature) {
    case FEATURE_NO_MESH:
        hunt_mesh_none(c);
        break;
    case FEATURE_NO_TOKENS:
        c->has_tokens = false;
        break;
    case FEATURE_NO_E4M3:
        c->gathers_e4m3 = false;
        break;
    case FEATURE_HALF_SEQUENCE:
        hunt_mesh_half_sequence(c);
        break;
    case FEATURE_NO_EXPERTS:
        hunt_mesh_no_experts(c);
        break;
    case FEATURE_NO_PIPELINE:
        hunt_mesh_no_pipeline(c);
        break;
    case FEATURE_NO_TENSOR:
        hunt_mesh_no_tensor(c);
        break;
    case FEATURE_LESS_TENSOR:
        hunt_mesh_less_tensor(c);
        break;
    case FEATURE_ONE_REPLICA:
        hunt_mesh_one_replica(c);
        break;
    case FEATURE_SHARDS_OF_ONE:
        hunt_mesh_shards_of_one(c);
        break;
    case FEATURE_NO_OPTIMIZER_OFFLOAD:
        c->offload_optimizer = c->offload_param = TIER_DEVICE;
        break;
    case FEATURE_NO_PARAM_OFFLOAD:
        c->offload_param = TIER_DEVICE;
        break;
    case FEATURE_HOST_FOR_NVME:
        c->offload_optimizer = c->offload_optimizer == TIER_NVME ? TIER_HOST : c->offload_optimizer;
        c->offload_param = c->offload_param == TIER_NVME ? TIER_HOST : c->offload_param;
        break;
    case FEATURE_NO_DELAY:
        c->delayed_update = 0;
        break;
    case FEATURE_NO_CLIPPING:
        c->gradient_clipping = 0;
        break;
    case FEATURE_NO_LOSS_SCALE:
        if (c->loss_scale.kind != SCALE_NONE)
            c->loss_scale = (struct case_loss_scale){.kind = SCALE_NONE};
        break;
    case FEATURE_SINGLE_PRECISION:
        c->precision = c->communication_dtype = c->accumulation_dtype = DTYPE_FP32;
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_NONE};
        break;
    case FEATURE_ONE_DTYPE:
        c->communication_dtype = c->accumulation_dtype = c->precision;
        break;
    case FEATURE_PLAIN_COMMUNICATION:
        c->communication_dtype = c->precision;
        break;
    case FEATURE_PLAIN_ACCUMULATION:
        c->accumulation_dtype = c->precision;
        break;
    case FEATURE_STATIC_SCALE:
        if (c->loss_scale.kind == SCALE_DYNAMIC)
            c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = c->loss_scale.scale};
        break;
    case FEATURE_PLAIN_SCALER:
        if (c->loss_scale.kind == SCALE_DYNAMIC)
            c->loss_scale.hysteresis = 1;
        break;
    case FEATURE_WIDE_WINDOW:
        if (c->loss_scale.kind == SCALE_DYNAMIC && c->loss_scale.window != TIGHT_WINDOW)
            c->loss_scale.window = WIDE_WINDOW;
        break;
    case FEATURE_TIGHT_WINDOW:  // Where the scale must grow, it grows after the first step.
        if (c->loss_scale.kind == SCALE_DYNAMIC && c->loss_scale.window != WIDE_WINDOW)
            c->loss_scale.window = TIGHT_WINDOW;
        break;
    case FEATURE_NO_OVERFLOW_CHECK:
        if (c->loss_scale.kind != SCALE_DYNAMIC)
            c->overflow_check = false;
        break;
    default:
        make_plain(feature, c);
    }
}

int edit_feature_count(void)
{
    return FEATURE_COUNT;
}

bool edit_feature(int index, struct check_case parts[], int part_count)
{
    if (index == FEATURE_SAME_WORLD)
        return part_count == 2 && hunt_mesh_same_ranks(parts);
    bool changed = false;
    for (int i = 0; i < part_count; i++) {
        struct check_case before = parts[i];
        leave_out((enum feature)index, &parts[i]);
        changed |= memcmp(&before, &parts[i], sizeof before) != 0;
    }
    return changed;
}

static bool set_number(double *number, double value)
{
    bool changed = *number != value;
    *number = value;
    return changed;
}

static bool set_flag(bool *flag, bool value)
{
    bool changed = *flag != value;
    *flag = value;
    return changed;
}

bool edit_group_field(int field, struct case_group *group)
{
    bool changed;
    switch ((enum edit_group_field)field) {
    case GROUP_LR:
        changed = set_flag(&group->lr_by_step, false);
        for (int i = 0; i < CASE_STEP_MAX; i++)
            changed |= set_number(&group->lr[i], 0.01);
        return changed;
    case GROUP_DECAY:
        return set_number(&group->weight_decay, 0);
    case GROUP_OPTIMIZER:
        return set_flag(&group->decoupled, true);
    case GROUP_BETAS:
        changed = set_number(&group->beta1, 0.9);
        return set_number(&group->beta2, 0.999) || changed;
    case GROUP_EPS:
        return set_number(&group->eps, 1e-8);
    case GROUP_CORRECTION:
        return set_flag(&group->bias_correction, true);
    case GROUP_MUON:
        return set_flag(&group->muon, false);
    case GROUP_MUON_FORM:
        changed = set_flag(&group->nesterov, group->muon);
        return set_flag(&group->matches_adamw, false) || changed;
    default:
        return false;
    }
}
