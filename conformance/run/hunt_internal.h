// SPDX-License-Identifier: Apache-2.0
// The hunt: what its parts share.
#ifndef ZG_HUNT_INTERNAL_H
#define ZG_HUNT_INTERNAL_H

#include "conformance/run/hunt_find.h"

enum { HUNT_BATCH_MAX = 128, HUNT_FIND_MAX = 64 };

// How a find looks, and whether its case failed alone.
struct hunt_known {
    struct check_failure failure;
    bool alone;
};

struct hunting {
    const struct check_hunt *hunt;
    struct check_batch batch;
    struct check_hunt_result *result;
    FILE *record;
    double end_s;
    uint64_t next;  // number to draw
    struct hunt_case cases[HUNT_BATCH_MAX];
    uint64_t numbers[HUNT_BATCH_MAX];
    struct check_failure failures[HUNT_BATCH_MAX];
    int count;
    struct hunt_known known[HUNT_FIND_MAX];
    int known_count, alone_count;
    const struct check_failure *like;  // the failure that is shrunk
    bool one_by_one;                   // candidates are judged alone
};

bool hunt_is_interrupted(const struct hunting *h);

// True if a case, of one part or two, is within the claims.
bool hunt_is_claimed(const struct hunting *h, const struct check_case parts[], int count);

// Keeps case `at` of the batch, which fails: shrinks it if it fails alone, writes it and reports it. before: a find
// that looks the same and did not fail alone, in which case this one is kept only if it does; null: there is none.
int hunt_keep(struct hunting *h, int at, struct hunt_known *before);

#endif
