// SPDX-License-Identifier: Apache-2.0
// Cases about how tensors are cut over ranks.
#include "conformance/suite/suite_build.h"

static void make_primes(struct check_case *c, struct suite_item *item)
{
    static const size_t sizes[][2] = {{2, 0}, {3, 0}, {5, 0}, {7, 0}, {11, 0}, {13, 0}, {17, 0}, {3, 67}, {101, 0}};
    (void)item;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        suite_tensor(c, sizes[i][0], sizes[i][1]);
}

static void make_small(struct check_case *c, struct suite_item *item)
{
    static const size_t sizes[] = {1, 3, 1, 2, 1, 1, 30, 2, 1};
    (void)item;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        suite_tensor(c, sizes[i], 0);
}

static void make_empty(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_tensor(c, 0, 0);
    suite_tensor(c, 9, 4);
    int scalar = suite_tensor(c, 1, 0);
    c->params[scalar].shape_rank = 0;
    suite_tensor(c, 3, 0);
    int flat = suite_tensor(c, 3, 2);
    c->params[flat].shape_rank = 3;
    c->params[flat].shape[2] = 0;
    c->params[flat].count = 0;
    suite_tensor(c, 21, 0);
    scalar = suite_tensor(c, 1, 0);
    c->params[scalar].shape_rank = 0;
    suite_tensor(c, 0, 5);
}

// Tensors of exactly one bucket, one element more, one less, and several buckets.
static void make_bucket(struct check_case *c, struct suite_item *item)
{
    static const size_t sizes[][2] = {{8, 8}, {65, 0}, {63, 0}, {12, 16}, {5, 0}, {64, 0}, {129, 0}};
    (void)item;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        suite_tensor(c, sizes[i][0], sizes[i][1]);
    c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = 64;
}

static void make_tied(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_tensor(c, 7, 5);
    suite_tensor(c, 13, 0);
    suite_tensor(c, 21, 0);
    suite_tie(c, 0);
    suite_tensor(c, 6, 11);
    suite_tie(c, 1);
    suite_tie(c, 0);
}

static void make_frozen(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->params[0].frozen = true;
    c->params[3].frozen = true;
    c->params[4].frozen = true;
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
    {"part-primes", "Sizes that no world divides.", make_primes, "2:0123:fb 3:0123:f",
     "1,4,5,6,7,8,11:0123:f 3,4,8:0123:b 2,3:0123:f:seed1,large"},
    {"part-small", "Fewer elements than ranks.", make_small, "2:0123:b 4:0123:f", "3,5,6,7,8,11:0123:f 4,8:0123:b"},
    {"part-empty", "Empty tensors and scalars.", make_empty, "2:0123:fb 3:3:f", "1,3,4,5,7,8:0123:f"},
    {"part-bucket", "Tensors of about a bucket's size, and larger.", make_bucket, "2:0123:fb 3:23:f",
     "1,3,4,5,7,8:0123:f 2:0123:f:large"},
    {"part-tied", "Two and three uses of one parameter.", make_tied, "2:0123:fb 3:13:f", "1,3,4,5,8:0123:f"},
    {"part-frozen", "Frozen parameters, with weight decay.", make_frozen, "2:0123:fb 3:13:f", "1,3,4,5,7,8:0123:f"},
    {"part-unused", "Parameters without a gradient.", make_unused, "2:0123:fb 3:13:f", "1,3,4,5,7,8:0123:f"},
    {"part-world", "One rank, and eleven.", make_world, "1,11:0123:f 1:0123:b 11:3:b", "5,6,7,8:0123:fb 11:0123:b"},
    {0},
};
