// SPDX-License-Identifier: Apache-2.0
// A run's findings for people and programs.
#ifndef ZG_REPORT_H
#define ZG_REPORT_H

#include "verdict.h"

#include <stdio.h>

// A table by group; below it, for each requirement that is not fulfilled, the first finding: where, which bits, and a
// hint.
void report_table(const struct run_facts *facts, const struct requirement_verdict verdicts[], int count, FILE *out);

// JSON lines: one "run" record, "check" records (one for each finding, and one for each requirement), one "end" record
// with the verdict. A file without "end" is of a run that did not end.
void report_json(const struct run_facts *facts, const struct findings *findings,
                 const struct requirement_verdict verdicts[], int count, FILE *out);

// JUnit XML: a test suite for each group, a test case for each requirement.
void report_junit(const struct run_facts *facts, const struct requirement_verdict verdicts[], int count, FILE *out);

// One self-contained HTML page.
void report_html(const struct run_facts *facts, const struct findings *findings,
                 const struct requirement_verdict verdicts[], int count, FILE *out);

#endif
