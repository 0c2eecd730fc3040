// SPDX-License-Identifier: Apache-2.0
// Plans against measured steps: what a result file says a step took, and what is planned for it on the machine that the
// same file measured.
#ifndef ZG_PLAN_AGAINST_H
#define ZG_PLAN_AGAINST_H

#include <stdbool.h>
#include <stdio.h>

// Prints a row for each measured step of the file, or a line of JSON, and the largest difference. ERR_USAGE where the
// file has no step, or lacks what a machine needs.
int plan_against(const char *path, bool json, FILE *out);

#endif
