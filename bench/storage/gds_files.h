// SPDX-License-Identifier: Apache-2.0
// The files of `bench gds`. cuFile refuses files without a name (O_TMPFILE) and reopens a file by its name when it is
// registered, so these have a name until then. Like unnamed files they vanish with the process.
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

// Creates the files, reserves their space and registers them with cuFile, which is open (io_cufile.h). Nothing is
// written. ERR_IO: cuFile or the file system refuses.
int gds_files_open(const char *const paths[], int count, uint64_t bytes, struct gds_files *out);
void gds_files_close(struct gds_files *files);

#endif
