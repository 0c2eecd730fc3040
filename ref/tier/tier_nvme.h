// SPDX-License-Identifier: Apache-2.0
// The NVMe tier of one rank: files in one or several folders, opened with O_DIRECT and without a name, so that
// nothing is left behind however the program ends. An allocation is an address range that nobody may touch: it only
// names bytes on the disks, so that spans (executor.h) order transfers as they order copies. Reads and writes move
// whole blocks of TIER_NVME_ALIGNMENT bytes between it and memory, through libaio or io_uring.
//
// Every block has a checksum, made when it is written and compared when it is read (unless switched off); a block that
// was never written cannot be read. One thread may read while another writes; neither function is for two threads at
// once.
#ifndef ZG_TIER_NVME_H
#define ZG_TIER_NVME_H

#include "ref/tier/io.h"
#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIER_NVME_ALIGNMENT = IO_ALIGNMENT, TIER_NVME_PATH_MAX = 16 };

struct tier_nvme_setting {
    const char *const *paths;  // folders; allocations are striped over them, one block (block_bytes) each in turn
    int path_count;
    int rank;               // for messages
    uint64_t budget_bytes;  // --nvme-space, of this rank; 0: no limit
    struct nvme_aio aio;
    bool buffered;  // through the page cache, where a file system has no O_DIRECT
    bool checksum;
    bool planned;           // no files and no folders: addresses alone, and what would be held is counted
    struct inject *inject;  // faults to provoke; null: none
};

struct tier_nvme;

int tier_nvme_open(const struct tier_nvme_setting *setting, struct ledger *ledger, struct tier_nvme **out);
void tier_nvme_close(struct tier_nvme *tier);  // null-safe

// bytes on the disks, of which the last padding_bytes are padding and are counted as such; what rounding up to the
// alignment adds is counted as padding, too. The space is there when this returns. name is not copied. ERR_BUDGET,
// ERR_IO (the file system is full).
int tier_nvme_allocate(struct tier_nvme *tier, enum ledger_kind kind, const char *name, size_t bytes,
                       size_t padding_bytes, void **out);
void tier_nvme_free(struct tier_nvme *tier, void *address);  // null-safe

// from, to, memory: multiples of the alignment; so is bytes. The bytes lie in one allocation, rounded up.
// On failure the message names path, offset and allocation.
int tier_nvme_read(struct tier_nvme *tier, const void *from, void *memory, size_t bytes);
int tier_nvme_write(struct tier_nvme *tier, void *to, const void *memory, size_t bytes);

#endif
