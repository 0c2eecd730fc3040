// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 in which a chapter's feature meets what it is trained with: groups without decay, schedules,
// clipping, overflow and accumulation; and those of one feature alone.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

// Variants "mode", "correction", "schedule", "decay", "all".
static void make_mixed(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->steps = 5;
    suite_differ(c, item->variant);
    item->own_data = true;
}

// Parameters of one dimension do not decay.
static void make_mesh(struct check_case *c, struct suite_item *item)
{
    suite_mesh_all(c, item);
    suite_split_decay(c);
}

static void make_mesh_mixed(struct check_case *c, struct suite_item *item)
{
    suite_mesh_all(c, item);
    c->steps = 5;
    suite_differ(c, "all");
}

// --- accumulation ---

static void make_accumulated(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->accumulation = 3;
    c->steps = 5;
}

static void make_accumulated_schedule(struct check_case *c, struct suite_item *item)
{
    make_accumulated(c, item);
    suite_schedule(c, 0);
}

static void make_accumulated_groups(struct check_case *c, struct suite_item *item)
{
    make_accumulated(c, item);
    suite_split_decay(c);
}

// In fp32 the norm is so small that 1e-6, which the coefficient's forms add to it, shows: once, not once a shard.
static void make_accumulated_clip(struct check_case *c, struct suite_item *item)
{
    make_accumulated(c, item);
    int smaller = item->precision == DTYPE_FP32 ? 14 : 0;
    c->data.exponent_low -= smaller;
    c->data.exponent_high -= smaller;
    c->gradient_clipping = ldexp(0.0713, -smaller);
}

static void make_accumulated_skip(struct check_case *c, struct suite_item *item)
{
    make_accumulated(c, item);
    c->overflow_check = true;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p10, 1000, 1, 1);
    suite_poke(c, 2, 0, c->world - 1, 1, 5, INFINITY);
    suite_poke(c, 4, 1, 0, 5, 2, NAN);
}

// As acc-trap, with a mean that is clipped.
static void make_trap_clip(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    suite_trap(c, 2);
    c->gradient_clipping = 0.317;
}

// --- mixed precision ---

static void make_static(struct check_case *c)
{
    suite_model(c);
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1024};
}

static void make_unchecked(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_static(c);
    c->overflow_check = false;
}

static void make_scaled_accumulation(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_static(c);
    c->accumulation = 3;
}

// The scale grows after step 3, is halved in step 5, and grows again: each norm is of the gradient that its own scale
// was taken from.
static void make_growing(struct check_case *c)
{
    suite_model(c);
    c->steps = 8;
    suite_dynamic(c, 0x1p6, 2, 1, 1);
    suite_poke(c, 5, 0, c->world - 1, 2, 9, INFINITY);
}

static void make_growing_clip(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_growing(c);
    c->gradient_clipping = 0.0713;
}

static void make_growing_groups(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_growing(c);
    suite_split_decay(c);
}

// --- partition: one feature each ---

// At the beginning, between others, and at the end, where offsets of what follows or precedes would show; or at the end
// alone, behind shards that the others fill without padding.
static void make_empties(struct check_case *c, struct suite_item *item)
{
    item->own_data = strcmp(item->variant, "last") == 0;
    if (item->own_data) {
        suite_tensor(c, 9, 4);
        suite_tensor(c, 12, 0);
        suite_tensor(c, 0, 3);
        return;
    }
    suite_tensor(c, 0, 0);
    suite_tensor(c, 9, 4);
    suite_tensor(c, 0, 3);
    suite_tensor(c, 21, 0);
    int flat = suite_tensor(c, 3, 2);
    c->params[flat].shape_rank = 3;
    c->params[flat].shape[2] = c->params[flat].count = 0;
    suite_tensor(c, 7, 0);
    suite_tensor(c, 0, 5);
}

static void make_scalars(struct check_case *c, struct suite_item *item)
{
    static const size_t sizes[][2] = {{1, 0}, {9, 4}, {1, 0}, {1, 0}, {21, 0}, {1, 0}};
    (void)item;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int param = suite_tensor(c, sizes[i][0], sizes[i][1]);
        c->params[param].shape_rank = sizes[i][0] == 1 ? 0 : c->params[param].shape_rank;
    }
}

const struct suite_row suite_partner[] = {
    {"adam-mixed", "Groups of which one differs.", make_mixed, "2:02:f:mode,correction,schedule,decay 2:13:f:all",
     "2:13:f:mode,correction,schedule,decay 3:0123:fb:all 4:13:f:mode,correction,schedule,decay"},
    {"mesh-groups", "A group without decay, on meshes.", make_mesh, "4:1:f:r2s2 4:2:f:s2t2", "4:13:f:r2s2,s2t2"},
    {"mesh-mixed", "Groups of which one differs, on meshes.", make_mesh_mixed, "4:13:f:r2s2 4:2:f:s2t2,s4e2 4:1:f:s2p2",
     "4:2:f:r2s2 4:13:f:s2t2,s4e2 4:0:f:s2p2"},
    {"acc-lr", "Micro-steps, and another learning rate in every step.", make_accumulated_schedule, "2:0123:f",
     "1,3:0123:fb"},
    {"acc-groups", "Micro-steps, and a group without decay.", make_accumulated_groups, "2:12:f", "1,3:0123:fb"},
    {"acc-clip", "Micro-steps, and a norm above the threshold.", make_accumulated_clip, "2:03:f 2:12:b", "1,3:0123:fb"},
    {"acc-skip", "Overflows in the first of three micro-steps, and in the second.", make_accumulated_skip,
     "2:02:b 2:13:f", "1,3:0123:bh"},
    {"acc-trap-clip", "A micro-step is 256 times larger than the next, and their mean is clipped.", make_trap_clip,
     "2:0123:b", "1,4:0123:b"},
    {"mp-unchecked", "A static loss scale without a check for overflow.", make_unchecked, "2:03:h", "1,3:0123:h"},
    {"mp-accumulated", "A static loss scale, and micro-steps.", make_scaled_accumulation, "2:12:h", "1,3:0123:h"},
    {"mp-clip", "Norms above the threshold while the loss scale changes.", make_growing_clip, "2:0123:h", "1,3:0123:h"},
    {"mp-groups", "A group without decay, and an overflow.", make_growing_groups, "2:13:h", "1,3:0123:h"},
    {"part-empties", "Tensors without elements.", make_empties, "2:0123:f", "1,3,4:0123:fb 2,3:0123:f:last"},
    {"part-scalars", "Scalars.", make_scalars, "2:0123:f", "1,3,4:0123:fb"},
    {0},
};
