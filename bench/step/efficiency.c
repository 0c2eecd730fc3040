// SPDX-License-Identifier: Apache-2.0
#include "bench/step/efficiency.h"

#include <assert.h>

// The lanes of each link; LANE_COUNT: none.
static const enum lane links[][2] = {
    {LANE_COLLECTIVE, LANE_COUNT}, {LANE_H2D, LANE_D2H}, {LANE_NVME_READ, LANE_NVME_WRITE}};
enum { LINK_COUNT = sizeof links / sizeof links[0] };

static double bytes_of(const struct efficiency_step *step, enum efficiency_state state, enum lane lane)
{
    bool is_nvme = lane == LANE_NVME_READ || lane == LANE_NVME_WRITE;
    double optimizer = is_nvme ? step->optimizer_bytes / 2 : 0;
    double activations = lane == LANE_H2D || lane == LANE_D2H ? step->activation_bytes : 0;
    if (state == OPTIMIZER_STATES)
        return optimizer;
    if (state == ACTIVATIONS)
        return activations;
    double rest = step->bytes[lane] - optimizer - activations;
    return rest > 0 ? rest : 0;
}

// Returns the seconds that a state's bytes take on a link. *bytes: their number.
static double link_time(const struct efficiency_step *step, enum efficiency_state state, int link, double *bytes)
{
    double seconds = 0;
    *bytes = 0;
    for (int i = 0; i < 2 && links[link][i] != LANE_COUNT; i++) {
        enum lane lane = links[link][i];
        double of_lane = bytes_of(step, state, lane);
        *bytes += of_lane;
        seconds += of_lane > 0 ? of_lane / step->bytes_per_s[lane] : 0;
    }
    return seconds;
}

void efficiency_predict(const struct efficiency_step *step, struct efficiency *out)
{
    assert(step->flops > 0 && step->flops_per_s > 0);
    double lost = 0;
    *out = (struct efficiency){0};
    for (int state = 0; state < EFFICIENCY_STATE_COUNT; state++) {
        double longest_s = 0, bytes;
        out->states[state].efficiency = 1;
        for (int link = 0; link < LINK_COUNT; link++) {
            double seconds = link_time(step, (enum efficiency_state)state, link, &bytes);
            if (seconds <= longest_s)
                continue;
            longest_s = seconds;
            double bytes_per_s = bytes / seconds, speed = step->flops / bytes * bytes_per_s;
            out->states[state].bytes = bytes;
            out->states[state].bytes_per_s = bytes_per_s;
            out->states[state].efficiency = speed / (speed + step->flops_per_s);
        }
        lost += 1 / out->states[state].efficiency - 1;
    }
    out->predicted = 1 / (1 + lost);
}

double efficiency_measured(const struct efficiency_step *step, double step_ms)
{
    return step->flops / step->flops_per_s / (step_ms * 1e-3);
}

json_t *efficiency_json(const struct efficiency_step *step, const struct efficiency *efficiency, double step_ms)
{
    static const char *const names[EFFICIENCY_STATE_COUNT] = {"params_and_gradients", "optimizer_states",
                                                              "activations"};
    double measured = efficiency_measured(step, step_ms);
    json_t *out = json_pack("{s:f, s:f, s:f, s:f, s:f}", "flops_a_rank", step->flops, "peak_flops_per_s",
                            step->flops_per_s, "predicted", efficiency->predicted, "measured", measured, "difference",
                            measured - efficiency->predicted);
    for (int i = 0; i < EFFICIENCY_STATE_COUNT && out; i++) {
        double bytes = efficiency->states[i].bytes;
        if (bytes > 0)
            json_object_set_new(out, names[i],
                                json_pack("{s:f, s:f, s:f, s:f}", "bytes", bytes, "bytes_per_s",
                                          efficiency->states[i].bytes_per_s, "flops_per_byte", step->flops / bytes,
                                          "efficiency", efficiency->states[i].efficiency));
    }
    return out;
}
