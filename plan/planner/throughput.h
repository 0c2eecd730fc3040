// SPDX-License-Identifier: Apache-2.0
// Published runs (datasets/throughput.json), planned: what was measured, what is predicted, and whether it fits.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { THROUGHPUT_NAME_BYTES = 96, THROUGHPUT_BEYOND_BYTES = 96 };

struct throughput_row {
    const char *file;
    char name[THROUGHPUT_NAME_BYTES];
    char beyond[THROUGHPUT_BEYOND_BYTES];  // the part of the run that cannot be planned; "": none
    bool held_out;                         // not used to fit the machines' figures
    double published, predicted;           // tokens/s of a device; predicted is 0 for a run beyond planning
    bool fits;
    uint64_t needed_bytes;  // on a device
};

typedef int throughput_visit(const struct throughput_row *row, void *context);

// Plans all rows of the files whose names start with `name` (null: all compiled-in files) or of the file at the path
// `name`, and calls visit with each. ERR_USAGE.
int throughput_each(const char *name, throughput_visit *visit, void *context);

// `zerogauge plan --throughput`: prints the rows, as a table or as JSON lines, and the errors of both halves.
int throughput_print(const char *name, bool json, FILE *out);
