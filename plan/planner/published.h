// SPDX-License-Identifier: Apache-2.0
// Published runs, planned: datasets/throughput.json with measured tokens/s, and datasets/memory.json with measured
// peaks of a device or whether a run fitted. Half of the sources, by a hash of their names, are held out: no figure of
// a machine or a framework is fitted to them. A source that says so itself ("fitted") never is.
#pragma once

#include "plan/planner/plan.h"
#include "plan/planner/plan_texts.h"

#include <stdbool.h>
#include <stdio.h>

enum { PUBLISHED_NAME_BYTES = 96, PUBLISHED_BEYOND_BYTES = 96 };

// A source's words about a run's memory: none; the peak of what its allocator gave to tensors; of what it held; of
// the device, as nvidia-smi shows it; that the run ended well; that its memory was not enough.
enum published_memory {
    MEMORY_UNKNOWN,
    MEMORY_ALLOCATED,
    MEMORY_RESERVED,
    MEMORY_DEVICE,
    MEMORY_FITTED,
    MEMORY_FAILED
};

// "allocated", "reserved", ...; "" for MEMORY_UNKNOWN.
const char *published_memory_name(enum published_memory memory);

struct published_row {
    const char *source;
    char name[PUBLISHED_NAME_BYTES];
    char beyond[PUBLISHED_BEYOND_BYTES];  // the part of the run that cannot be planned; "": none
    bool held_out;
    double tokens_per_s;  // of a device; 0: not given
    enum published_memory memory;
    double peak_gib;   // 0: only whether it fitted
    struct plan plan;  // zeros for a run beyond planning
    int world;
};

// True for the path of a file.
bool published_is_own(const char *name);

typedef int published_visit(const struct published_row *row, void *context);

// Plans all rows of the sources in `texts` whose names start with `name` (null: of all), or of the file at the path
// `name`, none of whose rows is held out; and calls visit with each. ERR_USAGE.
int published_each(const struct plan_text *texts, const char *name, published_visit *visit, void *context);

// The planned peak of a device by the measure of the row's source: what tensors hold, what an allocator reserves for
// them, or all that the device holds.
double published_predicted_gib(const struct published_row *row);

// The relative errors of the rows on one side.
enum { PUBLISHED_MAX = 2048 };
struct published_errors {
    double list[PUBLISHED_MAX];
    size_t count;
};

void published_note(struct published_errors *errors, double predicted, double published);

// "NAME: 12 runs, median error 2.5 %, 98.3 % within 25 %, largest 34.5 %"; nothing of no runs. Sorts.
void published_print_errors(struct published_errors *errors, const char *name, FILE *out);

// `zerogauge plan --throughput` and `--memory`: print the rows, as a table or as JSON lines, and the errors of both
// sides. In published_speed.c and published_memory.c.
int published_speed_print(const char *name, bool json, FILE *out);
int published_memory_print(const char *name, bool json, FILE *out);
