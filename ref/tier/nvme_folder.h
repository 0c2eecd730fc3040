// SPDX-License-Identifier: Apache-2.0
// A folder of the NVMe tier: one unnamed file in it, opened with O_DIRECT, and the allocation of space in that file.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inject;

struct nvme_folder {
    char *path;
    int file;
    size_t alignment_bytes;  // of direct I/O; 1: through the page cache
    uint64_t end;            // everything beyond it is free
};

// Creates the file. ERR_USAGE: the folder does not exist or is not writable, or, unless buffered, its file system lacks
// direct I/O; ERR_IO: the system refuses for another reason.
int nvme_folder_open(const char *path, bool buffered, struct nvme_folder *out);
void nvme_folder_close(struct nvme_folder *folder);

// Takes a part of the file, with its space on the disk; takes nothing on failure. name appears in messages; inject
// (null: no faults) may make it fail. nvme_folder_give returns the part that was taken last.
int nvme_folder_take(struct nvme_folder *folder, struct inject *inject, const char *name, uint64_t bytes,
                     uint64_t *offset);
void nvme_folder_give(struct nvme_folder *folder, uint64_t offset, uint64_t bytes);
