// SPDX-License-Identifier: Apache-2.0
// What the parts of record_verify share. `line` counts from 1.
#ifndef ZG_VERIFY_INTERNAL_H
#define ZG_VERIFY_INTERNAL_H

#include "results/record/record_read.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct verify {
    const struct result_file *file;
    FILE *out;  // may be null
    size_t refusal_count;
    double elapsed_s;  // of the run; infinite where it has no end
    // Lines by kind, so that a large file takes no more than time that grows with its length.
    size_t *ranges, range_count, *benches, bench_count, *findings, finding_count;
    size_t *first_finding, *next_finding;  // by the line that is judged, a chain of the findings' own; 0 ends it
};

// A file with more accepted ranges, or more results that are compared among ranks or hosts, than this is refused.
enum { VERIFY_RANGE_MAX = 1024, VERIFY_RANK_MAX = 16384 };

void verify_refuse(struct verify *v, size_t line, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Whether a figure as it is written is the one that was recomputed, but for the digits that were not written.
bool verify_same(double written, double recomputed);

// Whether the longer time has room for the shorter one, as both are written.
bool verify_within(double shorter, double longer);

const json_t *verify_record(const struct verify *v, size_t line);
bool verify_is(const json_t *record, const char *name);
double verify_number(const json_t *record, const char *key);
const char *verify_text(const json_t *record, const char *key);  // null where it is none

// The parts. Each goes through the records that are its own.
void verify_bench(struct verify *v);
void verify_steps(struct verify *v);
void verify_ranges(struct verify *v);
void verify_parts(struct verify *v);
void verify_conformance(struct verify *v);
void verify_fits(struct verify *v);
int verify_outliers(struct verify *v);  // ERR_MEMORY

// The one finding of this kind about this line, and with this id unless id is null. Null, after a refusal at the line,
// if there is none or more than one.
const json_t *verify_finding(struct verify *v, const char *kind, const char *id, size_t line);

#endif
