// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint's ranks: their bytes, their pages in the page cache, and fio with the same pattern.
#ifndef ZG_CHECKPOINT_FILES_H
#define ZG_CHECKPOINT_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct checkpoint_files {
    int count;
    uint64_t total_bytes;
    struct checkpoint_file {
        char path[PATH_MAX];
        uint64_t bytes;
    } * files;  // [count]
};

// The rank files of the newest checkpoint of a store. The caller closes *out, also after an error.
int checkpoint_files_open(const char *store, struct checkpoint_files *out);
void checkpoint_files_close(struct checkpoint_files *files);

// Removes the files' pages from the page cache. *resident_bytes: what is still in memory, as on a file system that is
// nowhere else. ERR_IO names the file.
int checkpoint_files_drop(const struct checkpoint_files *files, uint64_t *resident_bytes);

// Runs fio: a job for each file reads it from begin to end, or writes as many bytes to a new file in `folder` and syncs
// it, all jobs together, in requests as large as a checkpoint's. *bytes_per_ns: of all jobs together.
int checkpoint_files_fio_read(const struct checkpoint_files *files, double *bytes_per_ns);
int checkpoint_files_fio_write(const struct checkpoint_files *files, const char *folder, double *bytes_per_ns);

#endif
