// SPDX-License-Identifier: Apache-2.0
// Accepted ranges: bounds for results of benchmarks, each with its source. They are read from files
// (datasets/README.md describes the form); those of this repository are compiled in and found by their names.
#pragma once

#include "results/limits/bench_finding.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

enum {
    ACCEPTED_RANGE_MAX = 1024,
    ACCEPTED_RANGE_SOURCE_BYTES = 512,
    ACCEPTED_RANGE_UNIT_BYTES = 32,
    ACCEPTED_RANGE_CASE_KEY_MAX = 16
};

struct accepted_range {
    char id[BENCH_FINDING_ID_BYTES];
    char bench[BENCH_FINDING_ID_BYTES];    // name of the records
    json_t *of_case;                       // object, owned: matches records whose case has these keys and values
    bool of_ratio;                         // bounds the ratio; else the median
    char unit[ACCEPTED_RANGE_UNIT_BYTES];  // of the median
    double at_least, at_most;              // NAN: no such bound; at least one is given
    bool full_only;                        // the quick level does not measure this case
    char source[ACCEPTED_RANGE_SOURCE_BYTES];
};

struct accepted_ranges {
    struct accepted_range *list;  // owned; a zeroed structure is empty
    size_t count, room;
};

// Adds the accepted ranges of a text; each replaces an earlier one with the same id. `name` is the FILE of the messages
// "FILE:LINE: KEY: ..." (ERR_USAGE).
int accepted_ranges_parse(const char *name, const char *text, size_t bytes, struct accepted_ranges *ranges);

// Adds those of a file; if there is none and the name has no '/', those of the compiled-in set of that name.
int accepted_ranges_add(const char *name, struct accepted_ranges *ranges);
void accepted_ranges_free(struct accepted_ranges *ranges);

// The compiled-in sets of accepted ranges; the last row has no name.
struct accepted_range_set {
    const char *name, *text;
    size_t bytes;
};
extern const struct accepted_range_set accepted_range_sets[];

// Returns whether a record of this name belongs to the benchmark: "nvme_latency" belongs to "nvme", none to null.
bool bench_is_of(const char *bench, const char *name);

// Parts of a validation are called "bench-NAME", those that measure on a device "bench-NAME-DEVICE"; what "bench-pcie"
// measures is always on a device. Returns whether the part is one of a device.
bool part_is_of_device(const char *part);

// Returns whether the part measures what the range is about. A range that names a device is about that device only.
bool accepted_range_is_of_part(const struct accepted_range *range, const char *part);

// The `band` record. Null: no memory.
json_t *accepted_range_json(const struct accepted_range *range);

// Returns whether the record has the range's name and case.
bool accepted_range_applies(const struct accepted_range *range, const json_t *bench_record);

// Judges a record that the accepted range applies to; it is line `line` of the result file, from 1.
void accepted_range_judge(const struct accepted_range *range, const json_t *bench_record, size_t line,
                          struct bench_finding *out);

// Writes a short label for a record: its name and the strings, booleans and integers of its case, without control
// characters and cut between characters. Returns out.
enum { BENCH_LABEL_BYTES = 160 };
const char *bench_label(const json_t *bench_record, char out[BENCH_LABEL_BYTES]);

// The results of one run.
struct accepted_range_run {
    const char *level;             // "quick" or "full"
    const json_t *const *records;  // bench records
    size_t count;
};

// Writes a new file of accepted ranges around the medians of these runs, at least one, each with a tolerance that
// follows from its spread (datasets/README.md). source: where they were measured. ERR_USAGE: the file exists, or
// the runs have different levels.
int accepted_ranges_save(const char *path, const char *source, const struct accepted_range_run runs[],
                         size_t run_count);
