// SPDX-License-Identifier: Apache-2.0
// Cases about 16-bit formats, overflow and the loss scale.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

// The same gradient in every step makes every update as large as the learning rate, which is half the spacing of 16-bit
// numbers: in step 1 of those from 1 to 2, in step 2 of those from 1/2 to 1, and so on. In group 1 the larger eps keeps
// the sum just below the tie.
static void make_copy(struct check_case *c, struct suite_item *item)
{
    int places = item->precision == DTYPE_BF16 ? 8 : 11;
    suite_model(c);
    c->data.steps_alike = true;
    c->data.exponent_low = c->data.exponent_high = item->precision == DTYPE_BF16 ? -4 : -8;
    c->group_count = 2;
    c->params[2].group = c->params[5].group = 1;
    c->groups[1].eps = item->precision == DTYPE_BF16 ? 1e-4 : 1e-5;
    for (int i = 0; i < 2; i++) {
        double lr[4];
        for (int k = 0; k < 4; k++)
            lr[k] = ldexp(1, -places - k);
        suite_lr(c, i, lr, 4);
        c->groups[i].weight_decay = 0;
    }
}

// The last layer has fewer elements than there are ranks; 15 x 2^12 is just below the largest fp16 number.
static void make_dynamic(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    suite_tensor(c, 1, 0);
    suite_dynamic(c, 0x1p12, 1000, 2, 1);
    for (int rank = 0; rank < c->world; rank++)
        suite_poke(c, 3, 0, rank, 4, 20, rank == c->world - 1 ? 15 : 0);
}

// Variant "again": the scale's growth restores the hysteresis, so a second overflow is tolerated.
static void make_grow(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->steps = 9;
    suite_dynamic(c, 0x1p8, 2, 2, 1);
    suite_poke(c, 4, 0, c->world - 1, 2, 9, INFINITY);
    if (strcmp(item->variant, "again") != 0)
        return;
    item->own_data = true;
    suite_poke(c, 8, 0, 0, 0, 9, INFINITY);
}

const struct suite_row suite_precision[] = {
    // Updates of a thousandth of the parameter, always with the same sign.
    {"mp-master", "Updates that a 16-bit parameter would lose.", NULL,
     "steps=12 steps_alike=1 lr=0.0005 weight_decay=0", "2:0123:bh", "3,4:0123:bh 2:0123:b:large"},
    {"mp-copy", "Master parameters at the ties of the 16-bit format, and beside them.", make_copy, "", "2:0123:bh",
     "3,4:0123:bh 2:0123:b:seed1,large"},
    // Parameters begin between 2^-14 and 2^-11, normal in fp16. Updates of about 2^-14 move at least a sixth of them
    // into the subnormal range, where numbers are 2^-24 apart.
    {"mp-tiny", "Parameters that become subnormal in fp16.", NULL,
     "steps_alike=1 exponents=-8 init_exponent=-11 lr=0x1p-14 weight_decay=0", "2:03:h", "2:12:h 3:13:h"},
    {"mp-fp16", "A dynamic loss scale that has no reason to change.", make_dynamic, "", "2:0123:h 3:23:h",
     "3,4,5:0123:h"},
    {"mp-static", "A static loss scale.", NULL, "scale=1024", "2:0123:h 3:1:h", "3,4,5:0123:h"},
    {"mp-overflow-first", "inf on the first rank.", NULL, "steps=6 checked poke=2,0,0,0,0,inf poke=5,0,0,2,17,-inf",
     "2:0123:bh 2:13:f", "1,3,4:0123:bh"},
    {"mp-overflow-last-rank", "inf on the last rank alone.", NULL,
     "steps=6 checked poke=2,0,-1,2,3,inf poke=4,0,-1,4,30,inf", "2:0123:bh 3:13:b", "3,4,7:0123:bh"},
    {"mp-overflow-micro", "inf in the first, a middle, and the last micro-step.", NULL,
     "steps=6 accumulation=3 checked poke=2,0,-1,1,5,inf poke=3,1,0,5,2,inf poke=5,2,-1,0,34,inf", "2:0123:bh",
     "3,4:0123:bh"},
    {"mp-overflow-tensor", "inf in the last element of the last and of the first tensor.", NULL,
     "steps=6 checked poke=2,0,0,5,65,inf poke=4,0,-1,0,34,inf poke=6,0,-1,5,65,-inf", "2:0123:bh", "1,3,4:0123:bh"},
    // Skipped steps do not shift the learning rate of later ones.
    {"mp-lr", "Another learning rate in every step, and skipped steps.", NULL,
     "steps=6 checked poke=2,0,0,0,0,inf poke=5,0,0,2,17,-inf lr=0.01,0.08,0.02,0.05,0.04,0.03", "2:03:bh",
     "2:12:bh 3:13:h"},
    {"mp-nan", "NaN in a gradient.", NULL, "steps=6 checked poke=2,0,0,5,7,nan poke=4,0,-1,0,2,nan", "2:0123:bh",
     "3,4:0123:bh"},
    // 60 x 2^12 overflows fp16.
    {"mp-finite", "A finite gradient that is too large once it is scaled.", NULL,
     "steps=6 dynamic=4096,1000,1,1 poke=2,0,-1,4,8,60 poke=5,0,0,0,11,-60", "2:0123:h", "3,4:0123:h"},
    // The minimum, 3, is not a power of two: the last halving would go below it and must stop there.
    {"mp-shrink", "Overflows in a row, down to the smallest loss scale.", NULL,
     "steps=7 dynamic=16,1000,2,3 poke=2,0,-1,0,1,inf poke=3,0,0,2,4,inf poke=4,0,0,5,0,nan poke=7,0,-1,1,12,inf",
     "2:0123:h", "3,4:0123:h"},
    {"mp-grow", "The loss scale grows after two clean steps.", make_grow, "", "2:0123:h 2:03:h:again",
     "3,4:0123:h 2:12:h:again"},
    {0},
};
