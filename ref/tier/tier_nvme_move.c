// SPDX-License-Identifier: Apache-2.0
// Reads and writes of the NVMe tier: stripes are located here, io_pool.h moves their bytes, and every block has a
// checksum.
#include "ref/tier/tier_nvme_internal.h"

#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

// A transfer between memory and an allocation, which begins at byte `base` of the allocation.
struct passage {
    const struct tier_nvme *tier;
    struct allocation *allocation;
    uint64_t base;
    unsigned char *memory;
    bool write;
};

static void locate(void *context, uint64_t at, struct io_location *out)
{
    const struct passage *passage = context;
    const struct tier_nvme *tier = passage->tier;
    const struct allocation *allocation = passage->allocation;
    uint64_t position = passage->base + at, folders = (uint64_t)tier->folder_count;
    uint64_t stripe = position / tier->stripe_bytes, within = position % tier->stripe_bytes;
    uint64_t index = ((uint64_t)allocation->first + stripe) % folders;
    const struct nvme_folder *folder = &tier->folders[index];
    *out =
        (struct io_location){.write = passage->write,
                             .file = folder->file,
                             .path = folder->path,
                             .alignment_bytes = folder->alignment_bytes,
                             .offset = allocation->offsets[index] + stripe / folders * tier->stripe_bytes + within,
                             .memory = passage->memory + at,
                             .bytes = folders == 1 ? allocation->disk_bytes - position : tier->stripe_bytes - within};
}

static int report_mismatch(const struct passage *passage, uint64_t block, uint64_t found)
{
    const struct allocation *allocation = passage->allocation;
    struct io_location where;
    locate((void *)(uintptr_t)passage, block * BLOCK_BYTES - passage->base, &where);
    return err_set(ERR_IO,
                   "%s: the 4 KiB at offset %" PRIu64 " of the file there differ from what was written: checksum "
                   "%016" PRIx64 ", expected %016" PRIx64 " (from byte %" PRIu64 ")",
                   where.path, where.offset, found, allocation->checksums[block], block * BLOCK_BYTES);
}

// Records the checksums of written blocks, compares those of blocks read.
static int finish(void *context, uint64_t at, const unsigned char *memory, size_t bytes)
{
    const struct passage *passage = context;
    struct allocation *allocation = passage->allocation;
    uint64_t first = (passage->base + at) / BLOCK_BYTES;
    for (uint64_t i = 0; i < bytes / BLOCK_BYTES; i++) {
        if (passage->write)
            allocation->written[first + i] = 1;
        if (!allocation->checksums)
            continue;
        uint64_t found = XXH3_64bits(memory + i * BLOCK_BYTES, BLOCK_BYTES);
        if (passage->write)
            allocation->checksums[first + i] = found;
        else if (allocation->checksums[first + i] != found)
            return report_mismatch(passage, first + i, found);
    }
    return ERR_NONE;
}

static struct allocation *find(struct tier_nvme *tier, uintptr_t address)
{
    pthread_mutex_lock(&tier->mutex);
    struct allocation *allocation = tier->allocations;
    while (allocation && address - (uintptr_t)allocation->address >= allocation_range_bytes(allocation))
        allocation = allocation->next;
    pthread_mutex_unlock(&tier->mutex);
    return allocation;
}

static int move(struct tier_nvme *tier, const void *address, unsigned char *memory, size_t bytes, bool write)
{
    assert(tier && !tier->planned && (memory || bytes == 0));
    struct allocation *allocation = find(tier, (uintptr_t)address);
    if (!allocation)
        return err_set(ERR_INTERNAL, "NVMe of rank %d: %p lies in no allocation", tier->rank, address);
    uint64_t base = (uintptr_t)address - (uintptr_t)allocation->address;
    if (base % BLOCK_BYTES || (uintptr_t)memory % BLOCK_BYTES || bytes % BLOCK_BYTES ||
        bytes > allocation->disk_bytes - base)
        return err_set(ERR_INTERNAL,
                       "NVMe of rank %d: %zu bytes from byte %" PRIu64 " of \"%s\" are not aligned to %d, or exceed "
                       "its %" PRIu64 " bytes",
                       tier->rank, bytes, base, allocation->name, BLOCK_BYTES, allocation->disk_bytes);
    uint8_t *written = allocation->written + base / BLOCK_BYTES;
    const uint8_t *unwritten = write || bytes == 0 ? NULL : memchr(written, 0, bytes / BLOCK_BYTES);
    if (unwritten)
        return err_set(ERR_INTERNAL, "NVMe of rank %d: byte %" PRIu64 " of \"%s\" is read before it was written",
                       tier->rank, (uint64_t)(unwritten - allocation->written) * BLOCK_BYTES, allocation->name);
    struct passage passage = {tier, allocation, base, memory, write};
    struct io_transfer transfer = {bytes, locate, finish, &passage, write ? &tier->read_count : NULL};
    tier->read_count += !write;
    int code = io_pool_transfer(write ? tier->writers : tier->readers, &transfer);
    tier->read_count -= !write;
    if (code == ERR_NONE)
        return ERR_NONE;
    if (write)
        memset(written, 0, bytes / BLOCK_BYTES);  // their contents are unknown
    err_prefix(code, "NVMe of rank %d, \"%s\"", tier->rank, allocation->name);
    return err_set(code,
                   "%s; check that disk and its free space, or give another --nvme-path, and resume from the last "
                   "checkpoint",
                   err_message());
}

int tier_nvme_read(struct tier_nvme *tier, const void *from, void *memory, size_t bytes)
{
    return move(tier, from, memory, bytes, false);
}

int tier_nvme_write(struct tier_nvme *tier, void *to, const void *memory, size_t bytes)
{
    // A write only reads the memory; requests have one pointer for both directions.
    return move(tier, to, (void *)(uintptr_t)memory, bytes, true);
}
