// SPDX-License-Identifier: Apache-2.0
// The files of `bench gds`. cuFile refuses a file that was made without a name (O_TMPFILE), and opens a file a second
// time, by its name, when it is registered; so these have a name for that moment, and are gone with the program all the
// same.
#ifndef ZG_GDS_FILES_H
#define ZG_GDS_FILES_H

#include "ref/tier/nvme_folder.h"

#include <stdint.h>

// One of the same size in each folder, opened for direct I/O.
struct gds_files {
    int count;
    uint64_t bytes;  // of each
    struct nvme_folder *folders;
};

// cuFile is open (io_cufile.h), and has the files until they are closed. Their space is reserved and nothing written.
// ERR_IO says what cuFile, or the file system, refuses.
int gds_files_open(const char *const paths[], int count, uint64_t bytes, struct gds_files *out);
void gds_files_close(struct gds_files *files);

#endif
