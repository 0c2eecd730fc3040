// SPDX-License-Identifier: Apache-2.0
// The hunt: what its parts share.
#pragma once

#include "conformance/hunt/hunt_case.h"
#include "conformance/hunt/shrink.h"
#include "conformance/run/check_batch.h"

#include <stdio.h>

struct check_hunt {
    struct check_setting setting;  // its part, source and folder are ignored
    double minutes;
    int find_max;                  // end after this many that are shrunk; 0: when the time is over
    const char *folder;            // an empty folder for what is found
    const char *work;              // an empty folder for cases and answers
    const char *const *reference;  // a command that answers right; null: it is the one that is judged
    const char *command;           // the options and the command that are judged, for a shell
    const char *upstream;          // whose script a find gets: "torch", "deepspeed"; null: neither
};

struct check_hunt_result {
    uint64_t drawn_count, judged_count;  // cases that were drawn; those that were claimed and not declined
    size_t launch_count;
    int find_count;
    double seconds;
};

enum { FIND_SIZE_BYTES = 128 };

struct hunt_find {
    int index;        // from 1
    uint64_t number;  // of the drawn case
    struct check_failure failure;
    char note[CASE_NOTE_BYTES];  // the features that were drawn
    char drawn[FIND_SIZE_BYTES], left[FIND_SIZE_BYTES];
    struct shrink_result shrinking;
    bool alone;        // false: the cases of its launch are kept, as it fails only with them
    bool right;        // the reference answers the case right
    bool right_known;  // the reference was asked
    double seconds;
};

// Writes find-INDEX with the cases, and a script for a report where the implementation is known.
int hunt_find_write(const struct check_hunt *hunt, const struct hunt_find *find, struct hunt_cases cases);

// Prints it, and adds its line to hunt.jsonl.
int hunt_find_report(const struct check_hunt *hunt, const struct hunt_find *find, FILE *record);

// The last line of hunt.jsonl.
int hunt_record_end(const struct check_hunt *hunt, const struct check_hunt_result *result, FILE *record);

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

// Keeps case `at` of the batch, which fails: shrinks it if it fails alone, writes it and reports it. before: a find
// that looks the same and did not fail alone, in which case this one is kept only if it does; null: there is none.
int hunt_keep(struct hunting *h, int at, struct hunt_known *before);

// True if a script can express the case: its numbers fit into a few lines, and the library ("torch", "deepspeed"; may
// be null) has its features. The words of the command say which mode of PyTorch it is, such as "fsdp2".
bool hunt_script_can(const struct hunt_case *h, const char *upstream, const char *const *command);

// Writes it: at most 40 lines of Python that print what differs from unsharded Adam in the same process, by more than
// roundings.
int hunt_script(const struct hunt_case *h, const char *upstream, const char *const *command,
                const struct check_failure *failure, FILE *out);

// The fewest digits that read back to the same number; a whole one keeps a point, so that it is a float.
void script_real(FILE *out, double value);

// INIT: by name. GRADS: by step, micro-step, rank, name. GROUPS: for torch.optim, with names for parameters; and LR, by
// step and group.
void script_initial(FILE *out, const struct hunt_case *h);
void script_gradients(FILE *out, const struct hunt_case *h);
void script_groups(FILE *out, const struct check_case *c);
