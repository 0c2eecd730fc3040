// SPDX-License-Identifier: Apache-2.0
// Cases that save a checkpoint and resume from it, as NAME.save and NAME.resume; where the result must not depend on
// the interruption, also as NAME.whole, which runs without one.
#include "conformance/suite/suite_build.h"

#include <math.h>
#include <string.h>

// Variant "window": a window that begins before the checkpoint ends after it, and the scale grows. "hysteresis": one
// overflow before the checkpoint and one after it together shrink the scale.
static void make_scaler(struct check_case *c, struct suite_item *item)
{
    bool window = strcmp(item->variant, "window") == 0;
    suite_model(c);
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
    suite_model(c);
    suite_lr(c, 0, lr, 5);
    if (strcmp(item->variant, "skipped") != 0)
        return;
    c->overflow_check = item->own_data = true;
    suite_poke(c, 2, 0, c->world - 1, 2, 9, INFINITY);
}

static void make_weights(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->weights_only = true;
    if (item->precision == DTYPE_FP16) {
        suite_dynamic(c, 0x1p8, 1000, 1, 1);
        suite_poke(c, 2, 0, 0, 0, 0, INFINITY);
    }
}

// The mean does not depend on the world.
static void reshard(struct check_case *c, struct suite_item *item, int world)
{
    suite_model(c);
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
    {"ckpt-same", "Stopped after step 3, and continued.", NULL, "steps=5 checkpoint_step=3", "2:0123:fb",
     "3,4:0123:fb 2:0123:h 2:0123:f:large"},
    // Parameters that an implementation keeps gathered instead must be restored, too.
    {"ckpt-prefetch", "Stopped and continued where nothing is gathered ahead.", NULL,
     "steps=5 checkpoint_step=3 prefetch_bucket=0", "2:3:b", "3,4:3:fb"},
    {"ckpt-scaler", "The loss scale's window, or its hysteresis, begins before the checkpoint and ends after it.",
     make_scaler, "steps=8 checkpoint_step=3", "2:0123:h:window,hysteresis", "3:0123:h:window,hysteresis"},
    {"ckpt-lr", "The learning rate goes on.", make_schedule, "steps=5 checkpoint_step=3",
     "2:0123:f 2:1:b 2:03:b:skipped", "3:0123:fb 3:12:b:skipped"},
    {"ckpt-eleven", "Eleven ranks.", NULL, "more_tensors=121 steps=3 checkpoint_step=2", "11:13:f", "11:02:f"},
    {"ckpt-weights", "The weights alone go over.", make_weights, "steps=5 checkpoint_step=3", "2:0123:f 2:13:b",
     "2:0123:h 3:0123:b"},
    {"ckpt-tied", "Tied and frozen parameters.", NULL, "steps=5 checkpoint_step=3 tied=0,4 frozen=2,3", "2:0123:b",
     "2,3:0123:f"},
    {"ckpt-reshard-up", "Continued with more ranks.", make_up, "steps=5 checkpoint_step=3", "2:0123:f 2:13:b",
     "3:0123:f"},
    {"ckpt-reshard-down", "Continued with fewer ranks.", make_down, "steps=5 checkpoint_step=3", "4:0123:f 3:13:f",
     "4:0123:b"},
    {0},
};
