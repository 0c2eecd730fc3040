// SPDX-License-Identifier: Apache-2.0
// Accepted ranges: limits for results of benchmarks, each with its source. They are read from files
// (datasets/bands/README.md describes the form); those of this repository are compiled in and found by their names.
#ifndef ZG_BANDS_H
#define ZG_BANDS_H

#include "results/limits/finding.h"

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
    char bench[BENCH_FINDING_ID_BYTES];    // the name of the records
    json_t *of_case;                       // an object: records whose case has these keys with these values; owned
    bool of_ratio;                         // else of the median,
    char unit[ACCEPTED_RANGE_UNIT_BYTES];  // which is in this unit
    double at_least, at_most;              // NAN: no such limit; one of them there is
    bool full_only;                        // the quick level has no such case
    char source[ACCEPTED_RANGE_SOURCE_BYTES];
};

struct accepted_ranges {
    struct accepted_range *list;  // owned; zero is none
    size_t count, room;
};

// Adds the accepted ranges of a text, each in the place of one with the same id. `name` stands for the file in
// messages, which are "FILE:LINE: KEY: ..." (ERR_USAGE).
int accepted_ranges_parse(const char *name, const char *text, size_t bytes, struct accepted_ranges *ranges);

// The same of a file; or, where there is none and the name has no '/', of the compiled-in accepted ranges of that name.
int accepted_ranges_add(const char *name, struct accepted_ranges *ranges);
void accepted_ranges_free(struct accepted_ranges *ranges);

// A row for each set of accepted ranges that is compiled in; the last has no name.
struct accepted_range_set {
    const char *name, *text;
    size_t bytes;
};
extern const struct accepted_range_set accepted_range_sets[];

// Whether records of this name are of the benchmark (null: of none): "nvme_latency" is of "nvme".
bool bench_is_of(const char *bench, const char *name);

// The `band` record. Null: no memory.
json_t *accepted_range_json(const struct accepted_range *range);

bool accepted_range_applies(const struct accepted_range *range, const json_t *bench_record);

// Judges a record that the accepted range applies to, which is line `line` of the result file.
void accepted_range_judge(const struct accepted_range *range, const json_t *bench_record, size_t line,
                          struct bench_finding *out);

// What somebody needs to recognise a record: its name and the words, truths and whole numbers of its case. Returns out.
enum { BENCH_LABEL_BYTES = 160 };
const char *bench_label(const json_t *bench_record, char out[BENCH_LABEL_BYTES]);

// Writes a new file of accepted ranges for the medians of these records: as far from each as its own spread suggests
// (datasets/bands/README.md says how far). source says where they were measured. ERR_USAGE where the file exists.
int accepted_ranges_save(const char *path, const char *source, const json_t *const records[], size_t count);

#endif
