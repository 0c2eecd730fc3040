// SPDX-License-Identifier: Apache-2.0
// Cases that save a checkpoint and resume from it, as NAME.save and NAME.resume; where the result must not depend on
// the interruption, also as NAME.whole, which runs without one.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

static void make_same(struct check_case *c, struct suite_item *item)
{
    (void)item;
    suite_model(c);
    c->steps = 5;
    c->checkpoint_step = 3;
}

// No prefetching: parameters that an implementation keeps gathered instead must be restored, too.
static void make_prefetch(struct check_case *c, struct suite_item *item)
{
    make_same(c, item);
    c->prefetch_bucket = 0;
}

// Variant "window": a window that begins before the checkpoint ends after it, and the scale grows. "hysteresis": one
// overflow before the checkpoint and one after it together shrink the scale.
static void make_scaler(struct check_case *c, struct suite_item *item)
{
    bool window = strcmp(item->variant, "window") == 0;
    make_same(c, item);
    c->steps = 8;
    suite_dynamic(c, 0x1p8, 3, window ? 1 : 2, 1);
    suite_poke(c, 2, 0, c->world - 1, 2, 9, INFINITY);
    if (!window)
        suite_poke(c, 5, 0, 0, 0, 9, INFINITY);
    item->own_data = true;
}

// Variant "skipped": a skipped step before the checkpoint counts for the schedule but not for Adam's t.
static void make_schedule(struct check_case *c, struct suite_item *item)
{
    static const double lr[] = {0.002, 0.004, 0.008, 0.02, 0.001};
    make_same(c, item);
    suite_lr(c, 0, lr, 5);
    if (strcmp(item->variant, "skipped") != 0)
        return;
    c->overflow_check = item->own_data = true;
    suite_poke(c, 2, 0, c->world - 1, 2, 9, INFINITY);
}

static void make_eleven(struct check_case *c, struct suite_item *item)
{
    make_same(c, item);
    suite_tensor(c, 121, 0);
    c->steps = 3;
    c->checkpoint_step = 2;
}

static void make_weights(struct check_case *c, struct suite_item *item)
{
    make_same(c, item);
    c->weights_only = true;
    if (item->precision == DTYPE_FP16) {
        suite_dynamic(c, 0x1p8, 1000, 1, 1);
        suite_poke(c, 2, 0, 0, 0, 0, INFINITY);
    }
}

static void make_tied(struct check_case *c, struct suite_item *item)
{
    make_same(c, item);
    suite_tie(c, 0);
    suite_tie(c, 4);
    c->params[2].frozen = c->params[3].frozen = true;
}

// The mean does not depend on the world.
static void reshard(struct check_case *c, struct suite_item *item, int world)
{
    make_same(c, item);
    item->resume_world = world;
    c->data.same_mean = true;
    c->data.unit = c->world % 3 == 0 || world % 3 == 0 ? 3 : 1;
    c->data.spread = 6;
}

static void make_up(struct check_case *c, struct suite_item *item)
{
    reshard(c, item, item->world == 2 ? 4 : item->world + 1);
}

static void make_down(struct check_case *c, struct suite_item *item)
{
    reshard(c, item, item->world == 4 ? 2 : item->world - 1);
}

const struct suite_row suite_checkpoint[] = {
    {"ckpt-same", "Stopped after step 3, and continued.", make_same, "2:0123:fb",
     "3,4:0123:fb 2:0123:h 2:0123:f:large"},
    {"ckpt-prefetch", "Stopped and continued where nothing is gathered ahead.", make_prefetch, "2:3:b", "3,4:3:fb"},
    {"ckpt-scaler", "The loss scale's window, or its hysteresis, begins before the checkpoint and ends after it.",
     make_scaler, "2:0123:h:window,hysteresis", "3:0123:h:window,hysteresis"},
    {"ckpt-lr", "The learning rate goes on.", make_schedule, "2:0123:f 2:1:b 2:03:b:skipped",
     "3:0123:fb 3:12:b:skipped"},
    {"ckpt-eleven", "Eleven ranks.", make_eleven, "11:13:f", "11:02:f"},
    {"ckpt-weights", "The weights alone go over.", make_weights, "2:0123:f 2:13:b", "2:0123:h 3:0123:b"},
    {"ckpt-tied", "Tied and frozen parameters.", make_tied, "2:0123:b", "2,3:0123:f"},
    {"ckpt-reshard-up", "Continued with more ranks.", make_up, "2:0123:f 2:13:b", "3:0123:f"},
    {"ckpt-reshard-down", "Continued with fewer ranks.", make_down, "4:0123:f 3:13:f", "4:0123:b"},
    {0},
};
