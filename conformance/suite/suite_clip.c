// SPDX-License-Identifier: Apache-2.0
// Cases about the norm and clipping. In each group of four elements of the mean the squares sum to 1 + 1 + 9 + 25 = 36.
// There are 100 groups, so the norm is exactly 60 grid units in any order of addition.
#include "conformance/suite/suite_build.h"

#include <math.h>

enum { FOURS_NORM = 60 };

// 400 elements in tensors whose sizes are multiples of four; gradients with this exponent.
static void make_fours(struct check_case *c, int exponent)
{
    static const size_t sizes[][2] = {{8, 12}, {52, 0}, {4, 8}, {4, 0}, {120, 0}, {6, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        suite_tensor(c, sizes[i][0], sizes[i][1]);
    c->data.same_mean = c->data.square_norm = true;
    c->data.reach = 5;
    c->data.exponent_low = c->data.exponent_high = exponent;
}

// The threshold is the norm divided by this.
static void clip(struct check_case *c, double divisor)
{
    int unit = suite_odd_part(c->world) * suite_odd_part(c->accumulation);
    c->gradient_clipping = ldexp(FOURS_NORM * unit, c->data.exponent_high) / divisor;
}

// The coefficient is 1/32 in both forms of the clip.
static void make_above(struct check_case *c, struct suite_item *item)
{
    make_fours(c, item->precision == DTYPE_FP16 ? 1 : 0);
    clip(c, 32);
}

static void make_below(struct check_case *c, struct suite_item *item)
{
    make_fours(c, item->precision == DTYPE_FP16 ? 1 : 0);
    clip(c, 0.75);
}

static void make_at(struct check_case *c, struct suite_item *item)
{
    make_fours(c, item->precision == DTYPE_FP16 ? 1 : 0);
    clip(c, 1);
}

static void make_off(struct check_case *c, struct suite_item *item)
{
    make_fours(c, item->precision == DTYPE_FP16 ? 1 : 0);
}

static void make_groups(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.02, 0.05};
    make_above(c, item);
    c->group_count = 3;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = i % 3;
    for (int i = 0; i < 3; i++) {
        suite_lr(c, i, &lr[i], 1);
        c->groups[i].lr_by_step = false;
        c->groups[i].weight_decay = 0.1 * i;
    }
}

// The norm changes by powers of two from step to step, to both sides of the threshold.
static void make_changing(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_fours(c, 0);
    c->steps = 8;
    c->data.exponent_low = -3;
    c->data.exponent_high = 2;
    clip(c, 6);
}

static void make_scaled(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_fours(c, 1);
    c->data.spread = 3;
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 256};
    clip(c, 32);
}

// Each use of a tied parameter has its own gradient; their sum must enter the norm, exactly once.
static void make_tied(struct check_case *c, struct suite_item *item)
{
    make_above(c, item);
    suite_tie(c, 0);
    suite_tie(c, 4);
}

static void make_accumulated(struct check_case *c, struct suite_item *item)
{
    make_fours(c, item->precision == DTYPE_FP16 ? 1 : 0);
    c->accumulation = 4;
    clip(c, 32);
}

// Squares and a norm above the largest fp16 number.
static void make_large(struct check_case *c, struct suite_item *item)
{
    make_fours(c, 11);
    c->data.spread = 1;
    if (item->precision == DTYPE_FP16)
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1};
    clip(c, 4096);
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
    make_changing(c, item);
    c->overflow_check = true;
    c->data.spread = 2;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p7, 1000, 1, 1);
    suite_poke(c, 3, 0, c->world - 1, 4, 7, INFINITY);
    suite_poke(c, 6, 0, 0, 0, 0, INFINITY);
}

const struct suite_row suite_clip[] = {
    {"clip-above", "The norm is 32 times the threshold.", make_above, "2:0123:fb 3:13:f 6:3:b",
     "1,3,4,5,8:0123:f 4:0123:b"},
    {"clip-below", "The norm is three quarters of the threshold.", make_below, "2:0123:fb", "3,4:0123:f"},
    {"clip-at", "The norm is the threshold.", make_at, "2:0123:f", "3,4:0123:f 2:0123:b"},
    {"clip-off", "Zero is no threshold.", make_off, "2:0123:fb", "3,4:0123:f"},
    {"clip-groups", "One norm for three groups.", make_groups, "2:0123:f", "3,4:0123:f 2:0123:b"},
    {"clip-changing", "A norm on both sides of the threshold.", make_changing, "2:0123:f", "3,4:0123:f 2:0123:b"},
    {"clip-scaled", "The norm is that of unscaled gradients.", make_scaled, "2:0123:h", "3,4:0123:h"},
    {"clip-tied", "A tied parameter enters the norm once, with its sum.", make_tied, "2:0123:f", "3,4:0123:f 2:0123:b"},
    {"clip-accumulated", "The norm is that of the mean over micro-steps.", make_accumulated, "2:0123:fb", "3,4:0123:f"},
    {"clip-large", "Squares that fp16 does not hold.", make_large, "2:0123:bh", "4:0123:h 3:0123:b"},
    {"clip-many", "The norm of many elements.", make_many, "2:0123:f", "3:13:b"},
    {"clip-overflow", "Skipped steps between clipped ones.", make_overflow, "2:0123:bh", "3,4:0123:bh"},
    {0},
};
