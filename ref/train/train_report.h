// SPDX-License-Identifier: Apache-2.0
// The report of a finished run: a table for people, or one line of JSON for programs.
#pragma once

#include "ref/train/train.h"

#include <stdio.h>

// True if every check of the run passed: bits, and bytes held and moved against the formulas.
bool train_passed(const struct train_setting *setting, const struct train_result *result);

void train_print_table(const struct train_setting *setting, const struct train_result *result, FILE *out);
int train_print_json(const struct train_setting *setting, const struct train_result *result, FILE *out);

// True if every step of the run was compared with unsharded Adam and is equal.
bool train_equal(const struct train_result *result);

double train_tokens_per_s(const struct train_result *result);
uint64_t train_sum(const uint64_t *values, int count);

// "serial", "overlap", "chaos:7". Returns out.
enum { SCHEDULE_TEXT_BYTES = 32 };
const char *train_schedule_text(struct executor_schedule schedule, char out[SCHEDULE_TEXT_BYTES]);
