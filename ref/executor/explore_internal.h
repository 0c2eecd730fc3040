// SPDX-License-Identifier: Apache-2.0
// The events of a log and what orders them, for the proof (explore.c) and the walk (explore_walk.c).
#pragma once

#include "ref/executor/explore.h"

// Events happen in chains, each in its own order: the operations of each lane, and what the issuing thread does. An
// operation is two events: its issue, and its run.
enum { CHAIN_ISSUER = LANE_COUNT, CHAIN_COUNT = LANE_COUNT + 1 };

// How many events of each chain have happened, or must have.
struct moment {
    uint32_t count[CHAIN_COUNT];
};

struct event {
    const struct executor_entry *entry;
    size_t place;               // its index among the events of its chain: of an operation, of its run
    struct moment after;        // that the executor makes it wait for; of a touch: none
    struct moment needed;       // by versions: earlier events that it conflicts with
    size_t owner[CHAIN_COUNT];  // by chain: the event that `needed` names
};

struct explorer {
    struct event *events;  // one for each entry of the log
    size_t count;
    size_t *runs[LANE_COUNT];  // by lane and place: the event
    size_t run_count[LANE_COUNT];
    size_t conflict_count;
};

static inline int chain_of(const struct event *event)
{
    return event->entry->kind == ENTRY_OPERATION ? (int)event->entry->lane : CHAIN_ISSUER;
}

// Writes who of two events, the first one earlier in the order of issue, meets whose version.
void explorer_tell(const struct explorer *explorer, const struct event *early, const struct event *late, char *out);
