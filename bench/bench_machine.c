// SPDX-License-Identifier: Apache-2.0
// The machine under a benchmark: processors, caches, and memory laid out for the threads that use it.
#include "bench.h"

#include <hwloc.h>

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

int bench_thread_count(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    return CPU_COUNT(&allowed);
}

size_t bench_cache_bytes(void)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE};
    size_t bytes = 0;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return 0;
    if (hwloc_topology_load(topology) == 0) {
        for (size_t i = 0; i < sizeof levels / sizeof levels[0] && bytes == 0; i++) {
            hwloc_obj_t cache = NULL;
            while ((cache = hwloc_get_next_obj_by_type(topology, levels[i], cache)))
                bytes += cache->attr->cache.size;
        }
    }
    hwloc_topology_destroy(topology);
    return bytes;
}

enum { HUGE_PAGE_BYTES = 2 << 20 };

void *bench_alloc(size_t bytes, int threads)
{
    // A mapping is rounded up to whole huge pages and begins at one, so that all of it can be made of them.
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
    madvise(memory, whole, MADV_HUGEPAGE);  // advice: a refusal costs speed alone
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = bytes / (size_t)threads * (size_t)part;
        size_t end = part + 1 == threads ? bytes : begin + bytes / (size_t)threads;
        memset(memory + begin, 0, end - begin);
    }
    return memory;
}

void bench_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
}
