// SPDX-License-Identifier: Apache-2.0
// Copies and fills, as "API synchronization behavior" in CUDA's documentation has them.
#include "ci/standin/standin.h"

#include <stdlib.h>
#include <string.h>

// Rows of bytes; a row alone is a plain copy. staged holds the bytes of pageable memory as they were when the copy was
// asked for; null: the source is read later.
struct copy {
    char *to;
    const char *from;
    size_t to_stride, from_stride, row_bytes, row_count;
    char *staged;
};

static size_t extent(size_t stride, const struct copy *copy)
{
    return (copy->row_count - 1) * stride + copy->row_bytes;
}

static void move(void *what)
{
    struct copy *copy = what;
    const char *from = copy->staged ? copy->staged : copy->from;
    standin_count("copy");
    for (size_t row = 0; row < copy->row_count; row++) {
        standin_touch(from + row * copy->from_stride, copy->row_bytes, false);
        standin_touch(copy->to + row * copy->to_stride, copy->row_bytes, true);
        memmove(copy->to + row * copy->to_stride, from + row * copy->from_stride, copy->row_bytes);
    }
    free(copy->staged);
    free(copy);
}

static void *same(const void *of, size_t bytes)
{
    void *made = malloc(bytes);
    return made ? memcpy(made, of, bytes) : NULL;
}

// In a graph the source is read at each launch.
static void *move_again(void *what)
{
    return same(what, sizeof(struct copy));
}

// Returns whether the kind names the places; cudaMemcpyDefault names any.
static bool is_of_kind(enum cudaMemcpyKind kind, enum standin_place to, enum standin_place from)
{
    bool to_device = to == STANDIN_ON_DEVICE, from_device = from == STANDIN_ON_DEVICE;
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    case cudaMemcpyDefault:
        return true;
    }
    return false;
}

static cudaError_t enqueue(const struct copy *wanted, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (wanted->row_bytes == 0 || wanted->row_count == 0)
        return cudaSuccess;
    size_t to_bytes = extent(wanted->to_stride, wanted), from_bytes = extent(wanted->from_stride, wanted);
    enum standin_place to = standin_place_of(wanted->to, to_bytes), from = standin_place_of(wanted->from, from_bytes);
    if (to == STANDIN_WRONG || from == STANDIN_WRONG || !is_of_kind(kind, to, from))
        return standin_status(cudaErrorInvalidValue);
    struct copy *copy = malloc(sizeof *copy);
    if (!copy)
        return standin_status(cudaErrorMemoryAllocation);
    *copy = *wanted;
    if (from == STANDIN_PAGEABLE && !*standin_capture_of(stream)) {
        copy->staged = malloc(from_bytes);
        if (!copy->staged)
            standin_die("no memory to stage a copy of %zu bytes", from_bytes);
        memcpy(copy->staged, wanted->from, from_bytes);
    }
    cudaError_t status = standin_enqueue(stream, (struct standin_work){move, copy, move_again});
    bool within_host = to != STANDIN_ON_DEVICE && from != STANDIN_ON_DEVICE;
    return status == cudaSuccess && within_host ? cudaStreamSynchronize(stream) : status;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const struct copy copy = {.to = to, .from = from, .row_bytes = bytes, .row_count = 1};
    return standin_refuses(__func__) ? standin_status(cudaErrorMemoryAllocation) : enqueue(&copy, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t row_bytes,
                              size_t row_count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const struct copy copy = {to, from, to_stride, from_stride, row_bytes, row_count, NULL};
    return row_bytes > to_stride || row_bytes > from_stride ? standin_status(cudaErrorInvalidPitchValue)
                                                            : enqueue(&copy, kind, stream);
}

struct fill {
    void *memory;
    int value;
    size_t bytes;
};

static void set(void *what)
{
    struct fill *fill = what;
    standin_count("fill");
    standin_touch(fill->memory, fill->bytes, true);
    memset(fill->memory, fill->value, fill->bytes);
    free(fill);
}

static void *set_again(void *what)
{
    return same(what, sizeof(struct fill));
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    if (standin_place_of(memory, bytes) != STANDIN_ON_DEVICE)
        return standin_status(bytes == 0 ? cudaSuccess : cudaErrorInvalidValue);
    struct fill *fill = malloc(sizeof *fill);
    if (!fill)
        return standin_status(cudaErrorMemoryAllocation);
    *fill = (struct fill){memory, value, bytes};
    return standin_enqueue(stream, (struct standin_work){set, fill, set_again});
}
