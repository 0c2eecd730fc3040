// SPDX-License-Identifier: Apache-2.0
// Properties of the machine that benchmarks need: processors and caches; and memory placed near the threads that use
// it.
#include "bench/harness/bench.h"

#include "base/resources.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int bench_thread_count(void)
{
    return resources_processor_count();
}

size_t bench_cache_bytes(void)
{
    return resources_cache_bytes();
}

size_t bench_memory_bytes(void)
{
    uint64_t available = resources_memory_available();
    return available > 0 ? available / 4 * 3 : SIZE_MAX;
}

enum { HUGE_PAGE_BYTES = 2 << 20 };

void *bench_map(size_t bytes, bool huge)
{
    // The mapping begins at a huge page and is rounded up to full ones, so that huge pages can back all of it.
    size_t whole = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    unsigned char *mapped =
        mmap(NULL, whole + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE_PAGE_BYTES - (uintptr_t)mapped % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    unsigned char *memory = mapped + skip;
    if (skip > 0)
        munmap(mapped, skip);
    if (skip < HUGE_PAGE_BYTES)
        munmap(memory + whole, HUGE_PAGE_BYTES - skip);
    madvise(memory, whole, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a refusal only costs speed
    return memory;
}

void bench_touch(void *memory, size_t bytes, int threads)
{
    assert(memory && threads > 0);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = bytes / (size_t)threads * (size_t)part;
        size_t end = part + 1 == threads ? bytes : begin + bytes / (size_t)threads;
        memset((char *)memory + begin, 0, end - begin);
    }
}

void *bench_alloc(size_t bytes, int threads)
{
    void *memory = bench_map(bytes, true);
    if (memory)
        bench_touch(memory, bytes, threads);
    return memory;
}

size_t bench_huge_bytes(const void *memory, size_t bytes)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (!maps)
        return 0;
    char line[512];
    uintptr_t begin = 0, end = 0, from = (uintptr_t)memory;
    size_t kib, found = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2) {
            begin = low;
            end = high;
        } else if (begin < from + bytes && from < end && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1) {
            found += kib << 10;
        }
    }
    fclose(maps);
    return found < bytes ? found : bytes;
}

void bench_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
}
