// SPDX-License-Identifier: Apache-2.0
// Cases about states on the host and on NVMe, and about the delayed update.
#include "conformance/suite/suite_build.h"

#include <string.h>

static void place(struct check_case *c, const struct suite_item *item)
{
    if (strncmp(item->variant, "nvme", 4) == 0)
        c->offload_optimizer = TIER_NVME;
    else if (strncmp(item->variant, "cpu", 3) == 0)
        c->offload_optimizer = TIER_HOST;
}

void suite_placed(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    place(c, item);
}

void suite_offload(struct check_case *c, struct suite_item *item)
{
    suite_placed(c, item);
    suite_tensor(c, 19, 5);
}

static void make_param(struct check_case *c, struct suite_item *item)
{
    suite_offload(c, item);
    c->offload_param = c->offload_optimizer;
}

// The norm of suite_fours, 60, with three ranks 180.
static void make_clip(struct check_case *c, struct suite_item *item)
{
    suite_fours(c, item);
    place(c, item);
}

// Shards of many sub-groups; some sub-groups are multiples of 4 KiB blocks, some are not.
static void make_sub_groups(struct check_case *c, struct suite_item *item)
{
    suite_offload(c, item);
    c->sub_group = (size_t)suite_number(item, "nvme-g", 1000000);
}

const struct suite_row suite_tier[] = {
    {"off-cpu", "The optimizer is on the device, or on the host.", suite_offload, "lr=0.01,0.04,0.005,0.02",
     "2:123:fb:none,cpu 3:2:b:cpu", "3,4:123:fb:none,cpu 2:123:h:cpu"},
    {"off-param", "Parameters and optimizer are on the device, or on the host.", make_param, "", "2:3:fb:none,cpu",
     "3,4:3:fb:none,cpu"},
    {"off-accumulate", "Four micro-steps with an offloaded optimizer.", suite_offload, "accumulation=4", "2:123:fb:cpu",
     "3:123:fb:cpu 2:3:f:nvme"},
    {"off-clip", "Offloaded gradients are clipped.", make_clip, "clip=32", "2:123:fb:cpu", "3:123:f:cpu 2:3:f:nvme"},
    {"off-overflow", "Offloaded gradients overflow.", suite_offload,
     "accumulation=2 checked poke=2,0,-1,6,94,inf poke=3,1,0,0,0,inf", "2:123:bh:cpu", "3:123:bh:cpu 2:3:b:nvme"},
    {"delay-basic", "From step 3 on the update is one step late.", suite_offload, "steps=6 delayed_update=3",
     "2:123:b:cpu 2:123:f:cpu", "3,4:123:b:cpu 2:3:b:nvme"},
    {"delay-lr", "Late updates, and another learning rate in every step.", suite_offload,
     "steps=6 delayed_update=2 lr=0.01,0.02,0.005,0.04,0.001,0.03", "2:123:b:cpu", "3:123:fb:cpu"},
    {"delay-overflow", "Overflows while an update is pending.", suite_offload,
     "steps=8 delayed_update=3 checked poke=5,0,-1,2,1,inf poke=7,0,0,6,0,nan", "2:123:b:cpu 2:3:h:cpu",
     "3:123:bh:cpu"},
    // The norm is a different power of two in every step, so that each coefficient belongs to one gradient.
    {"delay-clip", "Late updates with gradients that are clipped.", make_clip,
     "steps=6 delayed_update=3 exponents=-3,2 clip=24", "2:123:f:cpu 2:2:b:cpu", "3:123:f:cpu 2:3:f:nvme"},
    {"nvme-basic", "The optimizer is on the device, or on NVMe.", suite_offload, "", "2:3:fb:none,nvme",
     "3,4:3:fb:none,nvme"},
    {"nvme-param", "Parameters and optimizer are on the device, or on NVMe.", make_param, "", "2:3:fb:none,nvme",
     "3,4:3:fb:none,nvme"},
    // Shards of several 4 KiB blocks and a partial one.
    {"nvme-sizes", "Shares of several blocks and an odd rest.", suite_placed, "tensors=3001,1,43x53,2049 steps=3",
     "2:3:fb:nvme", "1,3,4:3:fb:none,nvme 2:3:fb:none"},
    {"nvme-sub-groups", "One sub-group, a few, many.", make_sub_groups, "more_tensors=9001,61x97 steps=3",
     "2:3:fb:nvme-g30,nvme-g100,nvme-g1000000", "3:3:fb:nvme-g17,nvme-g50,nvme-g1000000"},
    {0},
};
