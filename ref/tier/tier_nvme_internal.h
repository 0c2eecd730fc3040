// SPDX-License-Identifier: Apache-2.0
// An NVMe tier and its allocations, shared by tier_nvme.c (space) and tier_nvme_move.c (transfers and checksums).
//
// Each folder has one file. An allocation of B bytes on P folders is cut into stripes of block_bytes; stripe i lies on
// folder (first + i) % P, the stripes of one folder one after the other, so that consecutive requests of a transfer go
// to different disks and each disk sees consecutive requests. Each allocation begins on the next folder, because small
// ones have fewer stripes than there are folders.
#pragma once

#include "ref/tier/tier_nvme.h"

#include "ref/tier/io_pool.h"
#include "ref/tier/nvme_folder.h"

#include <pthread.h>

enum { BLOCK_BYTES = TIER_NVME_ALIGNMENT };

struct allocation {
    struct allocation *next;
    unsigned char *address;  // of an inaccessible range, which identifies the bytes on disk
    bool planned;            // the range is not reserved
    const char *name;
    enum ledger_kind kind;
    uint64_t bytes, padding_bytes;
    uint64_t disk_bytes;  // bytes, rounded up to blocks
    int first;            // folder of stripe 0
    uint64_t offsets[TIER_NVME_PATH_MAX];
    uint64_t *checksums;  // of each block; null: not kept
    uint8_t *written;     // 1 for each block that has been written
};

struct tier_nvme {
    struct ledger *ledger;
    struct ledger own;  // replaces a null ledger, because the budget needs the counts
    int rank;
    uint64_t budget_bytes;
    bool checksum, planned;
    uintptr_t next_address;  // of a planned tier
    uint64_t stripe_bytes;
    struct inject *inject;
    struct io_pool *readers, *writers;
    atomic_int read_count;  // under way, which have priority over writes: an update waits for them
    pthread_mutex_t mutex;  // protects the fields below
    struct allocation *allocations;
    int next_folder;
    int folder_count;
    struct nvme_folder folders[TIER_NVME_PATH_MAX];
};

// The size of the address range: at least a block, so that no two allocations have the same address.
static inline size_t allocation_range_bytes(const struct allocation *allocation)
{
    return allocation->disk_bytes > 0 ? allocation->disk_bytes : BLOCK_BYTES;
}
