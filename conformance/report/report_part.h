// SPDX-License-Identifier: Apache-2.0
// What all forms of a report say alike.
#pragma once

#include "conformance/spec/verdict.h"

#include <stdio.h>

// In which order verdicts are counted: from PASS to BROKEN, UNSUPPORTED last.
extern const enum verdict report_order[VERDICT_COUNT];

// How many requirements have each verdict.
void report_counts(const struct requirement_verdict verdicts[], int count, size_t out[VERDICT_COUNT]);

// "12 PASS, 3 FAIL"; "" for none at all. Returns out.
enum { COUNTS_TEXT_BYTES = 256 };
const char *counts_text(const size_t counts[VERDICT_COUNT], char out[COUNTS_TEXT_BYTES]);

// "198 cases, 2 of them asked twice, in 3 launches, 12.2 s". Returns out.
const char *extent_text(const struct run_facts *facts, char out[COUNTS_TEXT_BYTES]);

// Why a requirement is UNSUPPORTED, or PARTLY.
const char *unsupported_text(const struct requirement_verdict *verdict);

// "case red-exact, state"; "all cases, rule". Returns out.
enum { FINDING_LOCATION_BYTES = 256 };
const char *finding_location(const struct finding *finding, char out[FINDING_LOCATION_BYTES]);

// "step 3, rank 1, micro-step 0, exp_avg of w, element 17" and "expected 0x3f800000 (1), got 0x40000000 (2),
// 8.39e+06 roundings apart; 3 of 128 elements of this step and kind differ". Return out.
enum { DIFFERENCE_TEXT_BYTES = 512 };
const char *difference_location(const struct finding *finding, char out[DIFFERENCE_TEXT_BYTES]);
const char *difference_values(const struct finding *finding, char out[DIFFERENCE_TEXT_BYTES]);

// A bit pattern as "0x3f800000", and as a number; what is an integer is exact up to 2^53.
enum { BITS_TEXT_BYTES = 24 };
const char *bits_text(int bits, uint64_t pattern, char out[BITS_TEXT_BYTES]);
double difference_number(const struct finding *finding, uint64_t pattern);

// Writes the words before facts->command in the line that repeats a finding: "zerogauge check --level quick --case NAME
// ". For twins it selects all cases of the topic; for a case given twice and for the rule, the run or its part. Returns
// out.
enum { REPEAT_TEXT_BYTES = 512 };
const char *repeat_text(const struct run_facts *facts, const struct finding *finding, char out[REPEAT_TEXT_BYTES]);

// Explains the run's verdict: "every MUST is fulfilled", or names the part that was run; then how many cases were
// answered, if not all were, and whether anything shows that states are sharded. Returns out.
enum { RUN_TEXT_BYTES = 1024 };
const char *run_text(const struct run_facts *facts, const struct findings *findings, enum run_verdict verdict,
                     char out[RUN_TEXT_BYTES]);

// How many requirements fail by the cause that a verdict is the first of; 0: it is not.
int cause_count(const struct requirement_verdict verdicts[], int count, const struct requirement_verdict *first);

// The message of the first refusal that a requirement asks for: whether it is about what was asked, people decide.
// Null: there is none.
const char *refusal_text(const struct findings *findings, const struct requirement *requirement);

// The rules by which a requirement is EQUIVALENT, each once: *at is 0 at first; null past the last.
const char *next_rule(const struct findings *findings, const struct requirement *requirement, size_t *at);
