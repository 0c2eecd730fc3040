// SPDX-License-Identifier: Apache-2.0
// The folders that commands write results to. Existing files are never touched.
#pragma once

#include <limits.h>
#include <stdbool.h>

// Creates a folder or accepts an empty one, which stays the same folder; out: its absolute path. ERR_USAGE, which names
// the option: it is not empty, or cannot be created or written to.
int check_folder_new(const char *option, const char *path, char out[PATH_MAX]);

// Creates a new folder in TMPDIR or /tmp; in_memory: in /dev/shm where there is no TMPDIR, 4 GiB are free there, and
// files can be opened past the page cache, as on a disk.
int check_folder_temporary(bool in_memory, char out[PATH_MAX]);

// Removes a folder's contents, but not itself.
void check_folder_clear(const char *path);

// Removes a folder with its contents; removes links, does not follow them.
void check_folder_remove(const char *path);
