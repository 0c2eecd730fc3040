// SPDX-License-Identifier: Apache-2.0
// The files of a folder of results, in the order of their names.
#pragma once

// Calls visit for each file whose name ends in a dot and one of the endings ("jsonl", "json"; separated by |), and goes
// into at most `depth` folders below. path: where the file is; name: its path below `folder`. Links to folders and
// names that begin with a dot are left out. Returns the first code that is not ERR_NONE; ERR_USAGE: a folder cannot be
// read.
int result_folder_visit(const char *folder, const char *endings, int depth,
                        int (*visit)(void *context, const char *path, const char *name), void *context);

enum { RESULT_FOLDER_DEPTH = 4 };
