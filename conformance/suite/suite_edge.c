// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 2 about the ends of formats, coefficients that round, and settings that must not matter.
#include "conformance/suite/suite_build.h"

#include <string.h>

// Any norm, three digits of a threshold: every coefficient rounds, and differs in fp32 and in double. The last is near
// the norms, which are on both sides of it.
static void make_rough(struct check_case *c, struct suite_item *item)
{
    static const double thresholds[] = {0.317, 0.0713, 0.00291, 127};
    suite_model(c);
    c->steps = 6;
    c->gradient_clipping = thresholds[suite_number(item, "c", 0)];
    item->own_data = true;
}

// In fp16 the largest finite number, 65504, is not an overflow: not as a scaled gradient, and not as the sum of it and
// zeros over ranks and micro-steps.
static void make_largest(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->accumulation = 2;
    suite_dynamic(c, 0x1p12, 1000, 1, 1);
    (void)item;
    for (int k = 0; k < c->world * c->accumulation; k++) {
        int micro = k / c->world, rank = k % c->world;
        suite_poke(c, 2, micro, rank, 4, 20, k == 0 ? 65504 * 0x1p-12f : 0);
    }
}

// Gradients that are subnormal in fp16, and below it once they are averaged: only scaled, or in fp32, they are not.
static void make_subnormal(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->groups[0].eps = 1e-12;
    if (item->precision == DTYPE_FP16) {
        c->data.reach = 3;
        c->data.exponent_low = -22;
        c->data.exponent_high = -21;
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1024};
        return;
    }
    // In bf16 and fp32: subnormal moments.
    c->groups[0].eps = 1e-30;
    c->data.reach = 3;
    c->data.exponent_low = -129;
    c->data.exponent_high = -122;
}

static void make_reshard(struct check_case *c, struct suite_item *item)
{
    item->resume_world = suite_number(item, "to", 2);
    item->own_data = true;
    c->data.same_mean = true;
    c->data.unit = suite_odd_part(c->world) > suite_odd_part(item->resume_world) ? suite_odd_part(c->world)
                                                                                 : suite_odd_part(item->resume_world);
    c->data.spread = 4;
}

// Variants "copies": gradients are not copied into one buffer; "all-reduce": they are reduced whole; "neither".
static void make_hints(struct check_case *c, struct suite_item *item)
{
    for (int i = 0; i < 12; i++)
        suite_tensor(c, i % 3 == 0 ? 23 : 40, 0);
    c->accumulation = 2;
    c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = 60;
    c->contiguous_gradients = strcmp(item->variant, "contiguous") == 0 || strcmp(item->variant, "all-reduce") == 0;
    c->reduce_scatter = strcmp(item->variant, "contiguous") == 0 || strcmp(item->variant, "copies") == 0;
}

// Parameters that some steps use and others do not: one that begins late, one that rests for two steps, one that ends
// early. Variants "micro": and such as one micro-step uses and the other does not; "clip"; "cpu".
static void make_varying(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->steps = 5;
    c->params[5].unused_in[0] = c->params[1].unused_in[1] = c->params[1].unused_in[2] = 1;
    c->params[3].unused_in[3] = c->params[3].unused_in[4] = 1;
    if (strcmp(item->variant, "cpu") == 0)
        c->offload_optimizer = TIER_HOST;
    if (strcmp(item->variant, "clip") == 0)
        c->gradient_clipping = 0.0713;
    item->own_data = c->gradient_clipping > 0 || strcmp(item->variant, "micro") == 0;
    if (strcmp(item->variant, "micro") != 0)
        return;
    c->accumulation = 2;
    c->params[1].unused_in[1] = c->params[1].unused_in[2] = 3;
    c->params[2].unused_in[1] = 1;
    c->params[4].unused_in[2] = 2;
}

const struct suite_row suite_edge[] = {
    {"clip-rough", "Coefficients that are no powers of two.", make_rough, "", "2:0123:f:c0,c1,c3 3:3:b:c2 1:0:f:c2",
     "3,4:0123:fb:c0,c1,c2,c3"},
    {"part-varying", "Parameters that some steps use and others do not.", make_varying, "",
     "2:0123:f:none,micro,clip 2:123:f:cpu 3:13:b", "1,4:0123:f:none,micro,clip 3:123:b:micro,cpu"},
    {"mp-largest", "The largest finite number of fp16.", make_largest, "", "2:0123:h", "1,3,4:0123:h"},
    {"mp-subnormal", "Gradients that are subnormal numbers.", make_subnormal, "", "2:0123:h 2:13:b 2:0:f",
     "3,4:0123:hbf"},
    // bf16 has the range of fp32: gradients far above the largest number of fp16, whose squares fp32 still holds.
    {"mp-range", "Gradients that bf16 holds and fp16 does not.", NULL,
     "accumulation=2 overflow_check=1 exponents=18,50 gradient_clipping=3.7e11", "2:0123:b", "1,3,4:0123:b"},
    {"mp-overflow-tied", "inf in either use of a tied parameter.", NULL,
     "steps=5 checked tied=0 poke=2,0,0,0,3,inf poke=4,0,-1,6,11,-inf", "2:0123:bh", "1,3,4:0123:bh"},
    // In each of the sizes the last shard is cut or empty.
    {"ckpt-uneven", "Stopped and continued with sizes that no world divides.", NULL,
     "tensors=2,5,7,11,13,1,17x3,31 steps=5 checkpoint_step=3", "3:0123:f 4:3:b", "2,4,5:0123:fb"},
    {"ckpt-reshard-uneven", "Continued at a world that divides no size.", make_reshard,
     "tensors=2,5,7,11,13,1,17x3,31 steps=5 checkpoint_step=3", "4:0123:f:to3 3:3:b:to4",
     "2,4:123:fb:to1,to3 3:123:fb:to1,to4 1:0123:f:to3"},
    {"det-hints", "Gradients are copied together or not, and reduced to their owners or whole.", make_hints, "",
     "2:0123:fb:contiguous,copies,all-reduce,neither", "3,4:0123:f:contiguous,copies,all-reduce,neither"},
    {0},
};
