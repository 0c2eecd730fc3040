// SPDX-License-Identifier: Apache-2.0
// The order in which a step asks for bundles, recorded in the first step and compared in every later one: the map of
// the operator sequence that the dynamic prefetcher goes by (ZeRO-Infinity, section 6.2). When a step asks for
// something else, the order is recorded anew from there.
#ifndef ZG_ORDER_H
#define ZG_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order {
    int *bundles;     // [count], as asked for
    size_t count, capacity;
    size_t at;        // how many this step has asked for
    bool complete;    // a whole step is recorded, and this one has kept to it
    uint64_t changes; // how often a step has left the order
};

void order_close(struct order *order);

// The step asks for a bundle.
int order_ask(struct order *order, int bundle);

// A step ends, and the next begins.
void order_restart(struct order *order);

// The bundle asked for at that place, from 0; -1: it is not known.
int order_at(const struct order *order, size_t place);

#endif
