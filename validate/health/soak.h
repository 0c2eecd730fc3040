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
    json_t *worse;                    // array, on rank 0: soak_total's of earlier runs
    struct health_counters before;
    struct health_counters most;  // of each count of errors, since then
    double earlier_seconds;       // of the runs before this one
    char host[64];
};

// Wrong results of one operation on one core, or one GPU, of a host are of one kind.
enum { SOAK_KIND_BYTES = 256 };
const char *soak_kind(const json_t *event, char out[SOAK_KIND_BYTES]);

// Adds a wrong result to this process's events; of more than 100 only the first of each kind. Returns whether it is.
bool soak_add_event(struct soak *soak, const struct health_mismatch *mismatch, const char *text);

// Adds what sensors say now to the series, which keeps every second entry when it is full, and to the most of counts.
void soak_add_sample(struct soak *soak, double seconds);

// The state of --state, which rank 0 keeps for all. Reading it when it exists sets seed, rounds and earlier seconds on
// all ranks. ERR_USAGE: it is not a state.
int soak_save(const struct soak *soak);
int soak_load(struct soak *soak);

// The sum over all ranks, on rank 0 or without a launcher.
struct soak_total {
    struct health_exposure exposure;
    size_t core_count;
    json_t *events;    // array of objects, owned
    json_t *hosts;     // array, one object for each rank: "host", "rank", "cores", "counters", "worse"; owned
    json_t *counters;  // of rank 0, in hosts
    json_t *worse;     // array of {"host", "text"}: counts of errors that grew, in earlier runs, too; owned
};

// All ranks call it; elsewhere than on rank 0 *out stays empty. Free in every case.
int soak_gather(const struct soak *soak, struct soak_total *out);
void soak_total_free(struct soak_total *total);
json_t *soak_state_json(const struct soak *soak, const struct soak_total *total);

// Prints what all ranks have seen, on rank 0. *sound: no result was wrong and no count of errors grew; set there.
int soak_report(const struct soak *soak, bool *sound);
