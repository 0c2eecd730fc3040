// SPDX-License-Identifier: Apache-2.0
// What the suite measures of a program's processes from outside: whether they hold less memory where states are
// sharded, and what they send over TCP. No word of the program enters it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { OBSERVATION_MAX = 3, OBSERVATION_WHY_BYTES = 256, OBSERVATION_TEXT_BYTES = 384 };

// One stage compared with stage 0, the same case with as many ranks otherwise. Peaks are sums over all processes of a
// launch: of each process the most that was ever resident in it.
struct observation {
    int stage, world;
    char why[OBSERVATION_WHY_BYTES];  // why it was not measured, maybe in the program's words; "": it was
    uint64_t peak_bytes, unsharded_peak_bytes;
    uint64_t formula_saved_bytes;               // by ZeRO's formulas, of all ranks together, less than at stage 0
    bool sent_is_known;                         // the kernel counted it, for both
    uint64_t sent_bytes, unsharded_sent_bytes;  // by all processes over TCP, a lower bound
    uint64_t formula_sent_bytes, formula_unsharded_sent_bytes;
};

struct observations {
    struct observation list[OBSERVATION_MAX];
    int count;
};

// The peak bytes that the stage saves, below zero where it takes more.
int64_t observation_saved_bytes(const struct observation *observation);

// True if it was measured, and at least half of what the formulas promise is saved. The other half is for what reading
// and writing whole tensors takes.
bool observation_shows(const struct observation *observation);

// True if a stage was measured that does not show it; and true if any was measured.
bool observations_lack(const struct observations *observations);
bool observations_measured(const struct observations *observations);

// "stage 3, 4 ranks: 45.1 MiB a rank less than stage 0 (formula 48 MiB)". Returns out.
const char *observation_text(const struct observation *observation, char out[OBSERVATION_TEXT_BYTES]);

// True if at least half of the bytes were sent that ZeRO's formulas ask for. More may be: a program also sends what it
// answers, and what begins and ends a group of ranks.
bool observation_shows_exchange(const struct observation *observation);

// "stage 3, 4 ranks: 120.3 MiB a rank sent over TCP (formula 72 MiB), 75.1 MiB at stage 0 (formula 72 MiB)". Returns
// out. Not for one that was not measured.
const char *observation_sent_text(const struct observation *observation, char out[OBSERVATION_TEXT_BYTES]);

// Names the quantities that are not observed, and why.
extern const char observation_gap_text[];
