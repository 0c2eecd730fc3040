// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of record_verify. `line` counts from 1.
#pragma once

#include "results/record/record_check.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct verify {
    const struct result_file *file;
    FILE *out;  // may be null
    size_t refusal_count;
    double elapsed_s;  // of the run; infinite where it has no end
    bool is_busy;      // other programs took more of the processors than a ranked run may lose
    // Lines by kind, so that verification time grows linearly with the file.
    size_t *ranges, range_count, *benches, bench_count, *findings, finding_count;
    size_t *first_finding, *next_finding;  // chain of finding lines: first by judged line, then by finding line; 0 ends
    size_t *found;                         // room for the lines that a search finds
};

// Files with more accepted ranges, or more results of ranks and hosts, are refused.
enum { VERIFY_RANGE_MAX = 1024, VERIFY_RANK_MAX = 16384 };

void verify_refuse(struct verify *v, size_t line, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Compares a written figure with the recomputed one, up to the digits that were not written.
bool verify_same(double written, double recomputed);

// Returns whether shorter <= longer, up to the digits that were not written.
bool verify_within(double shorter, double longer);

const json_t *verify_record(const struct verify *v, size_t line);
bool verify_is(const json_t *record, const char *name);
double verify_number(const json_t *record, const char *key);
const char *verify_text(const json_t *record, const char *key);  // null where it is none

bool verify_has_products(const struct result_file *file);
bool verify_judges(const struct verify *v);  // false for `bench --out` and `report --parts`

// The parts of the verification, each for its own kinds of record.
void verify_machine(struct verify *v);
void verify_bench(struct verify *v);
void verify_timeline(struct verify *v, size_t line, const json_t *record);  // of a `bench` record
void verify_steps(struct verify *v);
void verify_ranges(struct verify *v);
void verify_skips(struct verify *v);
void verify_health(struct verify *v);
void verify_parts(struct verify *v);
void verify_conformance(struct verify *v);
void verify_fits(struct verify *v);
void verify_run(struct verify *v);
void verify_suite(struct verify *v);
void verify_whole(struct verify *v);
void verify_cases(struct verify *v);
int verify_outliers(struct verify *v);  // ERR_MEMORY

// The only finding of this kind about this line, with this id unless id is null. If there is none, or more than one,
// refuses the line and returns null.
const json_t *verify_finding(struct verify *v, const char *kind, const char *id, size_t line);

// A quick run has at least this many samples a case: parts whose time is over end with so few.
enum { RUN_QUICK_SAMPLES = 3 };

// Refuses a finding of `validate` whose text is not the expected one; null: no finding. line: of the record that it
// judges. Runs of the suite's first version have other words for the bound.
void verify_finding_text(struct verify *v, size_t line, const json_t *finding, const char *expected);

struct run_row {
    const char *bench;    // null: the conformance suite
    size_t full_samples;  // the least of a full run
    bool between_hosts;   // only where there are several
};

// The rows in order; null past the end.
const struct run_row *run_row_at(size_t index);

// The row of a part called "arithmetic", "bench-NAME" or "bench-NAME-DEVICE"; null: validate has no such part.
const struct run_row *run_row_of(const char *part);

// True if validate passes this option to parts of a quick or a full run. In a full one, none of them changes how often
// or how long they measure.
bool run_option_is_known(const char *option, bool quick);
