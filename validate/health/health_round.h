// SPDX-License-Identifier: Apache-2.0
// One round of every operation on all cores together, and the vote on what each should have been: a core whose result
// differs from that of most cores is suspected, runs the operation again, and is named with the place of the first
// wrong element.
#pragma once

#include "validate/health/operation.h"

#include <signal.h>
#include <stddef.h>

enum { HEALTH_CORE_MAX = 1024, HEALTH_TEXT_MAX = 320 };

struct health_round_setting {
    const int *cores;  // [core_count], ascending
    size_t core_count;
    const struct health_operation *operations;
    size_t operation_count;
    const char *const *folders;  // ended by null; cores take them in turn; null: none
    uint64_t round, seed;
    const struct health_flip *flip;            // null: none
    const volatile sig_atomic_t *interrupted;  // may be null: checked between operations
};

// In place of a core: none can be named, and `text` says why; all cores of this process have the same wrong result; it
// is a GPU's, and `text` begins with its number.
enum { HEALTH_CORE_NOBODY = -1, HEALTH_CORE_ALL = -2, HEALTH_CORE_GPU = -3 };

// A wrong result.
struct health_mismatch {
    int core;  // or HEALTH_CORE_NOBODY, HEALTH_CORE_ALL, HEALTH_CORE_GPU
    int gpu;   // of this host, with HEALTH_CORE_GPU
    const struct health_operation *operation;
    uint64_t round, seed;
    size_t element;              // the first that is wrong
    size_t wrong_bytes;          // of the result
    int again_wrong, again;      // how many of the repeated runs on that core were wrong
    char text[HEALTH_TEXT_MAX];  // the operation's own error, or ""
    bool by_known;               // all cores had it, and no other machine
};

// The work of a round, by lane.
struct health_work {
    double core_seconds[HEALTH_LANE_COUNT];
    double moving_seconds[HEALTH_LANE_COUNT];  // of all cores, in which moved_bytes moved
    uint64_t moved_bytes[HEALTH_LANE_COUNT];
    uint64_t compared_bits[HEALTH_LANE_COUNT];
    uint64_t runs[HEALTH_LANE_COUNT];
};

struct health_round {
    struct health_work work;             // added to
    struct health_mismatch *mismatches;  // [mismatch_count], owned
    size_t mismatch_count;
    // Of each operation, the digest of the result that most cores agree on; "" if there is none. 32 hexadecimal digits.
    char digests[HEALTH_OPERATION_MAX][33];
    unsigned char *results;  // those results, at result_offset of vote.h; owned
};

// A wrong result is a mismatch, not an error. ERR_MEMORY, ERR_USAGE: a core cannot be used, or an operation lacked
// memory or room on a disk, which is no verdict about the machine. Free with health_round_free in every case.
int health_round(const struct health_round_setting *setting, struct health_round *out);
void health_round_free(struct health_round *round);

// ERR_USAGE: a folder lacks room for the files of a round.
int health_check_room(const struct health_round_setting *setting);

// Prints "core 3: Adam, avx2: element 812 of its result is the first of 1 wrong byte; wrong again in 10 of 10 runs".
void health_mismatch_text(const struct health_mismatch *mismatch, char *out, size_t bytes);

// Pins the calling thread. ERR_USAGE: this process may not run there.
int pin_to(int core);

// The cores that this process may run on, as the system numbers them, ascending; at most `most`. Returns their number.
size_t pin_cores(int out[], size_t most);
