// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/tier_nvme_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "ref/tier/tier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

int tier_nvme_open(const struct tier_nvme_setting *setting, struct ledger *ledger, struct tier_nvme **out)
{
    if (!setting->planned && (setting->path_count < 1 || setting->path_count > TIER_NVME_PATH_MAX))
        return err_set(ERR_USAGE, "NVMe: expected 1 to %d folders with --nvme-path or nvme_path, got %d",
                       TIER_NVME_PATH_MAX, setting->path_count);
    struct tier_nvme *tier = calloc(1, sizeof *tier);
    if (!tier)
        return err_set(ERR_MEMORY, "out of memory for an NVMe tier's bookkeeping");
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

// Returns how many bytes of the allocation lie on one of `count` folders.
static uint64_t folder_bytes(const struct allocation *allocation, int folder, int count, uint64_t stripe_bytes)
{
    uint64_t turn = (uint64_t)((folder - allocation->first + count) % count), folders = (uint64_t)count;
    uint64_t whole = allocation->disk_bytes / stripe_bytes;
    uint64_t stripes = whole > turn ? (whole - turn + folders - 1) / folders : 0;
    return stripes * stripe_bytes + (whole % folders == turn ? allocation->disk_bytes % stripe_bytes : 0);
}

// Gives back the space of the allocation, the last one, on the first `count` folders.
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

static void discard(struct allocation *allocation)
{
    if (allocation->address && !allocation->planned)
        munmap(allocation->address, allocation_range_bytes(allocation));
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
    void *range =
        mmap(NULL, allocation_range_bytes(allocation), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
    if (allocation_range_bytes(allocation) > UINTPTR_MAX - tier->next_address)
        return err_set(ERR_MEMORY, "plan: %" PRIu64 " bytes for \"%s\" exceed the planned address range",
                       allocation->disk_bytes, allocation->name);
    allocation->address = (unsigned char *)tier->next_address;
    tier->next_address += allocation_range_bytes(allocation);
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
    assert(tier && name && padding_bytes <= bytes && (unsigned)kind < KIND_COUNT && kind != KIND_PADDING);
    struct allocation *allocation =
        bytes > INT64_MAX / 2 ? NULL : prepare(tier, (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES);
    if (!allocation)
        return err_set(ERR_MEMORY, "NVMe of rank %d: out of memory for the bookkeeping of %zu bytes for \"%s\"",
                       tier->rank, bytes, name);
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
    uint64_t state_bytes = allocation->bytes - allocation->padding_bytes;
    ledger_drop(tier->ledger, TIER_NVME, allocation->kind, state_bytes);
    ledger_drop(tier->ledger, TIER_NVME, KIND_PADDING, allocation->disk_bytes - state_bytes);
    discard(allocation);
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
