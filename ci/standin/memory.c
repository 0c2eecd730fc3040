// SPDX-License-Identifier: Apache-2.0
// Device memory: blocks of a range of addresses that no host thread may touch, given out in ascending order, never
// twice. And the page-locked memory of the host.
#include "ci/standin/standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t PAGE_BYTES = 4096, HUGE_PAGE_BYTES = 2 << 20, RANGE_BYTES = (size_t)4 << 40;

struct block {
    char *memory;
    size_t bytes, all_bytes;  // as asked for; in whole pages
    struct block *next;       // at a higher address
};

struct pinned {
    const char *memory;
    size_t bytes;
    bool is_own;  // from cudaHostAlloc
    struct pinned *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char *range, *free;  // free: the first address that was never given out
    struct block *first, **last;
    size_t held_bytes;
    int open_count;
    struct pinned *pinned;
} state = {.last = &state.first};

static size_t capacity_bytes(void)
{
    const char *text = getenv("ZG_STANDIN_BYTES");
    size_t half = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 2;
    return text ? strtoull(text, NULL, 10) : half;
}

// Bytes that can still be allocated.
static size_t left_bytes(void)
{
    const char *text = getenv("ZG_STANDIN_GIVEN_BYTES");
    size_t given = text ? strtoull(text, NULL, 10) : capacity_bytes();
    return given > state.held_bytes ? given - state.held_bytes : 0;
}

static void protect(char *begin, char *end, bool is_open)
{
    if (end > begin && mprotect(begin, (size_t)(end - begin), is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        standin_die("mprotect of %zu bytes of device memory", (size_t)(end - begin));
}

// Neighbours change together.
static void protect_all(bool is_open)
{
    char *begin = NULL, *end = NULL;
    for (const struct block *block = state.first; block; block = block->next) {
        if (block->memory != end) {
            protect(begin, end, is_open);
            begin = block->memory;
        }
        end = block->memory + block->all_bytes;
    }
    protect(begin, end, is_open);
}

void standin_memory_open(void)
{
    pthread_mutex_lock(&lock);
    if (state.open_count++ == 0)
        protect_all(true);
    pthread_mutex_unlock(&lock);
}

void standin_memory_close(void)
{
    pthread_mutex_lock(&lock);
    if (--state.open_count == 0)
        protect_all(false);
    pthread_mutex_unlock(&lock);
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

// Makes a block of NaN, in every format. Huge pages are opened and closed as a whole.
static bool make_block(struct block *block, size_t bytes)
{
    size_t unit = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : PAGE_BYTES, all_bytes = round_up(bytes, unit);
    if (!state.range) {
        void *range = mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            return false;
        state.free = state.range = range;
        standin_count_memory(range, RANGE_BYTES);
    }
    char *memory = (char *)round_up((uintptr_t)state.free, unit);
    if (bytes > left_bytes() || all_bytes > (size_t)(state.range + RANGE_BYTES - memory))
        return false;
    *block = (struct block){.memory = memory, .bytes = bytes, .all_bytes = all_bytes};
    protect(block->memory, block->memory + all_bytes, true);
    if (unit == HUGE_PAGE_BYTES)
        (void)madvise(memory, all_bytes, MADV_HUGEPAGE);
    memset(block->memory, 0xff, all_bytes);
    if (state.open_count == 0)
        protect(block->memory, block->memory + all_bytes, false);
    state.free = memory + all_bytes;
    state.held_bytes += all_bytes;
    *state.last = block;
    state.last = &block->next;
    return true;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = NULL;
    if (standin_capture_forbids(cudaErrorStreamCaptureUnsupported))
        return cudaErrorStreamCaptureUnsupported;
    struct block *block = standin_refuses(__func__) ? NULL : malloc(sizeof *block);
    if (bytes == 0) {
        free(block);
        return cudaSuccess;
    }
    pthread_mutex_lock(&lock);
    if (block && make_block(block, bytes))
        *out = block->memory;
    pthread_mutex_unlock(&lock);
    if (!*out)
        free(block);
    return standin_status(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}

static void release(void *memory)
{
    pthread_mutex_lock(&lock);
    struct block **at = &state.first;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    struct block *block = *at;
    if (!block)
        standin_die("memory is freed that is not allocated on a device");
    *at = block->next;
    if (!block->next)
        state.last = at;
    state.held_bytes -= block->all_bytes;
    if (mmap(block->memory, block->all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        standin_die("device memory cannot be given back");
    pthread_mutex_unlock(&lock);
    free(block);
}

// Does not wait: work that is still to use the memory finds that it is gone.
cudaError_t cudaFree(void *memory)
{
    if (memory && standin_capture_forbids(cudaErrorStreamCaptureUnsupported))
        return cudaErrorStreamCaptureUnsupported;
    if (memory)
        release(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMalloc(out, bytes);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    return memory ? standin_enqueue(stream, (struct standin_work){release, memory, NULL}) : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    pthread_mutex_lock(&lock);
    *total_bytes = capacity_bytes();
    *free_bytes = *total_bytes - state.held_bytes;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

static bool is_pinned(const char *memory, size_t bytes)
{
    const struct pinned *pinned = state.pinned;
    while (pinned && !(pinned->memory <= memory && memory + bytes <= pinned->memory + pinned->bytes))
        pinned = pinned->next;
    return pinned != NULL;
}

static bool is_in_block(const char *memory, size_t bytes)
{
    const struct block *block = state.first;
    while (block && !(block->memory <= memory && memory + bytes <= block->memory + block->bytes))
        block = block->next;
    return block != NULL;
}

enum standin_place standin_place_of(const void *address, size_t bytes)
{
    const char *memory = address;
    pthread_mutex_lock(&lock);
    bool in_range = state.range && memory + bytes > state.range && memory < state.range + RANGE_BYTES;
    enum standin_place place = in_range ? is_in_block(memory, bytes) ? STANDIN_ON_DEVICE : STANDIN_WRONG
                               : is_pinned(memory, bytes) ? STANDIN_PINNED
                                                          : STANDIN_PAGEABLE;
    pthread_mutex_unlock(&lock);
    return place;
}

static cudaError_t pin(void *memory, size_t bytes, bool is_own)
{
    struct pinned *added = malloc(sizeof *added);
    if (!added)
        return cudaErrorMemoryAllocation;
    pthread_mutex_lock(&lock);
    const struct pinned *pinned = state.pinned;
    while (pinned && !(pinned->memory < (char *)memory + bytes && (char *)memory < pinned->memory + pinned->bytes))
        pinned = pinned->next;
    if (!pinned) {
        *added = (struct pinned){.memory = memory, .bytes = bytes, .is_own = is_own, .next = state.pinned};
        state.pinned = added;
    }
    pthread_mutex_unlock(&lock);
    if (pinned)
        free(added);
    return pinned ? cudaErrorHostMemoryAlreadyRegistered : cudaSuccess;
}

static cudaError_t unpin(void *memory, bool is_own)
{
    pthread_mutex_lock(&lock);
    struct pinned **at = &state.pinned;
    while (*at && ((*at)->memory != memory || (*at)->is_own != is_own))
        at = &(*at)->next;
    struct pinned *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    free(found);
    return found ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    if (standin_refuses(__func__))
        return standin_status(cudaErrorMemoryAllocation);
    return standin_status(bytes > 0 ? pin(memory, bytes, false) : cudaErrorInvalidValue);
}

cudaError_t cudaHostUnregister(void *memory)
{
    return standin_status(unpin(memory, false));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = NULL;
    if (standin_capture_forbids(cudaErrorStreamCaptureUnsupported))
        return cudaErrorStreamCaptureUnsupported;
    *out = standin_refuses(__func__) ? NULL : aligned_alloc(PAGE_BYTES, (bytes / PAGE_BYTES + 1) * PAGE_BYTES);
    return standin_status(*out ? pin(*out, bytes, true) : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
    if (!memory)
        return cudaSuccess;
    cudaError_t status = unpin(memory, true);
    if (status == cudaSuccess)
        free(memory);
    return standin_status(status);
}
