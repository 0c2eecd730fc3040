// SPDX-License-Identifier: Apache-2.0
// The NVMe tier: where allocations lie in the files, and what their blocks' checksums are. Moving bytes is io.h's part.
//
// Each folder has one file. An allocation of B bytes on P folders is cut into stripes of block_bytes; stripe i lies on
// folder (first + i) % P, the stripes of one folder one after the other, so that consecutive requests of a transfer go
// to different disks and each disk sees consecutive ones. `first` moves on with every allocation, as small ones have
// fewer stripes than there are folders.
#include "ref/tier/tier_nvme.h"

#include "base/err.h"
#include "ref/tier/nvme_folder.h"
#include "base/size.h"
#include "ref/tier/tier.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

enum { BLOCK_BYTES = TIER_NVME_ALIGNMENT };

struct allocation {
    struct allocation *next;
    unsigned char *address;  // of a range that nobody may touch
    bool planned;            // the range is not even reserved
    const char *name;
    enum ledger_kind kind;
    uint64_t bytes, padding_bytes;
    uint64_t disk_bytes;  // bytes, rounded up to blocks
    int first;            // the folder of stripe 0
    uint64_t offsets[TIER_NVME_PATH_MAX];
    uint64_t *checksums;  // of each block; null: none are kept
    uint8_t *written;     // whether a block has been
};

struct tier_nvme {
    struct ledger *ledger;
    struct ledger own;  // stands in for a null ledger, so that the budget holds all the same
    int rank;
    uint64_t budget_bytes;
    bool checksum, planned;
    uintptr_t next_address;  // of a planned tier
    uint64_t stripe_bytes;
    struct inject *inject;
    struct io_pool *readers, *writers;
    pthread_mutex_t mutex;  // of what follows
    struct allocation *allocations;
    int next_folder;
    int folder_count;
    struct nvme_folder folders[TIER_NVME_PATH_MAX];
};

int tier_nvme_open(const struct tier_nvme_setting *setting, struct ledger *ledger, struct tier_nvme **out)
{
    if (!setting->planned && (setting->path_count < 1 || setting->path_count > TIER_NVME_PATH_MAX))
        return err_set(ERR_USAGE, "NVMe: %d folders are given; from 1 to %d with --nvme-path or nvme_path",
                       setting->path_count, TIER_NVME_PATH_MAX);
    struct tier_nvme *tier = calloc(1, sizeof *tier);
    if (!tier)
        return err_set(ERR_MEMORY, "NVMe: no memory for its bookkeeping");
    tier->ledger = ledger ? ledger : &tier->own;
    tier->rank = setting->rank;
    tier->budget_bytes = setting->budget_bytes;
    tier->checksum = setting->checksum && !setting->planned;
    tier->planned = setting->planned;
    tier->next_address = TIER_PLANNED_ADDRESS + TIER_PLANNED_BYTES;
    tier->stripe_bytes = setting->aio.block_bytes;
    tier->inject = setting->inject;
    pthread_mutex_init(&tier->mutex, NULL);
    *out = tier;
    if (setting->planned)
        return ERR_NONE;
    const struct io_engine *engine = io_engine_of(setting->aio.engine);
    int code = io_pool_open(engine, &setting->aio, setting->inject, &tier->readers);
    if (code == ERR_NONE)
        code = io_pool_open(engine, &setting->aio, setting->inject, &tier->writers);
    while (code == ERR_NONE && tier->folder_count < setting->path_count) {
        code =
            nvme_folder_open(setting->paths[tier->folder_count], setting->buffered, &tier->folders[tier->folder_count]);
        if (code == ERR_NONE)
            tier->folder_count++;
    }
    if (code != ERR_NONE) {
        tier_nvme_close(tier);
        *out = NULL;
        return err_prefix(code, "NVMe of rank %d", setting->rank);
    }
    return ERR_NONE;
}

static int refuse(const struct tier_nvme *tier, const char *name, uint64_t bytes, uint64_t held_bytes)
{
    char wanted[SIZE_TEXT_BYTES], budget[SIZE_TEXT_BYTES], held[SIZE_TEXT_BYTES], missing[SIZE_TEXT_BYTES];
    char kinds[LEDGER_HELD_TEXT_BYTES];
    return err_set(ERR_BUDGET,
                   "NVMe of rank %d: %s for \"%s\" does not fit: %s budget, %s held%s, %s short; raise --nvme-space, "
                   "or use more ranks",
                   tier->rank, size_short_text(bytes, wanted), name, size_short_text(tier->budget_bytes, budget),
                   size_short_text(held_bytes, held), ledger_held_text(tier->ledger, TIER_NVME, kinds),
                   size_short_text(bytes + held_bytes - tier->budget_bytes, missing));
}

// How many of the allocation's bytes lie on one of `count` folders.
static uint64_t folder_bytes(const struct allocation *allocation, int folder, int count, uint64_t stripe_bytes)
{
    uint64_t turn = (uint64_t)((folder - allocation->first + count) % count), folders = (uint64_t)count;
    uint64_t whole = allocation->disk_bytes / stripe_bytes;
    uint64_t stripes = whole > turn ? (whole - turn + folders - 1) / folders : 0;
    return stripes * stripe_bytes + (whole % folders == turn ? allocation->disk_bytes % stripe_bytes : 0);
}

// Gives back what the first `count` folders hold of it.
static void give_space(struct tier_nvme *tier, const struct allocation *allocation, int count)
{
    for (int i = 0; i < count; i++)
        nvme_folder_give(&tier->folders[i], allocation->offsets[i],
                         folder_bytes(allocation, i, tier->folder_count, tier->stripe_bytes));
}

static int take_space(struct tier_nvme *tier, struct allocation *allocation)
{
    for (int i = 0; i < tier->folder_count; i++) {
        int code = nvme_folder_take(&tier->folders[i], tier->inject, allocation->name,
                                    folder_bytes(allocation, i, tier->folder_count, tier->stripe_bytes),
                                    &allocation->offsets[i]);
        if (code != ERR_NONE) {
            give_space(tier, allocation, i);
            return err_prefix(code, "NVMe of rank %d", tier->rank);
        }
    }
    return ERR_NONE;
}

// The address range, of at least a page, so that no two allocations have the same address.
static size_t range_bytes(const struct allocation *allocation)
{
    return allocation->disk_bytes > 0 ? allocation->disk_bytes : BLOCK_BYTES;
}

static void discard(struct allocation *allocation)
{
    if (allocation->address && !allocation->planned)
        munmap(allocation->address, range_bytes(allocation));
    free(allocation->checksums);
    free(allocation->written);
    free(allocation);
}

static struct allocation *prepare(const struct tier_nvme *tier, uint64_t disk_bytes)
{
    struct allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    allocation->disk_bytes = disk_bytes;
    allocation->planned = tier->planned;
    if (tier->planned)
        return allocation;
    size_t block_count = disk_bytes / BLOCK_BYTES + 1;
    void *range = mmap(NULL, range_bytes(allocation), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    allocation->address = range == MAP_FAILED ? NULL : range;
    allocation->written = calloc(block_count, sizeof *allocation->written);
    allocation->checksums = tier->checksum ? calloc(block_count, sizeof *allocation->checksums) : NULL;
    if (allocation->address && allocation->written && (allocation->checksums || !tier->checksum))
        return allocation;
    discard(allocation);
    return NULL;
}

static int plan_range(struct tier_nvme *tier, struct allocation *allocation)
{
    if (range_bytes(allocation) > UINTPTR_MAX - tier->next_address)
        return err_set(ERR_MEMORY, "a plan has no addresses for the %" PRIu64 " bytes of \"%s\"",
                       allocation->disk_bytes, allocation->name);
    allocation->address = (unsigned char *)tier->next_address;
    tier->next_address += range_bytes(allocation);
    return ERR_NONE;
}

static int allocate(struct tier_nvme *tier, struct allocation *allocation)
{
    uint64_t held_bytes = tier->ledger->tier_bytes[TIER_NVME], disk_bytes = allocation->disk_bytes;
    if (tier->budget_bytes != 0 && (held_bytes > tier->budget_bytes || disk_bytes > tier->budget_bytes - held_bytes))
        return refuse(tier, allocation->name, disk_bytes, held_bytes);
    if (tier->planned) {
        TRY(plan_range(tier, allocation));
    } else {
        allocation->first = tier->next_folder;
        TRY(take_space(tier, allocation));
        tier->next_folder = (tier->next_folder + 1) % tier->folder_count;
    }
    allocation->next = tier->allocations;
    tier->allocations = allocation;
    ledger_hold(tier->ledger, TIER_NVME, allocation->kind, allocation->bytes - allocation->padding_bytes);
    ledger_hold(tier->ledger, TIER_NVME, KIND_PADDING, disk_bytes - allocation->bytes + allocation->padding_bytes);
    return ERR_NONE;
}

int tier_nvme_allocate(struct tier_nvme *tier, enum ledger_kind kind, const char *name, size_t bytes,
                       size_t padding_bytes, void **out)
{
    assert(padding_bytes <= bytes);
    struct allocation *allocation =
        bytes > INT64_MAX / 2 ? NULL : prepare(tier, (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES);
    if (!allocation)
        return err_set(ERR_MEMORY, "NVMe of rank %d: no memory to keep account of %zu bytes for \"%s\"", tier->rank,
                       bytes, name);
    allocation->name = name;
    allocation->kind = kind;
    allocation->bytes = bytes;
    allocation->padding_bytes = padding_bytes;
    pthread_mutex_lock(&tier->mutex);
    int code = allocate(tier, allocation);
    pthread_mutex_unlock(&tier->mutex);
    if (code == ERR_NONE)
        *out = allocation->address;
    else
        discard(allocation);
    return code;
}

static void release(struct tier_nvme *tier, struct allocation *allocation)
{
    give_space(tier, allocation, tier->folder_count);
    uint64_t state_bytes = allocation->bytes - allocation->padding_bytes;
    ledger_drop(tier->ledger, TIER_NVME, allocation->kind, state_bytes);
    ledger_drop(tier->ledger, TIER_NVME, KIND_PADDING, allocation->disk_bytes - state_bytes);
    discard(allocation);
}

void tier_nvme_free(struct tier_nvme *tier, void *address)
{
    if (!address)
        return;
    pthread_mutex_lock(&tier->mutex);
    struct allocation **at = &tier->allocations;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    struct allocation *allocation = *at;
    assert(allocation);
    *at = allocation->next;
    release(tier, allocation);
    pthread_mutex_unlock(&tier->mutex);
}

void tier_nvme_close(struct tier_nvme *tier)
{
    if (!tier)
        return;
    io_pool_close(tier->readers);
    io_pool_close(tier->writers);
    for (struct allocation *allocation = tier->allocations, *next; allocation; allocation = next) {
        next = allocation->next;
        release(tier, allocation);
    }
    for (int i = 0; i < tier->folder_count; i++)
        nvme_folder_close(&tier->folders[i]);
    pthread_mutex_destroy(&tier->mutex);
    free(tier);
}

// A transfer between memory and an allocation, from its byte `base` on.
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
                   "%s: the 4 KiB at offset %" PRIu64 " of the file there are not what was written: checksum "
                   "%016" PRIx64 ", expected %016" PRIx64 " (byte %" PRIu64 " on)",
                   where.path, where.offset, found, allocation->checksums[block], block * BLOCK_BYTES);
}

// Makes the checksums of what was written, compares those of what was read.
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
    while (allocation && address - (uintptr_t)allocation->address >= range_bytes(allocation))
        allocation = allocation->next;
    pthread_mutex_unlock(&tier->mutex);
    return allocation;
}

static int move(struct tier_nvme *tier, const void *address, unsigned char *memory, size_t bytes, bool write)
{
    struct allocation *allocation = find(tier, (uintptr_t)address);
    if (!allocation)
        return err_set(ERR_INTERNAL, "NVMe of rank %d: %p is in no allocation", tier->rank, address);
    uint64_t base = (uintptr_t)address - (uintptr_t)allocation->address;
    if (base % BLOCK_BYTES || (uintptr_t)memory % BLOCK_BYTES || bytes % BLOCK_BYTES ||
        bytes > allocation->disk_bytes - base)
        return err_set(ERR_INTERNAL,
                       "NVMe of rank %d: %zu bytes from byte %" PRIu64 " of \"%s\" on are not aligned to "
                       "%d, or not within its %" PRIu64,
                       tier->rank, bytes, base, allocation->name, BLOCK_BYTES, allocation->disk_bytes);
    uint8_t *written = allocation->written + base / BLOCK_BYTES;
    const uint8_t *unwritten = write || bytes == 0 ? NULL : memchr(written, 0, bytes / BLOCK_BYTES);
    if (unwritten)
        return err_set(ERR_INTERNAL, "NVMe of rank %d: byte %" PRIu64 " of \"%s\" is read before it was written",
                       tier->rank, (uint64_t)(unwritten - allocation->written) * BLOCK_BYTES, allocation->name);
    struct passage passage = {tier, allocation, base, memory, write};
    struct io_transfer transfer = {bytes, locate, finish, &passage};
    int code = io_pool_transfer(write ? tier->writers : tier->readers, &transfer);
    if (code == ERR_NONE)
        return ERR_NONE;
    if (write)
        memset(written, 0, bytes / BLOCK_BYTES);  // nobody knows what is there
    err_prefix(code, "NVMe of rank %d, \"%s\"", tier->rank, allocation->name);
    return err_set(code,
                   "%s; check that disk and its space, or give another --nvme-path, and resume from the last "
                   "checkpoint",
                   err_message());
}

int tier_nvme_read(struct tier_nvme *tier, const void *from, void *memory, size_t bytes)
{
    return move(tier, from, memory, bytes, false);
}

int tier_nvme_write(struct tier_nvme *tier, void *to, const void *memory, size_t bytes)
{
    // A write leaves the memory as it is; requests have one pointer for both directions.
    return move(tier, to, (void *)(uintptr_t)memory, bytes, true);
}
