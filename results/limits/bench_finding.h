// SPDX-License-Identifier: Apache-2.0
// Findings of `zerogauge validate`. Each is one `finding` record of the result file (results/RECORDS.md); together they
// decide its verdict.
#pragma once

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

// A bench record and its line.
struct result_line {
    size_t line;  // in the result file, from 1
    json_t *record;
};

// In ascending order of precedence: one INVALID makes the run INVALID, else one INCOMPLETE makes it INCOMPLETE.
enum finding_verdict { FINDING_VALID, FINDING_INCOMPLETE, FINDING_INVALID };

enum { BENCH_FINDING_ID_BYTES = 64, BENCH_FINDING_TEXT_BYTES = 512 };

struct bench_finding {
    const char *kind;  // "arithmetic", "band", "health", "outlier", "part"; not copied
    enum finding_verdict verdict;
    char id[BENCH_FINDING_ID_BYTES];
    size_t line;                          // of the judged record, from 1; 0: none
    double value;                         // that was compared with a bound; NAN: none
    char text[BENCH_FINDING_TEXT_BYTES];  // a complete sentence for people
};

struct bench_findings {
    struct bench_finding *list;  // owned; a zeroed structure is empty
    size_t count, room;
};

const char *finding_verdict_name(enum finding_verdict verdict);

// Appends a copy of the finding. ERR_MEMORY.
int bench_findings_add(struct bench_findings *findings, const struct bench_finding *finding);
void bench_findings_free(struct bench_findings *findings);

enum finding_verdict bench_findings_verdict(const struct bench_findings *findings);

// The `finding` record, and an array of all of them. Null: no memory.
json_t *bench_finding_json(const struct bench_finding *finding);
json_t *bench_findings_json(const struct bench_findings *findings);
