// SPDX-License-Identifier: Apache-2.0
// `check --expect FILE`: which requirements an implementation is known not to meet, and why. A line each:
//     suite N                      of which suite version these are
//     expect ID VERDICT WHY        a requirement has this verdict
//     cases PATTERN WHY            a requirement that fails only in cases of this shell pattern is as expected
// and lines that are empty or begin with #. WHY is the rest of the line: a reason, and a link.
#pragma once

#include "conformance/spec/verdict.h"

#include <stdio.h>

enum expectation_state {
    EXPECTATION_UNASKED,  // the run had no such requirement, or no such case
    EXPECTATION_MET,
    EXPECTATION_NOT_MET
};

struct expectation {
    char *line;  // as the file has it
    char *name;  // an ID or a pattern; null: a line that expects nothing
    char *why;
    enum verdict verdict;  // VERDICT_COUNT: of a pattern
    enum expectation_state state;
};

struct expectations {
    int suite_version;  // 0: the file is not there
    char *path, *text;
    struct expectation *list;
    size_t count;
};

// Reads a file; one that is missing expects nothing, if it may be. Release with expectations_free, also after an error.
// ERR_USAGE: a line is none of these, or the file is missing.
int expectations_read(const char *path, bool may_be_missing, struct expectations *out);
void expectations_free(struct expectations *e);

// Compares a run's verdicts with what is expected, and prints the differences and what is as expected. Returns whether
// nothing differs: no requirement is FAIL or BROKEN that was not expected to be, what was asked has the verdict that
// was expected, and the run itself judged something and did not fail.
bool expectations_compare(struct expectations *e, const struct requirement_verdict verdicts[], int count,
                          const struct findings *findings, enum run_verdict verdict, const struct run_facts *facts,
                          FILE *out);

// After a comparison: writes the file anew, without what was not met, with a line for each verdict that was not
// expected. ERR_USAGE, ERR_IO: as file_output_open and file_output_close.
int expectations_update(const struct expectations *e, const struct requirement_verdict verdicts[], int count,
                        const struct findings *findings, int suite_version);
