// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 about the ends of formats and counters, on both sides of each, in worlds in which they show.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

static const float LARGEST = 65504;  // of fp16; 65536 is the next number of its last exponent, which it lacks

// In a world of one, means are the gradients themselves. The largest scaled gradient, of either sign, and what follows
// it; a subnormal number, the largest subnormal and the smallest normal one, of the precision.
static void make_ends(struct check_case *c, struct suite_item *item)
{
    bool half = item->precision == DTYPE_FP16;
    float least = half ? 0x1p-24f : 0x1p-133f, normal = half ? 0x1p-14f : 0x1p-126f;
    const float small[] = {least, normal - least, normal};
    suite_model(c);
    c->steps = 7;
    c->groups[0].eps = half ? 1e-12 : 1e-30;
    c->overflow_check = true;
    for (int i = 0; i < 3; i++)
        for (int rank = 0; rank < c->world; rank++)
            suite_poke(c, 1, 0, rank, 5, (size_t)i, rank == 0 ? small[i] : 0);
    if (!half)
        return;
    suite_dynamic(c, 0x1p12, 1000, 1, 1);
    suite_poke(c, 2, 0, 0, 4, 20, LARGEST * 0x1p-12f);
    suite_poke(c, 3, 0, 0, 0, 0, -LARGEST * 0x1p-12f);
    suite_poke(c, 4, 0, 0, 5, 1, 65536 * 0x1p-12f);
    suite_poke(c, 5, 0, 0, 2, 3, -65536 * 0x1p-11f);
    suite_poke(c, 6, 0, 0, 4, 20, LARGEST * 0x1p-10f);
}

// As mp-range, with one thing at most: variants "plain", "clip" and "check".
static void make_range(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->data.exponent_low = 18;
    c->data.exponent_high = 50;
    c->gradient_clipping = strcmp(item->variant, "clip") == 0 ? 3.7e11 : 0;
    c->overflow_check = strcmp(item->variant, "check") == 0;
    item->own_data = true;
}

// 65504 as a sum: of equal parts of all ranks, which fp16 adds; and as the mean of ranks that each have it, where the
// sum is sent in fp32.
static void make_largest_sum(struct check_case *c, struct suite_item *item)
{
    bool mean = strcmp(item->variant, "mean") == 0;
    suite_model(c);
    suite_dynamic(c, 0x1p12, 1000, 1, 1);
    c->communication_dtype = mean ? DTYPE_FP32 : DTYPE_FP16;
    for (int rank = 0; rank < c->world; rank++)
        suite_poke(c, 2, 0, rank, 4, 20, LARGEST * 0x1p-12f / (float)(mean ? 1 : c->world));
    item->own_data = true;
}

// The smallest number of fp16 on one rank, or in one micro-step, and zero on the others: unscaled, fp16 does not hold
// the mean.
static void make_vanishing(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->groups[0].eps = 1e-12;
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1024};
    c->accumulation = suite_number(item, "a", 1);
    item->own_data = c->accumulation > 1;
    int addends = c->world * c->accumulation;
    for (int i = 0; (i + 1) * addends <= CASE_POKE_MAX; i++)
        for (int k = 0; k < addends; k++)
            suite_poke(c, 1 + i, k / c->world, k % c->world, i, 0, k == i % addends ? 0x1p-24f : 0);
}

// Variant "one": a window of one step. "edge": overflows in the last step of a window, and in the first behind it.
static void make_window(struct check_case *c, struct suite_item *item)
{
    bool one = strcmp(item->variant, "one") == 0;
    suite_model(c);
    c->steps = one ? 6 : 14;
    suite_dynamic(c, 0x1p4, one ? 1 : 3, one ? 1 : 2, 1);
    item->own_data = true;
    suite_poke(c, 4, 0, c->world - 1, 2, 9, INFINITY);
    if (one)
        return;
    suite_poke(c, 9, 0, 0, 0, 3, INFINITY);
    suite_poke(c, 13, 0, 0, 1, 3, NAN);
}

const struct suite_row suite_ends[] = {
    {"mp-ends", "Gradients on both sides of the ends of the format.", make_ends, "", "1:0123:hb", ""},
    {"mp-range-alone", "Gradients that bf16 holds and fp16 does not, in one micro-step.", make_range, "",
     "2:0:b:plain 2:3:b:clip 2:1:b:check", "1,3:0123:b:plain,clip,check"},
    {"mp-largest-sum", "Sums and means that are the largest finite number of fp16.", make_largest_sum, "",
     "2:03:h:sum 2:12:h:mean", "2:12:h:sum 2:03:h:mean 4:0123:h:sum,mean"},
    {"mp-vanishing", "Means that fp16 does not hold, of gradients that it does.", make_vanishing, "", "2:0123:h",
     "4:0123:h 1:0123:h:a2,a4 2:0123:h:a2"},
    {"mp-scale-one", "A loss scale that is halved to 1 and grows again.", NULL,
     "steps=8 dynamic=2,2,1,1 poke=2,0,-1,2,9,inf", "2:0123:h", "1,3:0123:h"},
    {"mp-window", "A window of one step; overflows around the end of a window.", make_window, "",
     "2:03:h:one 2:12:h:edge", "2:12:h:one 2:03:h:edge 3:0123:h:one,edge"},
    // The first step is skipped, before which there are no moments, and the last.
    {"mp-overflow-ends", "inf in the first step, and in the last.", NULL,
     "checked poke=1,0,-1,2,3,inf poke=4,0,0,0,34,inf", "2:02:h 2:13:b", "1,3:0123:bh 2:13:h"},
    // A checkpoint of t = 0.
    {"ckpt-skipped", "Stopped after a first step that was skipped, and continued.", NULL,
     "checked poke=1,0,-1,2,3,inf poke=4,0,0,0,34,inf checkpoint_step=1", "2:13:b", "2:02:b 2:0123:h 3:0123:f"},
    {0},
};
