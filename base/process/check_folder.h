// SPDX-License-Identifier: Apache-2.0
// The folders that `zerogauge check` writes to: what is in one already is never touched.
#ifndef ZG_CHECK_FOLDER_H
#define ZG_CHECK_FOLDER_H

#include <limits.h>

// Makes a folder, or takes an empty one; out is its whole path. ERR_USAGE, with the option that named it: it holds
// something, or cannot be made.
int check_folder_new(const char *option, const char *path, char out[PATH_MAX]);

// A new one in TMPDIR or /tmp.
int check_folder_temporary(char out[PATH_MAX]);

// With all that is in it; links are removed, not followed.
void check_folder_remove(const char *path);

#endif
