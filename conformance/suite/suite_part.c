// SPDX-License-Identifier: Apache-2.0
// Cases about how tensors are cut over ranks.
#include "conformance/suite/suite_build.h"

static void make_empty(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_tensors(c, "0,9x4,1,3,3x2,21,1,0x5");
    c->params[2].shape_rank = c->params[6].shape_rank = 0;
    suite_empty_third(c, 4);
}

static void make_unused(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->params[1].used = false;
    c->params[3].used = false;
    c->params[5].used = false;
    suite_tensor(c, 10, 0);
}

static void make_world(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->steps = 3;
    // With one rank, only micro-steps leave something to average.
    c->accumulation = c->world == 1 ? 3 : 1;
}

const struct suite_row suite_partition[] = {
    {"part-primes", "Sizes that no world divides.", NULL, "tensors=2,3,5,7,11,13,17,3x67,101", "2:0123:fb 3:0123:f",
     "1,4,5,6,7,8,11:0123:f 3,4,8:0123:b 2,3:0123:f:seed1,large"},
    {"part-small", "Fewer elements than ranks.", NULL, "tensors=1,3,1,2,1,1,30,2,1", "2:0123:b 4:0123:f",
     "3,5,6,7,8,11:0123:f 4,8:0123:b"},
    {"part-empty", "Empty tensors and scalars.", make_empty, "", "2:0123:fb 3:3:f", "1,3,4,5,7,8:0123:f"},
    // Of exactly one bucket, one element more, one less, and several buckets.
    {"part-bucket", "Tensors of about a bucket's size, and larger.", NULL,
     "tensors=8x8,65,63,12x16,5,64,129 buckets=64", "2:0123:fb 3:23:f", "1,3,4,5,7,8:0123:f 2:0123:f:large"},
    {"part-tied", "Two and three uses of one parameter.", NULL, "tensors=7x5,13,21 tied=0 more_tensors=6x11 tied=1,0",
     "2:0123:fb 3:13:f", "1,3,4,5,8:0123:f"},
    {"part-frozen", "Frozen parameters, with weight decay.", NULL, "frozen=0,3,4", "2:0123:fb 3:13:f",
     "1,3,4,5,7,8:0123:f"},
    {"part-unused", "Parameters without a gradient.", make_unused, "", "2:0123:fb 3:13:f", "1,3,4,5,7,8:0123:f"},
    {"part-world", "One rank, and eleven.", make_world, "", "1,11:0123:f 1:0123:b 11:3:b", "5,6,7,8:0123:fb 11:0123:b"},
    {0},
};
