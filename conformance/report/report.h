// SPDX-License-Identifier: Apache-2.0
// A run's findings for people and programs. Names and texts in them are untrusted: they are escaped, and
// cannot change the structure of a report. ERR_IO: a report is incomplete; the caller closes the file and checks that,
// too.
#pragma once

#include "conformance/spec/verdict.h"

#include <stdio.h>

// The verdicts belong to the requirements that were asked for, in SPEC.md's order.

// A table by chapter; below it, for each requirement that is not fulfilled, the first finding: where, which bits, a
// hint, and the command that repeats it; last the verdict. In colour where out is a terminal and NO_COLOR is not set.
int report_table(const struct run_facts *facts, const struct findings *findings,
                 const struct requirement_verdict verdicts[], int count, FILE *out);

// A line that says what to look at first: why the command failed before any case, else the cause by which most
// requirements fail. Nothing where none does.
void report_first(const struct run_facts *facts, const struct requirement_verdict verdicts[], int count, FILE *out);

// JSON lines: one "run" record, "check" records (one for each finding), "requirement" records, and one "end" record
// with the verdict. A file without "end" is of a run that did not end. schema/report.schema.json describes them.
int report_json(const struct run_facts *facts, const struct findings *findings,
                const struct requirement_verdict verdicts[], int count, FILE *out);

// JUnit XML: a test suite for each chapter, a test case for each requirement.
int report_junit(const struct run_facts *facts, const struct findings *findings,
                 const struct requirement_verdict verdicts[], int count, FILE *out);

// One self-contained HTML page.
int report_html(const struct run_facts *facts, const struct findings *findings,
                const struct requirement_verdict verdicts[], int count, FILE *out);
