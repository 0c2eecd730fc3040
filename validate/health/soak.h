// SPDX-License-Identifier: Apache-2.0
// What the parts of `zerogauge soak` share.
#pragma once

#include "validate/health/exposure.h"
#include "validate/health/health_options.h"
#include "cli/info/health_counters.h"

#include <jansson.h>

struct soak {
    struct health_options common;
    double hours;
    long long seed;
    char *state;
    struct health_machine machine;
    struct health_exposure exposure;  // this process's; on rank 0 also that of earlier runs
    json_t *events;                   // array of objects; likewise
    json_t *series;                   // array: heat, power and clocks of this host over time
    struct health_counters before;
    double earlier_seconds;  // of the runs before this one
    char host[64];
};

// Adds a wrong result to this process's events.
void soak_add_event(struct soak *soak, const struct health_mismatch *mismatch, const char *text);

// Adds what sensors say now to the series, which keeps every second entry when it is full.
void soak_add_sample(struct soak *soak, double seconds);

// The state of --state, which rank 0 keeps for all. Reading it when it exists sets seed, rounds and earlier seconds on
// all ranks. ERR_USAGE: it is not a state.
int soak_save(const struct soak *soak);
int soak_load(struct soak *soak);

// Prints what all ranks have seen, on rank 0. *wrong: the wrong results, set there.
int soak_report(const struct soak *soak, uint64_t *wrong);
