// SPDX-License-Identifier: Apache-2.0
// Cases about determinism, memory, communication volume, and invalid configurations.
#include "conformance/suite/suite_build.h"

#include <stdio.h>
#include <string.h>

// Many buckets, so that collectives run while the next gradients are computed.
static void make_overlap(struct check_case *c, struct suite_item *item)
{
    for (int i = 0; i < 16; i++)
        suite_tensor(c, i % 3 == 0 ? 60 : 45, 0);
    c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = 100;
    c->overlap = strcmp(item->variant, "on") == 0;
}

// Multiples of 33 divide exactly by all worlds of the row: 1, 2, 3, 4, 8 and 11.
static void make_world(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->steps = 3;
    c->data.same_mean = true;
    c->data.unit = item->precision == DTYPE_FP32 ? 33 : 1;
    c->data.reach = item->precision == DTYPE_FP32 ? 100 : 4;
    c->data.spread = item->precision == DTYPE_FP32 ? 50 : 12;
    snprintf(c->twin, sizeof c->twin, "det-world.%s", dtype_name(item->precision));
}

static void make_many(struct check_case *c, struct suite_item *item)
{
    (void)item;
    for (int i = 0; i < 48; i++)
        suite_tensor(c, 8, 0);
}

static void make_scale(struct check_case *c, struct suite_item *item)
{
    bool dynamic = strcmp(item->variant, "dynamic") == 0;
    suite_model(c);
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = -128};
    if (dynamic)
        suite_dynamic(c, -128, 1000, 2, 1);
}

static void make_betas(struct check_case *c, struct suite_item *item)
{
    bool negative = strcmp(item->variant, "negative") == 0;
    suite_model(c);
    c->groups[0].beta1 = negative ? -0.5 : 0.9;
    c->groups[0].beta2 = negative ? 0.999 : 1;
}

const struct suite_row suite_other[] = {
    {"det-overlap", "Collectives run beside the computation, or not.", make_overlap, "", "2:0123:fb:on,off",
     "3,4:123:fb:on,off"},
    {"det-world", "The same mean at every world.", make_world, "", "1,2,3,4,8:0123:f 11:13:f 1,2,4:13:b",
     "11:02:f 1,2,4,8:0123:b"},
    {"usage-plain", "Sizes that worlds divide.", NULL, "tensors=192,96,192,96,192,96 steps=2 buckets=288",
     "2:0123:fb 4:0123:b", "3,8:0123:fb"},
    {"usage-padded", "Sizes that worlds do not divide.", NULL, "tensors=191,89,191,89,191,89,1,18 steps=2 buckets=288",
     "2:0123:fb 3:0123:b", "4,5,8:0123:fb"},
    {"usage-many", "Many small layers, several to a bucket.", make_many, "steps=2 buckets=192", "2:012:b",
     "2,3:0123:fb"},
    {"conf-clip", "To be refused: a norm cannot be limited to less than nothing.", NULL,
     "steps=2 expects_refusal=1 gradient_clipping=-1", "2:0123:f 2:0123:b", "3:0123:h"},
    {"conf-scale", "To be refused: a loss scale is a positive number.", make_scale, "steps=2 expects_refusal=1",
     "2:0123:h:static,dynamic", "3:0123:h:static"},
    {"conf-window", "To be refused: the loss scale cannot grow after no steps.", NULL,
     "steps=2 expects_refusal=1 dynamic=256,0,2,1", "2:0123:h", "3:0123:h"},
    {"conf-betas", "To be refused: betas are from 0 to below 1.", make_betas, "steps=2 expects_refusal=1",
     "2:0123:f:one,negative 2:13:b:one", "3:0123:b:negative"},
    {0},
};
