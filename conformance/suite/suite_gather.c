// SPDX-License-Identifier: Apache-2.0
// Cases about the parameters that forward passes use; every rank must report the values it saw.
#include "conformance/suite/suite_build.h"

#include <math.h>

static void make_steps(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    suite_tensor(c, 20, 3);
    suite_tensor(c, 50, 0);
    c->steps = 5;
    c->prefetch_bucket = c->allgather_bucket = 60;
}

static void make_micro(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    c->steps = 3;
    c->accumulation = 3;
}

static void make_tied(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_tensor(c, 7, 5);
    suite_tensor(c, 33, 0);
    suite_tensor(c, 8, 8);
    suite_tie(c, 0);
    suite_tensor(c, 13, 0);
    c->prefetch_bucket = c->allgather_bucket = 40;
}

static void make_frozen(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    c->params[1].frozen = c->params[4].frozen = c->params[6].frozen = true;
}

// Three groups, assigned to the tensors in turn.
static void make_groups(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    c->group_count = 3;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = i % 3;
    for (int i = 0; i < 3; i++)
        c->groups[i].weight_decay = 0.1 * i;
}

static void make_skip(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    c->overflow_check = true;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p10, 1000, 1, 1);
    suite_poke(c, 2, 0, c->world - 1, 3, 0, INFINITY);
    suite_poke(c, 4, 0, 0, 5, 60, NAN);
}

static void make_prefetch(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    c->prefetch_bucket = (size_t)suite_number(item, "p", 60);
}

const struct suite_row suite_gather[] = {
    {"gather-steps", "What forward uses after every update.", make_steps, "2:0123:fb 4:13:b 3:2:b",
     "1,3,4,5,7,8:0123:b 3,4:0123:h"},
    {"gather-micro", "Three forwards with the same parameters.", make_micro, "2:0123:fb", "3,4:0123:b"},
    {"gather-tied", "Both uses of a tied parameter.", make_tied, "2:0123:fb", "3,4:0123:b"},
    {"gather-frozen", "Frozen parameters between others.", make_frozen, "2:0123:b", "3,4:0123:fb"},
    {"gather-groups", "Groups that take turns.", make_groups, "2:0123:b", "3,4:0123:fb"},
    {"gather-skip", "What forward uses after a skipped step.", make_skip, "2:0123:bh", "3,4:0123:bh"},
    {"gather-prefetch", "Parameters are gathered ahead, by nothing, a little, or all.", make_prefetch,
     "2:3:fb:p0,p64,p100000 2:012:b:p0,p64", "3,4:3:fb:p0,p10,p100,p100000"},
    {0},
};
