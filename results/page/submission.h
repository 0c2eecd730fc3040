// SPDX-License-Identifier: Apache-2.0
// A submission: a folder with result files *.jsonl of one machine and form.json, which says what a file cannot
// (results/RULES.md). Pages of prose (*.md) may lie next to them.
#pragma once

#include "base/strict_json.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

// Texts belong to `json`; a number that the form does not give is NaN.
struct submission_form {
    char path[PATH_MAX], *text;
    struct json_text json;
    const char *operator, * interconnect, *peak_of, *peak_source, *other_programs, *differs;
    double GB_per_s_a_device, peak_TFLOP_per_s;
    bool peak_is_dense;
    const json_t *commands;
};

// Reads FOLDER/form.json. ERR_USAGE names file, line and key of what is missing or wrong. Close it, after an error too.
int submission_form_open(const char *folder, struct submission_form *out);
void submission_form_close(struct submission_form *form);

// Checks a submission; writes each violation as a line "FOLDER: RULE: WHAT" to out. ERR_CHECK: there are violations.
// ERR_USAGE: the folder cannot be read. ERR_MEMORY.
int submission_check(const char *folder, FILE *out);
