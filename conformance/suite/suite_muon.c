// SPDX-License-Identifier: Apache-2.0
// Cases of Muon: matrices that are updated whole, and among them tensors of AdamW, one of which is a matrix, too. The
// grid is the same in all elements, so that no singular value of a gradient is lost.
#include "conformance/suite/suite_build.h"

#include <stdio.h>
#include <string.h>

enum { MATRIX_GROUP = 0, OTHER_GROUP = 1 };

static void set_groups(struct check_case *c)
{
    c->group_count = 2;
    c->groups[MATRIX_GROUP] = (struct case_group){.decoupled = true,
                                                  .muon = true,
                                                  .nesterov = true,
                                                  .bias_correction = true,
                                                  .beta1 = 0.95,
                                                  .weight_decay = 0.1,
                                                  .ns_steps = 5};
    for (int i = 0; i < CASE_STEP_MAX; i++)
        c->groups[MATRIX_GROUP].lr[i] = 0.02;
    c->data.exponent_low = c->data.exponent_high = -8;
}

// Matrices with more rows than columns, with fewer, and square; no number of ranks cuts them all between rows.
static void make_muon(struct check_case *c, struct suite_item *item)
{
    static const struct {
        size_t rows, columns;
        int group;
    } tensors[] = {{13, 0, OTHER_GROUP}, {6, 10, MATRIX_GROUP}, {12, 5, MATRIX_GROUP}, {1, 0, OTHER_GROUP},
                   {9, 4, OTHER_GROUP},  {8, 8, MATRIX_GROUP},  {5, 16, MATRIX_GROUP}};
    (void)item;
    set_groups(c);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        c->params[suite_tensor(c, tensors[i].rows, tensors[i].columns)].group = tensors[i].group;
}

// One mean at every world. Multiples of 3 divide by 3, too. Sums that bf16 holds are shorter.
static void set_mean(struct check_case *c, const struct suite_item *item, const char *twin)
{
    c->data.same_mean = true;
    c->data.unit = item->precision == DTYPE_FP32 ? 3 : 1;
    c->data.reach = 4;
    c->data.spread = item->precision == DTYPE_FP32 ? 40 : 30;
    snprintf(c->twin, sizeof c->twin, "%s.%s", twin, dtype_name(item->precision));
}

static void make_worlds(struct check_case *c, struct suite_item *item)
{
    make_muon(c, item);
    set_mean(c, item, "muon-worlds");
}

// Matrices that tensor ranks cut between columns, between rows, and not.
static void make_tensor(struct check_case *c, struct suite_item *item)
{
    static const struct {
        size_t rows, columns;
        int group, dimension;  // -1: not cut
    } tensors[] = {{8, 3, OTHER_GROUP, 0},   {7, 0, OTHER_GROUP, -1}, {6, 16, MATRIX_GROUP, 1}, {12, 0, OTHER_GROUP, 0},
                   {16, 5, MATRIX_GROUP, 0}, {5, 0, OTHER_GROUP, -1}, {9, 4, MATRIX_GROUP, -1}};
    set_groups(c);
    suite_set_mesh(c, item);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        int param = suite_tensor(c, tensors[i].rows, tensors[i].columns);
        c->params[param].group = tensors[i].group;
        if (tensors[i].dimension >= 0)
            suite_cut(c, param, tensors[i].dimension);
    }
    set_mean(c, item, "muon-tensor");
}

static void make_buckets(struct check_case *c, struct suite_item *item)
{
    make_muon(c, item);
    c->reduce_bucket = c->allgather_bucket = (size_t)suite_number(item, "b", 200);
    c->sub_group = strcmp(item->variant, "b64") == 0 ? 20 : c->sub_group;
}

static void make_offload(struct check_case *c, struct suite_item *item)
{
    make_muon(c, item);
    c->offload_optimizer = strcmp(item->variant, "nvme") == 0 ? TIER_NVME : TIER_HOST;
    c->sub_group = 20;
}

static void make_checkpoint(struct check_case *c, struct suite_item *item)
{
    make_worlds(c, item);
    c->steps = 5;
    c->checkpoint_step = 3;
    c->twin[0] = '\0';
    item->resume_world = suite_number(item, "to", c->world);
}

const struct suite_row suite_muon[] = {
    {"muon-exact", "Matrices by Muon, all else by AdamW.", make_muon, "", "2:0123:f 3:1:b", "3,4,8:0123:f 4:0123:b"},
    {"muon-rate", "Rates by step and by RMS, without Nesterov.", make_muon,
     "matches_adamw=1 nesterov=0 beta1=0.8 weight_decay=0.5 lr=0.02,0.05,0.01,0.03", "2:3:f",
     "3:0123:f 2:012:f 2:02:b"},
    {"muon-micro", "Muon and three micro-steps.", make_muon, "accumulation=3", "2:13:f", "2:02:f 4:0123:fb"},
    {"muon-clip", "Muon and a norm above the threshold.", make_muon, "gradient_clipping=0.25", "2:1:f",
     "4:0123:f 2:0123:b"},
    {"muon-overflow", "inf in a matrix that Muon updates, on the last rank.", make_muon,
     "dynamic=256,1000,1,1 poke=2,0,-1,2,7,inf", "2:1:h", "2:3:h 4:0123:h"},
    {"muon-worlds", "Matrices with one mean at every world.", make_worlds, "", "1,3:1:f", "1,2,3,4:0123:f 1,2,4:13:b"},
    {"muon-tensor", "Matrices by Muon on tensor ranks, which cut two of three.", make_tensor, "",
     "2:1:f:t2 4:3:f:s2t2,t4", "1:1:f:s1 2:02:f:t2 4:12:f:s2t2 8:123:f:s4t2,r2s2t2 4:3:b:s2t2"},
    {"muon-buckets", "Buckets and sub-groups that are smaller than matrices.", make_buckets, "", "2:2:f:b16,b1000",
     "2:0123:f:b16,b64,b1000 4:3:b:b16,b64"},
    {"muon-offload", "Momentum on another tier.", make_offload, "", "2:2:f:cpu", "2:13:f:cpu 2,4:3:fb:nvme"},
    {"muon-ckpt", "Muon, stopped and continued.", make_checkpoint, "", "2:1:f:to2", "2:0123:f:to2,to3 4:3:b:to4,to2"},
    {0},
};
