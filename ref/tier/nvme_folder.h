// SPDX-License-Identifier: Apache-2.0
// A folder that the NVMe tier uses: one unnamed file in it, opened with O_DIRECT, and which parts of it are in use.
#ifndef ZG_NVME_FOLDER_H
#define ZG_NVME_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inject;

// A part of the file that was in use and is free again.
struct nvme_hole {
    struct nvme_hole *next;
    uint64_t offset, bytes;
};

struct nvme_folder {
    char *path;
    int file;
    size_t alignment_bytes;   // of direct I/O there; 1: through the page cache
    uint64_t end;             // nothing behind it is in use
    struct nvme_hole *holes;  // by offset; none touches another
};

// ERR_USAGE where there is no such folder, or its file system has no direct I/O; ERR_IO for other refusals.
int nvme_folder_open(const char *path, bool buffered, struct nvme_folder *out);
void nvme_folder_close(struct nvme_folder *folder);

// A part of the file, with its space on the disk; on failure nothing is taken. name appears in messages.
int nvme_folder_take(struct nvme_folder *folder, struct inject *inject, const char *name, uint64_t bytes,
                     uint64_t *offset);
void nvme_folder_give(struct nvme_folder *folder, uint64_t offset, uint64_t bytes);

#endif
