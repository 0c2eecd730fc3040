// SPDX-License-Identifier: Apache-2.0
// Cases about the mean gradient over ranks and micro-steps.
#include "conformance/suite/suite_build.h"

#include <string.h>

static void make_buckets(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->reduce_bucket = c->allgather_bucket = (size_t)suite_number(item, "b", 200);
}

static void make_rounding(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->exact = false;
    c->accumulation = suite_number(item, "a", 1);
    c->data.family = FAMILY_ROUNDING;
}

// In each element only one rank's gradient is not zero: the sum does not round, so the dtype it is sent in shows.
static void make_communication(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->data.family = FAMILY_LONE;
    c->communication_dtype = DTYPE_BF16;
}

static void make_accumulated(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->accumulation = suite_number(item, "a", 3);
    item->own_data = true;
}

// Variant "one": one micro-step, whose gradient must still be widened.
static void make_trap(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    item->own_data = strcmp(item->variant, "one") == 0;
    suite_trap(c, item->own_data ? 1 : 2);
}

const struct suite_row suite_reduce[] = {
    {"red-exact", "Every rank has its own gradients; no sum rounds.", NULL, "", "2:0123:fb 3:0123:f",
     "1,4,5,6,7,8,11:0123:f 3,4,5,6,7,8:0123:b 2:0123:f:seed1,seed2,large"},
    // A rank that is missing or has the wrong weight dominates the small mean.
    {"red-cancel", "Large gradients that cancel over the ranks.", NULL, "same_mean=1", "2:0123:fb 4:13:f",
     "3,4,5,6,8,11:0123:f 4:0123:b"},
    {"red-buckets", "The same gradients in buckets of several sizes.", make_buckets, "",
     "2:0123:f:b40,b100,b100000 2:123:b:b40,b100000", "3,4:0123:f:b40,b66,b100000 2:0123:fb:b8,b12,b180"},
    {"red-rounding", "Sums over ranks round.", make_rounding, "steps=3 exponents=-12,-2",
     "3:0123:f 5:12:f 6:3:f 7:0:f 2,4:123:f 3:0123:b", "3,5,6,7:0123:fb:none,a3 4,8:0123:f:a2,large 11:0123:f"},
    {"red-odd", "Worlds of 3, 5, 6 and 7; no sum rounds.", NULL, "", "3:0123:fb 5:1:f 6:2:f 7:3:f 5:23:b",
     "5,6,7,11:0123:f 6,7:0123:b"},
    {"red-communication", "fp32 gradients are sent in bf16; one rank alone has each element.", make_communication,
     "exponents=-6,-1", "2:0123:f 4:13:f", "4,8:0123:f 2:0123:f:seed1"},
    {"acc-exact", "Three and four micro-steps.", make_accumulated, "", "2:0123:fb:a3 2:0123:f:a4 2:13:b:a4 3:12:f:a3",
     "1,3,4,5:0123:f:a2,a3,a4,a5 2:0123:f:a16"},
    // Anything left over from the step before a step of zeros is visible.
    {"acc-steps", "Micro-steps in several steps; in some of these all gradients are zero.", NULL,
     "accumulation=3 steps=5 zero_steps=3,5", "2:0123:fb", "3,4,5:0123:f"},
    {"acc-trap", "A micro-step is 256 times larger than the next.", make_trap, "", "2:0123:b 2:0123:b:one",
     "1,4:0123:b"},
    {0},
};
