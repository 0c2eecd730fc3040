// SPDX-License-Identifier: Apache-2.0
// Cases about the parameters that forward passes use; every rank must report the values it saw.
#include "conformance/suite/suite_build.h"

#include <stdio.h>
#include <string.h>

static void make_steps(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    suite_tensors(c, "20x3,50");
    c->steps = 5;
    c->prefetch_bucket = c->allgather_bucket = 60;
}

// Three groups, assigned to the tensors in turn.
static void make_groups(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    suite_groups(c, 3);
    for (int i = 0; i < 3; i++)
        c->groups[i].weight_decay = 0.1 * i;
}

static void make_prefetch(struct check_case *c, struct suite_item *item)
{
    make_steps(c, item);
    c->prefetch_bucket = (size_t)suite_number(item, "p", 60);
}

// Tensors with uneven shards and, where a tensor has fewer rows or elements than ranks, empty ones; large enough that
// scales and padding are few bytes. Twins send the same parameters, in one byte an element and in four.
static void make_fp8(struct check_case *c, struct suite_item *item)
{
    suite_tensors(c, "290x5,673,1x2,190x9,131");
    c->gathers_e4m3 = strcmp(item->variant, "plain") != 0;
    snprintf(c->twin, sizeof c->twin, "fp8-gather.%d", c->world);
}

const struct suite_row suite_fp8[] = {
    {"fp8-gather", "Parameters are gathered in E4M3, with one scale of all shards, and as they are.", make_fp8, "",
     "2,4:3:f:none,plain", "3,8:3:f:none,plain"},
    {"fp8-micro", "Two forwards with parameters that are gathered in E4M3.", NULL,
     "tensors=29x5,67,1x2,19x9,13 gathers_e4m3 accumulation=2", "2:3:f", "3:3:f"},
    {"fp8-groups", "Groups that take turns, gathered in E4M3.", make_groups, "gathers_e4m3", "2:3:f", "3:3:f"},
    {0},
};

const struct suite_row suite_gather[] = {
    {"gather-steps", "What forward uses after every update.", make_steps, "", "2:0123:fb 4:13:b 3:2:b",
     "1,3,4,5,7,8:0123:b 3,4:0123:h"},
    {"gather-micro", "Three forwards with the same parameters.", make_steps, "steps=3 accumulation=3", "2:0123:fb",
     "3,4:0123:b"},
    {"gather-tied", "Both uses of a tied parameter.", NULL,
     "tensors=7x5,33,8x8 tied=0 more_tensors=13 prefetch_bucket=40 allgather_bucket=40", "2:0123:fb", "3,4:0123:b"},
    {"gather-frozen", "Frozen parameters between others.", make_steps, "frozen=1,4,6", "2:0123:b", "3,4:0123:fb"},
    {"gather-groups", "Groups that take turns.", make_groups, "", "2:0123:b", "3,4:0123:fb"},
    {"gather-skip", "What forward uses after a skipped step.", make_steps,
     "checked poke=2,0,-1,3,0,inf poke=4,0,0,5,60,nan", "2:0123:bh", "3,4:0123:bh"},
    {"gather-prefetch", "Parameters are gathered ahead, by nothing, a little, or all.", make_prefetch, "",
     "2:3:fb:p0,p64,p100000 2:012:b:p0,p64", "3,4:3:fb:p0,p10,p100,p100000"},
    {0},
};
