// SPDX-License-Identifier: Apache-2.0
// Cases about the update of single elements: hyperparameters, tensor sizes, magnitudes.
#include "conformance/suite/suite_build.h"

static void make_basic(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->steps = 5;
}

// Large enough that the wrong kind of weight decay, or none, gives very different values.
static void make_decay(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->groups[0].weight_decay = 0.5;
    for (int i = 0; i < CASE_STEP_MAX; i++)
        c->groups[0].lr[i] = 0.1;
}

static void make_l2(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->groups[0].decoupled = false;
}

// PyTorch's lerp switches to its other formula where the weight 1 - beta1 is 1/2 or more.
static void make_betas(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->groups[0].beta1 = 0.4;
    c->groups[0].beta2 = 0.95;
}

static void make_eps(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->groups[0].eps = 0.01;
}

static void make_uncorrected(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->groups[0].bias_correction = false;
}

static void make_schedule(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0, 0.002, 0.004, 0.02, 0.001, 0.01};
    make_basic(c, item);
    c->steps = 6;
    suite_lr(c, 0, lr, 6);
}

static void make_groups(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.05, 0.002};
    static const double betas[][2] = {{0.9, 0.999}, {0.8, 0.99}, {0.95, 0.9}};
    make_basic(c, item);
    suite_tensor(c, 9, 3);
    suite_tensor(c, 5, 0);
    c->group_count = 3;
    for (int i = 0; i < 3; i++) {
        suite_lr(c, i, &lr[i], 1);
        c->groups[i].lr_by_step = false;
        c->groups[i].beta1 = betas[i][0];
        c->groups[i].beta2 = betas[i][1];
        c->groups[i].eps = i == 1 ? 1e-6 : 1e-8;
        c->groups[i].weight_decay = i == 2 ? 0 : 0.1 * (i + 1);
    }
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = i % 3;
}

// Sizes around the lane counts of all vector units, in one and two dimensions.
static void make_sizes(struct check_case *c, struct suite_item *item)
{
    static const size_t sizes[][2] = {{1, 0},  {2, 0},  {3, 0},  {7, 0},  {8, 0}, {9, 0}, {15, 0}, {16, 0}, {17, 0},
                                      {31, 0}, {32, 0}, {33, 0}, {40, 0}, {3, 5}, {8, 2}, {5, 16}, {17, 3}, {1, 7}};
    (void)item;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        suite_tensor(c, sizes[i][0], sizes[i][1]);
}

// Squares of about 2^-140 times 1 - beta2 are subnormal in fp32; eps is small enough for them to matter.
static void make_small(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->data.reach = 8;
    c->data.exponent_low = -70;
    c->data.exponent_high = -66;
    c->groups[0].eps = 1e-30;
}

static void make_long(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_tensor(c, 7, 5);
    suite_tensor(c, 13, 0);
    c->steps = 30;
}

static void make_zero(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->steps = 6;
    c->data.zero_steps = 1 << 1 | 1 << 3 | 1 << 4;
}

static void make_wide(struct check_case *c, struct suite_item *item)
{
    make_basic(c, item);
    c->data.exponent_low = -30;
    c->data.exponent_high = 20;
}

const struct suite_row suite_adam[] = {
    {"adam-basic", "AdamW with its usual hyper-parameters.", make_basic, "2:0123:fbh 4:13:f",
     "1,3,4,5,6,7,8,11:0123:f 3,4,8:0123:b 4:0123:h 2:0123:fb:seed1,seed2,large"},
    {"adam-decay", "Large weight decay and learning rate.", make_decay, "2:0123:f", "2,3:0123:b"},
    {"adam-l2", "Adam: the decay is part of the gradient.", make_l2, "2:0123:fb", "3,4:0123:f"},
    {"adam-betas", "beta1 is 0.4, beta2 0.95.", make_betas, "2:0123:f", "2,3:0123:b"},
    {"adam-eps", "eps is large: where it stands shows.", make_eps, "2:0123:fb", "3,4:0123:f"},
    {"adam-uncorrected", "No bias correction.", make_uncorrected, "2:0123:fb", "3,4:0123:f"},
    {"adam-lr", "Another learning rate in every step.", make_schedule, "2:0123:fb", "3,4:0123:f"},
    {"adam-groups", "Three groups that take turns; everything in them differs.", make_groups, "2:0123:fb",
     "3,5,8:0123:f 2:0123:f:seed1,large"},
    {"adam-sizes", "Sizes around the lanes of vector units.", make_sizes, "2:0123:fb 3:0:f",
     "1,3,4,5,6,7,8:0123:f 2:0123:f:large"},
    {"adam-small", "Second moments are subnormal.", make_small, "2:0123:f", "2,3:0123:b"},
    {"adam-long", "Thirty steps.", make_long, "2:0123:f", "2:0123:b 3:0123:f:seed1"},
    {"adam-zero", "Steps in which all gradients are zero.", make_zero, "2:0123:fb", "3,4:0123:f"},
    {"adam-wide", "Gradients from 2^-30 to 2^30.", make_wide, "2:0123:fb", "3,4:0123:f"},
    {0},
};
