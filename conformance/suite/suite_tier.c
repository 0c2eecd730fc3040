// SPDX-License-Identifier: Apache-2.0
// Cases about states on the host and on NVMe, and about the delayed update.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

static void place(struct check_case *c, const struct suite_item *item)
{
    if (strncmp(item->variant, "nvme", 4) == 0)
        c->offload_optimizer = TIER_NVME;
    else if (strncmp(item->variant, "cpu", 3) == 0)
        c->offload_optimizer = TIER_HOST;
}

static void make_offload(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_tensor(c, 19, 5);
    place(c, item);
}

static void make_optimizer(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.04, 0.005, 0.02};
    make_offload(c, item);
    suite_lr(c, 0, lr, 4);
}

static void make_param(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    c->offload_param = c->offload_optimizer;
}

static void make_accumulate(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    c->accumulation = 4;
}

static void make_clip(struct check_case *c, struct suite_item *item)
{
    static const size_t sizes[][2] = {{8, 12}, {52, 0}, {4, 8}, {4, 0}, {120, 0}, {6, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        suite_tensor(c, sizes[i][0], sizes[i][1]);
    place(c, item);
    // The tensors and data of suite_clip.c: the norm is 60, with three ranks 180.
    c->data.same_mean = c->data.square_norm = true;
    c->data.reach = 5;
    c->data.exponent_low = c->data.exponent_high = 0;
    c->gradient_clipping = (c->world % 3 == 0 ? 180.0 : 60.0) / 32;
}

static void make_overflow(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    c->overflow_check = true;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p10, 1000, 1, 1);
    suite_poke(c, 2, 0, c->world - 1, 6, 94, INFINITY);
    c->accumulation = 2;
    suite_poke(c, 3, 1, 0, 0, 0, INFINITY);
}

static void make_delayed(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    c->steps = 6;
    c->delayed_update = 3;
}

static void make_delayed_lr(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.02, 0.005, 0.04, 0.001, 0.03};
    make_delayed(c, item);
    c->delayed_update = 2;
    suite_lr(c, 0, lr, 6);
}

static void make_delayed_overflow(struct check_case *c, struct suite_item *item)
{
    make_delayed(c, item);
    c->steps = 8;
    c->overflow_check = true;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p10, 1000, 1, 1);
    suite_poke(c, 5, 0, c->world - 1, 2, 1, INFINITY);
    suite_poke(c, 7, 0, 0, 6, 0, NAN);
}

// The norm is a different power of two in every step, so that each coefficient belongs to one gradient.
static void make_delayed_clip(struct check_case *c, struct suite_item *item)
{
    make_clip(c, item);
    c->steps = 6;
    c->delayed_update = 3;
    c->data.exponent_low = -3;
    c->data.exponent_high = 2;
    c->gradient_clipping = (c->world % 3 == 0 ? 180.0 : 60.0) / 6;
}

// Shards of several 4 KiB blocks and a partial one.
static void make_sizes(struct check_case *c, struct suite_item *item)
{
    suite_tensor(c, 3001, 0);
    suite_tensor(c, 1, 0);
    suite_tensor(c, 43, 53);
    suite_tensor(c, 2049, 0);
    c->steps = 3;
    place(c, item);
}

// Shards of many sub-groups; some sub-groups are multiples of 4 KiB blocks, some are not.
static void make_sub_groups(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    suite_tensor(c, 9001, 0);
    suite_tensor(c, 61, 97);
    c->steps = 3;
    c->sub_group = (size_t)suite_number(item, "nvme-g", 1000000);
}

const struct suite_row suite_tier[] = {
    {"off-cpu", "The optimizer is on the device, or on the host.", make_optimizer, "2:123:fb:none,cpu 3:2:b:cpu",
     "3,4:123:fb:none,cpu 2:123:h:cpu"},
    {"off-param", "Parameters and optimizer are on the device, or on the host.", make_param, "2:3:fb:none,cpu",
     "3,4:3:fb:none,cpu"},
    {"off-accumulate", "Four micro-steps with an offloaded optimizer.", make_accumulate, "2:123:fb:cpu",
     "3:123:fb:cpu 2:3:f:nvme"},
    {"off-clip", "Offloaded gradients are clipped.", make_clip, "2:123:fb:cpu", "3:123:f:cpu 2:3:f:nvme"},
    {"off-overflow", "Offloaded gradients overflow.", make_overflow, "2:123:bh:cpu", "3:123:bh:cpu 2:3:b:nvme"},
    {"delay-basic", "From step 3 on the update is one step late.", make_delayed, "2:123:b:cpu 2:123:f:cpu",
     "3,4:123:b:cpu 2:3:b:nvme"},
    {"delay-lr", "Late updates, and another learning rate in every step.", make_delayed_lr, "2:123:b:cpu",
     "3:123:fb:cpu"},
    {"delay-overflow", "Overflows while an update is pending.", make_delayed_overflow, "2:123:b:cpu 2:3:h:cpu",
     "3:123:bh:cpu"},
    {"delay-clip", "Late updates with gradients that are clipped.", make_delayed_clip, "2:123:f:cpu 2:2:b:cpu",
     "3:123:f:cpu 2:3:f:nvme"},
    {"nvme-basic", "The optimizer is on the device, or on NVMe.", make_offload, "2:3:fb:none,nvme",
     "3,4:3:fb:none,nvme"},
    {"nvme-param", "Parameters and optimizer are on the device, or on NVMe.", make_param, "2:3:fb:none,nvme",
     "3,4:3:fb:none,nvme"},
    {"nvme-sizes", "Shares of several blocks and an odd rest.", make_sizes, "2:3:fb:nvme",
     "1,3,4:3:fb:none,nvme 2:3:fb:none"},
    {"nvme-sub-groups", "One sub-group, a few, many.", make_sub_groups, "2:3:fb:nvme-g30,nvme-g100,nvme-g1000000",
     "3:3:fb:nvme-g17,nvme-g50,nvme-g1000000"},
    {0},
};
