// SPDX-License-Identifier: Apache-2.0
// Compares planned with measured step times: the steps of a result file, planned on the machine that the file measured.
#pragma once

#include <stdbool.h>
#include <stdio.h>

// Prints a row, or a line of JSON, for each measured step of the file, and the largest difference. ERR_USAGE: the file
// has no step, or lacks measurements that a machine needs.
int plan_against(const char *path, bool json, FILE *out);
