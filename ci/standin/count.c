// SPDX-License-Identifier: Apache-2.0
// Counts launches and the bytes that they move, where ZG_STANDIN_COUNTS names a file for the counts. Kernels that are
// to be counted are compiled with -fsanitize=thread, whose calls before each access end here.
#include "ci/standin/standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SECTOR_BYTES = 32, NAME_BYTES = 256, NAMES_MAX = 256 };

struct counted {
    char name[NAME_BYTES];
    uint64_t launches, read_bytes, written_bytes;
};

// Of each sector of device memory: when it entered the cache, in bytes that had entered it until then, and whether it
// was written since; 0: never.
static uint64_t *sectors;
static const char *first_address;
static size_t range_bytes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counted counts[NAMES_MAX];
static int name_count;
static uint64_t entered_bytes, cache_bytes;
static _Thread_local struct counted *now;

static const char *file(void)
{
    return getenv("ZG_STANDIN_COUNTS");
}

void standin_count_memory(const void *range, size_t bytes)
{
    const char *cache = getenv("ZG_STANDIN_CACHE_BYTES");
    if (!file())
        return;
    cache_bytes = cache ? strtoull(cache, NULL, 10) : 0;
    sectors = mmap(NULL, bytes / SECTOR_BYTES * sizeof *sectors, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sectors == MAP_FAILED)
        standin_die("no memory to count what moves");
    first_address = range;
    range_bytes = bytes;
}

void standin_count(const char *name)
{
    if (!file())
        return;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < name_count && strncmp(counts[i].name, name, NAME_BYTES - 1) != 0)
        i++;
    if (i == NAMES_MAX)
        standin_die("more than %d kinds of launches", NAMES_MAX);
    if (i == name_count)
        snprintf(counts[name_count++].name, NAME_BYTES, "%s", name);
    counts[i].launches++;
    now = &counts[i];
    pthread_mutex_unlock(&lock);
}

// A cache from which sectors leave in the order in which they entered: what is not there is read, and what is written
// there goes to memory once.
static void touch_sector(uint64_t *sector, bool writes)
{
    bool is_there = *sector != 0 && entered_bytes - *sector / SECTOR_BYTES * SECTOR_BYTES < cache_bytes;
    bool is_written = is_there && *sector % SECTOR_BYTES == 1;
    if (!is_there) {
        now->read_bytes += writes ? 0 : SECTOR_BYTES;
        entered_bytes += SECTOR_BYTES;
        *sector = entered_bytes;
    }
    if (writes && !is_written) {
        now->written_bytes += SECTOR_BYTES;
        *sector |= 1;
    }
}

void standin_touch(const void *address, size_t bytes, bool writes)
{
    if (!sectors || !now || bytes == 0 || (size_t)((const char *)address - first_address) >= range_bytes)
        return;
    size_t at = (size_t)((const char *)address - first_address);
    pthread_mutex_lock(&lock);
    for (size_t i = at / SECTOR_BYTES; i <= (at + bytes - 1) / SECTOR_BYTES; i++)
        touch_sector(&sectors[i], writes);
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) void standin_count_write(void)
{
    FILE *out = file() ? fopen(file(), "w") : NULL;
    for (int i = 0; out && i < name_count; i++)
        fprintf(out, "%llu\t%llu\t%llu\t%s\n", (unsigned long long)counts[i].launches,
                (unsigned long long)counts[i].read_bytes, (unsigned long long)counts[i].written_bytes, counts[i].name);
    if (out && fclose(out) != 0)
        standin_die("the counts cannot be written");
}

// GCC calls these before an access, by its size.
#define ACCESS(bytes)                                                                                                  \
    void __tsan_read##bytes(void *address)                                                                             \
    {                                                                                                                  \
        standin_touch(address, bytes, false);                                                                          \
    }                                                                                                                  \
    void __tsan_write##bytes(void *address)                                                                            \
    {                                                                                                                  \
        standin_touch(address, bytes, true);                                                                           \
    }                                                                                                                  \
    void __tsan_unaligned_read##bytes(void *address)                                                                   \
    {                                                                                                                  \
        standin_touch(address, bytes, false);                                                                          \
    }                                                                                                                  \
    void __tsan_unaligned_write##bytes(void *address)                                                                  \
    {                                                                                                                  \
        standin_touch(address, bytes, true);                                                                           \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *address, size_t bytes)
{
    standin_touch(address, bytes, false);
}

void __tsan_write_range(void *address, size_t bytes)
{
    standin_touch(address, bytes, true);
}

void __tsan_init(void)
{
}

#define ATOMIC(bits)                                                                                                   \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)                            \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *at, uint##bits##_t value, int order)       \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        standin_touch((const void *)(uintptr_t)at, bits / 8, true);                                                    \
        return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                                                        \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *at, uint##bits##_t *before,             \
                                                      uint##bits##_t value, int order, int failed)                     \
    {                                                                                                                  \
        (void)order, (void)failed;                                                                                     \
        standin_touch((const void *)(uintptr_t)at, bits / 8, true);                                                    \
        return __atomic_compare_exchange_n(at, before, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    }
ATOMIC(32)
ATOMIC(64)
