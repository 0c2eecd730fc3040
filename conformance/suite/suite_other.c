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

static void make_plain(struct check_case *c, struct suite_item *item)
{
    (void)item;
    for (int i = 0; i < 6; i++)
        suite_tensor(c, i % 2 ? 96 : 192, 0);
    c->steps = 2;
    c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = 288;
}

static void make_padded(struct check_case *c, struct suite_item *item)
{
    make_plain(c, item);
    for (int i = 0; i < c->param_count; i++)
        c->params[i].shape[0] = c->params[i].count -= i % 2 ? 7 : 1;
    suite_tensor(c, 1, 0);
    suite_tensor(c, 18, 0);
}

// Many small layers, several to a bucket.
static void make_many(struct check_case *c, struct suite_item *item)
{
    (void)item;
    for (int i = 0; i < 48; i++)
        suite_tensor(c, 8, 0);
    c->steps = 2;
    c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = 192;
}

static void refuse(struct check_case *c, const char *what)
{
    suite_model(c);
    c->steps = 2;
    c->expects_refusal = true;
    snprintf(c->note, sizeof c->note, "To be refused: %s.", what);
}

static void make_clip(struct check_case *c, struct suite_item *item)
{
    (void)item;
    refuse(c, "a norm cannot be limited to less than nothing");
    c->gradient_clipping = -1;
}

static void make_scale(struct check_case *c, struct suite_item *item)
{
    refuse(c, "a loss scale is a positive number");
    bool dynamic = strcmp(item->variant, "dynamic") == 0;
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = -128};
    if (dynamic)
        suite_dynamic(c, -128, 1000, 2, 1);
}

static void make_window(struct check_case *c, struct suite_item *item)
{
    (void)item;
    refuse(c, "the loss scale cannot grow after no steps");
    suite_dynamic(c, 0x1p8, 0, 2, 1);
}

static void make_betas(struct check_case *c, struct suite_item *item)
{
    bool negative = strcmp(item->variant, "negative") == 0;
    refuse(c, "betas are from 0 to below 1");
    c->groups[0].beta1 = negative ? -0.5 : 0.9;
    c->groups[0].beta2 = negative ? 0.999 : 1;
}

const struct suite_row suite_other[] = {
    {"det-overlap", "Collectives run beside the computation, or not.", make_overlap, "2:0123:fb:on,off",
     "3,4:123:fb:on,off"},
    {"det-world", "The same mean at every world.", make_world, "1,2,3,4,8:0123:f 11:13:f 1,2,4:13:b",
     "11:02:f 1,2,4,8:0123:b"},
    {"usage-plain", "Sizes that worlds divide.", make_plain, "2:0123:fb 4:0123:b", "3,8:0123:fb"},
    {"usage-padded", "Sizes that worlds do not divide.", make_padded, "2:0123:fb 3:0123:b", "4,5,8:0123:fb"},
    {"usage-many", "Many small layers, several to a bucket.", make_many, "2:012:b", "2,3:0123:fb"},
    {"conf-clip", "", make_clip, "2:0123:f 2:0123:b", "3:0123:h"},
    {"conf-scale", "", make_scale, "2:0123:h:static,dynamic", "3:0123:h:static"},
    {"conf-window", "", make_window, "2:0123:h", "3:0123:h"},
    {"conf-betas", "", make_betas, "2:0123:f:one,negative 2:13:b:one", "3:0123:b:negative"},
    {0},
};
