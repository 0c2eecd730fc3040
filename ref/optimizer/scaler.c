// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/scaler.h"

#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static const double FACTOR = 2;

void scaler_open(struct scaler *scaler, const struct config_loss_scale *rules)
{
    assert(!rules->dynamic || rules->window > 0);
    *scaler = (struct scaler){
        .rules = *rules,
        .scale = rules->dynamic ? ldexp(1, (int)rules->initial_scale_power) : rules->static_scale,
        .last_overflow = -1,
        .hysteresis = rules->hysteresis,
    };
}

double scaler_scale(const struct scaler *scaler)
{
    return scaler->scale;
}

static int shrink(struct scaler *scaler)
{
    const struct config_loss_scale *rules = &scaler->rules;
    if (scaler->hysteresis > 1) {
        scaler->hysteresis--;
        return ERR_NONE;
    }
    if (scaler->scale == rules->min_scale)
        return err_set(ERR_CHECK,
                       "step %" PRId64 ": gradients overflow although the loss scale is at its minimum, %g; lower "
                       "fp16.min_loss_scale or the learning rate, or look for inf and NaN in model and data",
                       scaler->iteration + 1, scaler->scale);
    scaler->scale = fmax(scaler->scale / FACTOR, rules->min_scale);
    return ERR_NONE;
}

static void grow(struct scaler *scaler)
{
    const struct config_loss_scale *rules = &scaler->rules;
    int64_t stable = scaler->iteration - scaler->last_overflow - 1;
    bool due = stable > 0 && (uint64_t)stable % rules->window == 0;
    if (rules->consecutive_hysteresis || due)
        scaler->hysteresis = rules->hysteresis;
    if (due)
        scaler->scale *= FACTOR;
}

int scaler_update(struct scaler *scaler, bool overflow)
{
    if (scaler->rules.dynamic && overflow) {
        TRY(shrink(scaler));
        scaler->last_overflow = scaler->iteration;
    } else if (scaler->rules.dynamic) {
        grow(scaler);
    }
    scaler->iteration++;
    return ERR_NONE;
}
