// SPDX-License-Identifier: Apache-2.0
// Cases about the update of single elements: hyperparameters, tensor sizes, magnitudes.
#include "conformance/suite/suite_build.h"

static void make_groups(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.05, 0.002};
    static const double betas[][2] = {{0.9, 0.999}, {0.8, 0.99}, {0.95, 0.9}};
    (void)item;
    suite_model(c);
    suite_tensors(c, "9x3,5");
    suite_groups(c, 3);
    for (int i = 0; i < 3; i++) {
        suite_lr(c, i, &lr[i], 1);
        c->groups[i].lr_by_step = false;
        c->groups[i].beta1 = betas[i][0];
        c->groups[i].beta2 = betas[i][1];
        c->groups[i].eps = i == 1 ? 1e-6 : 1e-8;
        c->groups[i].weight_decay = i == 2 ? 0 : 0.1 * (i + 1);
    }
}

const struct suite_row suite_adam[] = {
    {"adam-basic", "AdamW with its usual hyper-parameters.", NULL, "steps=5", "2:0123:fbh 4:13:f",
     "1,3,4,5,6,7,8,11:0123:f 3,4,8:0123:b 4:0123:h 2:0123:fb:seed1,seed2,large"},
    // Large enough that the wrong kind of weight decay, or none, gives very different values.
    {"adam-decay", "Large weight decay and learning rate.", NULL, "steps=5 weight_decay=0.5 lr=0.1", "2:0123:f",
     "2,3:0123:b"},
    {"adam-l2", "Adam: the decay is part of the gradient.", NULL, "steps=5 decoupled=0", "2:0123:fb", "3,4:0123:f"},
    // PyTorch's lerp switches to its other formula where the weight 1 - beta1 is 1/2 or more.
    {"adam-betas", "beta1 is 0.4, beta2 0.95.", NULL, "steps=5 beta1=0.4 beta2=0.95", "2:0123:f", "2,3:0123:b"},
    {"adam-eps", "eps is large: where it stands shows.", NULL, "steps=5 eps=0.01", "2:0123:fb", "3,4:0123:f"},
    {"adam-uncorrected", "No bias correction.", NULL, "steps=5 bias_correction=0", "2:0123:fb", "3,4:0123:f"},
    {"adam-lr", "Another learning rate in every step.", NULL, "steps=6 lr=0,0.002,0.004,0.02,0.001,0.01", "2:0123:fb",
     "3,4:0123:f"},
    {"adam-groups", "Three groups that take turns; everything in them differs.", make_groups, "steps=5", "2:0123:fb",
     "3,5,8:0123:f 2:0123:f:seed1,large"},
    {"adam-sizes", "Sizes around the lanes of vector units.", NULL,
     "tensors=1,2,3,7,8,9,15,16,17,31,32,33,40,3x5,8x2,5x16,17x3,1x7", "2:0123:fb 3:0:f",
     "1,3,4,5,6,7,8:0123:f 2:0123:f:large"},
    // Squares of about 2^-140 times 1 - beta2 are subnormal in fp32; eps is small enough for them to matter.
    {"adam-small", "Second moments are subnormal.", NULL, "steps=5 reach=8 exponents=-70,-66 eps=1e-30", "2:0123:f",
     "2,3:0123:b"},
    {"adam-long", "Thirty steps.", NULL, "tensors=7x5,13 steps=30", "2:0123:f", "2:0123:b 3:0123:f:seed1"},
    {"adam-zero", "Steps in which all gradients are zero.", NULL, "steps=6 zero_steps=2,4,5", "2:0123:fb",
     "3,4:0123:f"},
    {"adam-wide", "Gradients from 2^-30 to 2^30.", NULL, "steps=5 exponents=-30,20", "2:0123:fb", "3,4:0123:f"},
    {0},
};
