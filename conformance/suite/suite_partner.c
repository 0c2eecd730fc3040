// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 in which a chapter's feature meets what it is trained with: groups without decay, schedules,
// clipping, overflow and accumulation; and those of one feature alone.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

// In fp32 the norm is so small that 1e-6, which the coefficient's forms add to it, shows: once, not once a shard.
static void make_accumulated_clip(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    int smaller = item->precision == DTYPE_FP32 ? 14 : 0;
    c->data.exponent_low -= smaller;
    c->data.exponent_high -= smaller;
    c->gradient_clipping = ldexp(0.0713, -smaller);
}

// At the beginning, between others, and at the end, where offsets of what follows or precedes would show; or at the end
// alone, behind shards that the others fill without padding.
static void make_empties(struct check_case *c, struct suite_item *item)
{
    item->own_data = strcmp(item->variant, "last") == 0;
    suite_tensors(c, item->own_data ? "9x4,12,0x3" : "0,9x4,0x3,21,3x2,7,0x5");
    if (!item->own_data)
        suite_empty_third(c, 4);
}

static void make_scalars(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_tensors(c, "1,9x4,1,1,21,1");
    for (int i = 0; i < c->param_count; i++)
        c->params[i].shape_rank = c->params[i].count == 1 ? 0 : c->params[i].shape_rank;
}

const struct suite_row suite_partner[] = {
    {"adam-mixed", "Groups of which one differs.", suite_mixed, "steps=5",
     "2:02:f:mode,correction,schedule,decay 2:13:f:all",
     "2:13:f:mode,correction,schedule,decay 3:0123:fb:all 4:13:f:mode,correction,schedule,decay"},
    {"mesh-groups", "A group without decay, on meshes.", suite_mesh_all, "split_decay", "4:1:f:r2s2 4:2:f:s2t2",
     "4:13:f:r2s2,s2t2"},
    {"mesh-mixed", "Groups of which one differs, on meshes.", suite_mesh_all, "steps=5 differ=all",
     "4:13:f:r2s2 4:2:f:s2t2,s4e2 4:1:f:s2p2", "4:2:f:r2s2 4:13:f:s2t2,s4e2 4:0:f:s2p2"},
    {"acc-lr", "Micro-steps, and another learning rate in every step.", NULL,
     "accumulation=3 steps=5 lr=0.01,0.04,0.005,0.02,0.001,0.03", "2:0123:f", "1,3:0123:fb"},
    {"acc-groups", "Micro-steps, and a group without decay.", NULL, "accumulation=3 steps=5 split_decay", "2:12:f",
     "1,3:0123:fb"},
    {"acc-clip", "Micro-steps, and a norm above the threshold.", make_accumulated_clip, "accumulation=3 steps=5",
     "2:03:f 2:12:b", "1,3:0123:fb"},
    {"acc-skip", "Overflows in the first of three micro-steps, and in the second.", NULL,
     "accumulation=3 steps=5 checked poke=2,0,-1,1,5,inf poke=4,1,0,5,2,nan", "2:02:b 2:13:f", "1,3:0123:bh"},
    {"acc-trap-clip", "A micro-step is 256 times larger than the next, and their mean is clipped.", NULL,
     "trap gradient_clipping=0.317", "2:0123:b", "1,4:0123:b"},
    {"mp-unchecked", "A static loss scale without a check for overflow.", NULL, "scale=1024 overflow_check=0", "2:03:h",
     "1,3:0123:h"},
    {"mp-accumulated", "A static loss scale, and micro-steps.", NULL, "scale=1024 accumulation=3", "2:12:h",
     "1,3:0123:h"},
    // The scale grows after step 3, is halved in step 5, and grows again: each norm is of the gradient that its own
    // scale was taken from.
    {"mp-clip", "Norms above the threshold while the loss scale changes.", NULL,
     "steps=8 dynamic=64,2,1,1 poke=5,0,-1,2,9,inf gradient_clipping=0.0713", "2:0123:h", "1,3:0123:h"},
    {"mp-groups", "A group without decay, and an overflow.", NULL,
     "steps=8 dynamic=64,2,1,1 poke=5,0,-1,2,9,inf split_decay", "2:13:h", "1,3:0123:h"},
    {"part-empties", "Tensors without elements.", make_empties, "", "2:0123:f", "1,3,4:0123:fb 2,3:0123:f:last"},
    {"part-scalars", "Scalars.", make_scalars, "", "2:0123:f", "1,3,4:0123:fb"},
    {0},
};
