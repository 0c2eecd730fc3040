// SPDX-License-Identifier: Apache-2.0
// Folders of cases from any source: a case's own folder, or a folder with order.json, as `check --write-cases`, a
// launch and the hunt make them. Untrusted.
#pragma once

#include "conformance/hunt/hunt_case.h"

// Cases with their numbers, each case once.
struct hunt_cases {
    struct hunt_case *list;  // owned
    int count;
};

// Reads a case's folder, or all cases that the folder's order.json names, but for repetitions (NAME~2). What
// a case says of itself beyond what is to be computed (`exact`, `requirements`) is ignored. ERR_USAGE: neither is
// there, or a case is not as CONTRACT.md says, or lacks its other half.
int hunt_folder_read(const char *folder, struct hunt_cases *out);
void hunt_cases_close(struct hunt_cases *cases);  // of zeroed ones, too

// Writes the folders of the cases, or of their halves, and order.json into an empty folder.
int hunt_folder_write(const struct hunt_case list[], int count, const char *folder);
