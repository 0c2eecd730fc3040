// SPDX-License-Identifier: Apache-2.0
// What a soak has seen so far, and the rate of errors that this supports.
#pragma once

#include "validate/health/health_round.h"

#include <jansson.h>

struct health_exposure {
    uint64_t rounds;
    double seconds;
    struct health_work work;
    uint64_t events[HEALTH_LANE_COUNT];  // wrong results
};

void health_exposure_add(struct health_exposure *exposure, const struct health_round *round, double seconds);

// Adds what another rank has seen in the same rounds and seconds.
void health_exposure_join(struct health_exposure *exposure, const struct health_exposure *other);

// The upper end of the one-sided interval of that confidence (0.95) for the mean of a Poisson process that showed
// `events` events: 3.0 for none.
double health_poisson_upper(uint64_t events, double confidence);

// {"rounds", "seconds", "lanes": {"compute": {"core_seconds", "runs", "moved_bytes", "compared_bits", "wrong_results",
// "wrong_results_per_core_hour_at_most"}, ...}}. The last is null without exposure. New, or null without memory.
json_t *health_exposure_json(const struct health_exposure *exposure);

// Reads what health_exposure_json wrote. ERR_USAGE names what is missing.
int health_exposure_read(const json_t *object, struct health_exposure *out);
