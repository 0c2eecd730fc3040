// SPDX-License-Identifier: Apache-2.0
// Cases about 16-bit formats, overflow and the loss scale.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

// Updates of a thousandth of the parameter, always with the same sign.
static void make_master(struct check_case *c, struct suite_item *item)
{
    static const double lr = 0.0005;
    (void)item;
    suite_model(c);
    c->steps = 12;
    c->data.steps_alike = true;
    suite_lr(c, 0, &lr, 1);
    c->groups[0].lr_by_step = false;
    c->groups[0].weight_decay = 0;
}

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

// Parameters begin between 2^-14 and 2^-11, normal in fp16. Updates of about 2^-14 move at least a sixth of them into
// the subnormal range, where numbers are 2^-24 apart.
static void make_tiny(struct check_case *c, struct suite_item *item)
{
    static const double lr = 0x1p-14;
    (void)item;
    suite_model(c);
    c->data.steps_alike = true;
    c->data.exponent_low = c->data.exponent_high = -8;
    c->data.init_exponent = -11;
    suite_lr(c, 0, &lr, 1);
    c->groups[0].lr_by_step = false;
    c->groups[0].weight_decay = 0;
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

static void make_static(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1024};
}

// Six steps with an overflow check, in fp16 with a dynamic loss scale.
static void make_checked(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->steps = 6;
    c->overflow_check = true;
    if (item->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p10, 1000, 1, 1);
}

static void make_overflow_first(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    suite_poke(c, 2, 0, 0, 0, 0, INFINITY);
    suite_poke(c, 5, 0, 0, 2, 17, -INFINITY);
}

static void make_overflow_last_rank(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    suite_poke(c, 2, 0, c->world - 1, 2, 3, INFINITY);
    suite_poke(c, 4, 0, c->world - 1, 4, 30, INFINITY);
}

static void make_overflow_micro(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    c->accumulation = 3;
    suite_poke(c, 2, 0, c->world - 1, 1, 5, INFINITY);
    suite_poke(c, 3, 1, 0, 5, 2, INFINITY);
    suite_poke(c, 5, 2, c->world - 1, 0, 34, INFINITY);
}

static void make_overflow_tensor(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    suite_poke(c, 2, 0, 0, 5, c->params[5].count - 1, INFINITY);
    suite_poke(c, 4, 0, c->world - 1, 0, c->params[0].count - 1, INFINITY);
    suite_poke(c, 6, 0, c->world - 1, 5, c->params[5].count - 1, -INFINITY);
}

// Skipped steps do not shift the learning rate of later ones.
static void make_lr(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.01, 0.08, 0.02, 0.05, 0.04, 0.03};
    make_overflow_first(c, item);
    suite_lr(c, 0, lr, sizeof lr / sizeof *lr);
}

static void make_nan(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    suite_poke(c, 2, 0, 0, 5, 7, NAN);
    suite_poke(c, 4, 0, c->world - 1, 0, 2, NAN);
}

// 60 x 2^12 overflows fp16.
static void make_finite(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    suite_dynamic(c, 0x1p12, 1000, 1, 1);
    suite_poke(c, 2, 0, c->world - 1, 4, 8, 60);
    suite_poke(c, 5, 0, 0, 0, 11, -60);
}

// The minimum, 3, is not a power of two: the last halving would go below it and must stop there.
static void make_shrink(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    c->steps = 7;
    suite_dynamic(c, 16, 1000, 2, 3);
    suite_poke(c, 2, 0, c->world - 1, 0, 1, INFINITY);
    suite_poke(c, 3, 0, 0, 2, 4, INFINITY);
    suite_poke(c, 4, 0, 0, 5, 0, NAN);
    suite_poke(c, 7, 0, c->world - 1, 1, 12, INFINITY);
}

// Variant "again": the scale's growth restores the hysteresis, so a second overflow is tolerated.
static void make_grow(struct check_case *c, struct suite_item *item)
{
    make_checked(c, item);
    c->steps = 9;
    suite_dynamic(c, 0x1p8, 2, 2, 1);
    suite_poke(c, 4, 0, c->world - 1, 2, 9, INFINITY);
    if (strcmp(item->variant, "again") != 0)
        return;
    item->own_data = true;
    suite_poke(c, 8, 0, 0, 0, 9, INFINITY);
}

const struct suite_row suite_precision[] = {
    {"mp-master", "Updates that a 16-bit parameter would lose.", make_master, "2:0123:bh",
     "3,4:0123:bh 2:0123:b:large"},
    {"mp-copy", "Master parameters at the ties of the 16-bit format, and beside them.", make_copy, "2:0123:bh",
     "3,4:0123:bh 2:0123:b:seed1,large"},
    {"mp-tiny", "Parameters that become subnormal in fp16.", make_tiny, "2:03:h", "2:12:h 3:13:h"},
    {"mp-fp16", "A dynamic loss scale that has no reason to change.", make_dynamic, "2:0123:h 3:23:h", "3,4,5:0123:h"},
    {"mp-static", "A static loss scale.", make_static, "2:0123:h 3:1:h", "3,4,5:0123:h"},
    {"mp-overflow-first", "inf on the first rank.", make_overflow_first, "2:0123:bh 2:13:f", "1,3,4:0123:bh"},
    {"mp-overflow-last-rank", "inf on the last rank alone.", make_overflow_last_rank, "2:0123:bh 3:13:b",
     "3,4,7:0123:bh"},
    {"mp-overflow-micro", "inf in the first, a middle, and the last micro-step.", make_overflow_micro, "2:0123:bh",
     "3,4:0123:bh"},
    {"mp-overflow-tensor", "inf in the last element of the last and of the first tensor.", make_overflow_tensor,
     "2:0123:bh", "1,3,4:0123:bh"},
    {"mp-lr", "Another learning rate in every step, and skipped steps.", make_lr, "2:03:bh", "2:12:bh 3:13:h"},
    {"mp-nan", "NaN in a gradient.", make_nan, "2:0123:bh", "3,4:0123:bh"},
    {"mp-finite", "A finite gradient that is too large once it is scaled.", make_finite, "2:0123:h", "3,4:0123:h"},
    {"mp-shrink", "Overflows in a row, down to the smallest loss scale.", make_shrink, "2:0123:h", "3,4:0123:h"},
    {"mp-grow", "The loss scale grows after two clean steps.", make_grow, "2:0123:h 2:03:h:again",
     "3,4:0123:h 2:12:h:again"},
    {0},
};
