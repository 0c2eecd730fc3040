// SPDX-License-Identifier: Apache-2.0
// The NVMe tier of one rank: files in one or several folders, opened with O_DIRECT and without a name, so that no file
// remains however the program ends. An allocation is an inaccessible address range that identifies bytes on disk, so
// that spans (executor.h) order transfers as they order copies. Reads and writes move whole blocks of
// TIER_NVME_ALIGNMENT bytes between it and memory, through libaio or io_uring.
//
// Unless switched off, every block has a checksum, computed when it is written and compared when it is read. Reading a
// block that was never written is an error. At most one thread reads and one writes, which may be at the same time.
// Then reads have priority: a write keeps a quarter of its queue in flight.
#pragma once

#include "ref/tier/io.h"
#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIER_NVME_ALIGNMENT = IO_ALIGNMENT, TIER_NVME_PATH_MAX = 16 };

struct tier_nvme_setting {
    const char *const *paths;  // folders; allocations are striped over them in units of aio.block_bytes
    int path_count;
    int rank;               // for messages
    uint64_t budget_bytes;  // --nvme-space of this rank; 0: no limit
    struct nvme_aio aio;
    bool buffered;  // through the page cache, where a file system has no O_DIRECT
    bool checksum;
    bool planned;           // reserve addresses without files or folders, for a plan that only counts
    struct inject *inject;  // null: no faults
};

struct tier_nvme;

// Opens the tier. The ledger (null: none) and the faults outlive it. ERR_USAGE or ERR_IO names the folder.
int tier_nvme_open(const struct tier_nvme_setting *setting, struct ledger *ledger, struct tier_nvme **out);
void tier_nvme_close(struct tier_nvme *tier);  // null-safe

// Allocates bytes on disk, until the tier is closed, and reserves their space there. The ledger counts the last
// padding_bytes, and the bytes that rounding up to the alignment adds, as padding. name is not copied. ERR_BUDGET;
// ERR_IO: the file system is full.
int tier_nvme_allocate(struct tier_nvme *tier, enum ledger_kind kind, const char *name, size_t bytes,
                       size_t padding_bytes, void **out);

// Move bytes between memory and one allocation, rounded up to the alignment. Addresses and sizes are multiples of
// TIER_NVME_ALIGNMENT. On failure the message names path, offset and allocation.
int tier_nvme_read(struct tier_nvme *tier, const void *from, void *memory, size_t bytes);
int tier_nvme_write(struct tier_nvme *tier, void *to, const void *memory, size_t bytes);
