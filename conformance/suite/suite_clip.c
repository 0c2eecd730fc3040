// SPDX-License-Identifier: Apache-2.0
// Cases about the norm and clipping. In each group of four elements of the mean the squares sum to 1 + 1 + 9 + 25 = 36.
// There are 100 groups, so the norm is exactly 60 grid units in any order of addition.
#include "conformance/suite/suite_build.h"

#include <math.h>

static void make_groups(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.02, 0.05};
    suite_fours(c, item);
    suite_groups(c, 3);
    for (int i = 0; i < 3; i++) {
        suite_lr(c, i, &lr[i], 1);
        c->groups[i].lr_by_step = false;
        c->groups[i].weight_decay = 0.1 * i;
    }
}

// Squares and a norm above the largest fp16 number.
static void make_large(struct check_case *c, struct suite_item *item)
{
    suite_fours(c, item);
    if (item->precision == DTYPE_FP16)
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1};
}

// 6400 groups of four: enough squares to overflow narrow accumulators. All are in one bucket, so that messages are
// large, too.
static void make_many(struct check_case *c, struct suite_item *item)
{
    enum { MANY_NORM = 480 };
    (void)item;
    suite_tensor(c, 160, 160);
    c->steps = 2;
    c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = 160 * 160;
    c->data.same_mean = c->data.square_norm = true;
    c->data.reach = 5;
    c->gradient_clipping = MANY_NORM * suite_odd_part(c->world) / 32.0;
}

static void make_overflow(struct check_case *c, struct suite_item *item)
{
    suite_fours(c, item);
    c->overflow_check = true;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p7, 1000, 1, 1);
    suite_poke(c, 3, 0, c->world - 1, 4, 7, INFINITY);
    suite_poke(c, 6, 0, 0, 0, 0, INFINITY);
}

const struct suite_row suite_clip[] = {
    // The coefficient is 1/32 in both forms of the clip.
    {"clip-above", "The norm is 32 times the threshold.", suite_fours, "clip=32", "2:0123:fb 3:13:f 6:3:b",
     "1,3,4,5,8:0123:f 4:0123:b"},
    {"clip-below", "The norm is three quarters of the threshold.", suite_fours, "clip=0.75", "2:0123:fb", "3,4:0123:f"},
    {"clip-at", "The norm is the threshold.", suite_fours, "clip=1", "2:0123:f", "3,4:0123:f 2:0123:b"},
    {"clip-off", "Zero is no threshold.", suite_fours, "", "2:0123:fb", "3,4:0123:f"},
    {"clip-groups", "One norm for three groups.", make_groups, "clip=32", "2:0123:f", "3,4:0123:f 2:0123:b"},
    // The norm changes by powers of two from step to step, to both sides of the threshold.
    {"clip-changing", "A norm on both sides of the threshold.", suite_fours, "steps=8 exponents=-3,2 clip=6",
     "2:0123:f", "3,4:0123:f 2:0123:b"},
    {"clip-scaled", "The norm is that of unscaled gradients.", suite_fours, "spread=3 scale=256 clip=32", "2:0123:h",
     "3,4:0123:h"},
    // Each use of a tied parameter has its own gradient; their sum must enter the norm, exactly once.
    {"clip-tied", "A tied parameter enters the norm once, with its sum.", suite_fours, "clip=32 tied=0,4", "2:0123:f",
     "3,4:0123:f 2:0123:b"},
    {"clip-accumulated", "The norm is that of the mean over micro-steps.", suite_fours, "accumulation=4 clip=32",
     "2:0123:fb", "3,4:0123:f"},
    {"clip-large", "Squares that fp16 does not hold.", make_large, "exponents=11 spread=1 clip=4096", "2:0123:bh",
     "4:0123:h 3:0123:b"},
    {"clip-many", "The norm of many elements.", make_many, "", "2:0123:f", "3:13:b"},
    {"clip-overflow", "Skipped steps between clipped ones.", make_overflow, "steps=8 exponents=-3,2 spread=2 clip=6",
     "2:0123:bh", "3,4:0123:bh"},
    {0},
};
