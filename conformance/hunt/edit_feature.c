// SPDX-License-Identifier: Apache-2.0
// The features of a case, each of which can be left out or replaced by something plainer. One function a feature: it
// changes one half, and a case that has nothing of the kind stays as it is.
#include "conformance/hunt/edit.h"
#include "conformance/hunt/hunt_mesh.h"

#include <stdio.h>
#include <string.h>

// Elements: everything fits; next to nothing does. Of two plain values neither takes the other's place.
enum { PLAIN_BUCKET = 1000000, TIGHT_BUCKET = 2, WIDE_WINDOW = 1000, TIGHT_WINDOW = 1 };

static void no_param_offload(struct check_case *c)
{
    c->offload_param = TIER_DEVICE;
}

static void no_optimizer_offload(struct check_case *c)
{
    c->offload_optimizer = c->offload_param = TIER_DEVICE;
}

static void host_for_nvme(struct check_case *c)
{
    c->offload_optimizer = c->offload_optimizer == TIER_NVME ? TIER_HOST : c->offload_optimizer;
    c->offload_param = c->offload_param == TIER_NVME ? TIER_HOST : c->offload_param;
}

static void no_delay(struct check_case *c)
{
    c->delayed_update = 0;
}

static void no_clipping(struct check_case *c)
{
    c->gradient_clipping = 0;
}

// A threshold that small tensors exceed, too.
static void tight_clipping(struct check_case *c)
{
    c->gradient_clipping = c->gradient_clipping > 0 ? 0x1p-10 : 0;
}

static void plain_clipping(struct check_case *c)
{
    if (c->gradient_clipping > 0 && c->gradient_clipping != 0x1p-10)
        c->gradient_clipping = 1;
}

static void plain_names(struct check_case *c)
{
    for (int i = 0; i < c->param_count; i++) {
        memset(c->params[i].name, 0, sizeof c->params[i].name);
        snprintf(c->params[i].name, sizeof c->params[i].name, "t%d", i);
    }
}

static void no_loss_scale(struct check_case *c)
{
    if (c->loss_scale.kind != SCALE_NONE)
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_NONE};
}

static void static_scale(struct check_case *c)
{
    if (c->loss_scale.kind == SCALE_DYNAMIC)
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = c->loss_scale.scale};
}

static void plain_scaler(struct check_case *c)
{
    if (c->loss_scale.kind == SCALE_DYNAMIC)
        c->loss_scale.hysteresis = 1;
}

static void wide_window(struct check_case *c)
{
    if (c->loss_scale.kind == SCALE_DYNAMIC && c->loss_scale.window != TIGHT_WINDOW)
        c->loss_scale.window = WIDE_WINDOW;
}

// Where the scale must grow, it grows after the first step.
static void tight_window(struct check_case *c)
{
    if (c->loss_scale.kind == SCALE_DYNAMIC && c->loss_scale.window != WIDE_WINDOW)
        c->loss_scale.window = TIGHT_WINDOW;
}

static void no_overflow_check(struct check_case *c)
{
    if (c->loss_scale.kind != SCALE_DYNAMIC)
        c->overflow_check = false;
}

static void single_precision(struct check_case *c)
{
    c->precision = c->communication_dtype = c->accumulation_dtype = DTYPE_FP32;
    no_loss_scale(c);
}

static void one_dtype(struct check_case *c)
{
    c->communication_dtype = c->accumulation_dtype = c->precision;
}

static void plain_communication(struct check_case *c)
{
    c->communication_dtype = c->precision;
}

static void plain_accumulation(struct check_case *c)
{
    c->accumulation_dtype = c->precision;
}

static void stage_0(struct check_case *c)
{
    c->stage = 0;
}

static void stage_1(struct check_case *c)
{
    c->stage = c->stage > 1 ? 1 : c->stage;
}

static void stage_2(struct check_case *c)
{
    c->stage = c->stage > 2 ? 2 : c->stage;
}

static void no_overlap(struct check_case *c)
{
    c->overlap = false;
}

static void contiguous(struct check_case *c)
{
    c->contiguous_gradients = true;
}

static void reduce_scatter(struct check_case *c)
{
    c->reduce_scatter = true;
}

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

static void plain_reduce_bucket(struct check_case *c)
{
    plain_size(&c->reduce_bucket);
}

static void tight_reduce_bucket(struct check_case *c)
{
    tight_size(&c->reduce_bucket);
}

static void plain_allgather_bucket(struct check_case *c)
{
    plain_size(&c->allgather_bucket);
}

static void tight_allgather_bucket(struct check_case *c)
{
    tight_size(&c->allgather_bucket);
}

static void plain_prefetch_bucket(struct check_case *c)
{
    c->prefetch_bucket = PLAIN_BUCKET;
}

static void plain_sub_group(struct check_case *c)
{
    plain_size(&c->sub_group);
}

static void tight_sub_group(struct check_case *c)
{
    tight_size(&c->sub_group);
}

static void all_of_a_checkpoint(struct check_case *c)
{
    c->weights_only = false;
}

static void (*const features[])(struct check_case *c) = {
    hunt_mesh_none,
    hunt_mesh_no_experts,
    hunt_mesh_no_pipeline,
    hunt_mesh_no_tensor,
    hunt_mesh_less_tensor,
    hunt_mesh_one_replica,
    hunt_mesh_shards_of_one,
    no_optimizer_offload,
    no_param_offload,
    host_for_nvme,
    no_delay,
    no_clipping,
    no_loss_scale,
    single_precision,
    one_dtype,
    plain_communication,
    plain_accumulation,
    static_scale,
    plain_scaler,
    wide_window,
    tight_window,
    no_overflow_check,
    stage_0,
    stage_1,
    stage_2,
    no_overlap,
    contiguous,
    reduce_scatter,
    plain_reduce_bucket,
    plain_allgather_bucket,
    plain_prefetch_bucket,
    plain_sub_group,
    tight_reduce_bucket,
    tight_allgather_bucket,
    tight_sub_group,
    all_of_a_checkpoint,
    tight_clipping,
    plain_clipping,
    plain_names,
};

// Before the features of the table: a checkpoint that the same number of ranks continues.
enum { SAME_WORLD, FIRST_OF_TABLE };

int edit_feature_count(void)
{
    return FIRST_OF_TABLE + (int)(sizeof features / sizeof *features);
}

bool edit_feature(int index, struct check_case parts[], int part_count)
{
    if (index == SAME_WORLD)
        return part_count == 2 && hunt_mesh_same_ranks(parts);
    bool changed = false;
    for (int i = 0; i < part_count; i++) {
        struct check_case before = parts[i];
        features[index - FIRST_OF_TABLE](&parts[i]);
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
    default:
        return false;
    }
}
