// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/bench_device.h"

#include "bench/harness/bench.h"
#include "ref/train/device.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/isa_cuda.h"
#include "ref/cuda/tier_cuda.h"

#include <cuda_runtime_api.h>

// The calling thread's events. They are never destroyed.
static _Thread_local struct {
    cudaEvent_t begin, end;
} own;

int bench_gpu_clock_begin(void)
{
    struct CUstream_st *stream;
    TRY(cuda_lane_open(&stream));
    if (!own.begin) {
        TRY(cuda_lane_error(cudaEventCreate(&own.begin), "an event"));
        TRY(cuda_lane_error(cudaEventCreate(&own.end), "an event"));
    }
    return cuda_lane_error(cudaEventRecord(own.begin, stream), "an event");
}

int bench_gpu_clock_end(double *ms)
{
    float took;
    TRY(cuda_lane_error(cudaEventRecord(own.end, cuda_lane_stream()), "an event"));
    TRY(cuda_lane_wait());
    TRY(cuda_lane_error(cudaEventElapsedTime(&took, own.begin, own.end), "the time between events"));
    *ms = (double)took;
    return ERR_NONE;
}

int bench_gpu_find(struct bench_gpu *out)
{
    int cache_bytes;
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    *out = (struct bench_gpu){&cuda_accelerator, bench_gpu_clock_begin, bench_gpu_clock_end, isa_cuda_mix, 0};
    TRY(out->accelerator->enter(0));
    TRY(cuda_lane_error(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, 0), "the size of the cache"));
    out->cache_bytes = (size_t)cache_bytes;
    return ERR_NONE;
}

size_t bench_device_free_bytes(const struct bench_device *device)
{
    size_t free_bytes, all_bytes;
    bool is_known = device->accelerator == &cuda_accelerator && cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess;
    return is_known ? free_bytes : SIZE_MAX;
}

#else
size_t bench_device_free_bytes(const struct bench_device *device)
{
    (void)device;
    return SIZE_MAX;
}

int bench_gpu_find(struct bench_gpu *out)
{
    (void)out;
    return err_set(ERR_USAGE, "this version is built without CUDA");
}
#endif

int bench_device_find(const char *name, int ranks, bool launched, struct bench_device *out, bool *absent)
{
    struct train_setting setting = {.world = ranks};
    int code = device_find(name, launched, &setting);
    *absent = code != ERR_NONE && device_is_name(name);
    if (code != ERR_NONE && !*absent)
        return code;
    *out = (struct bench_device){setting.accelerator, setting.device_count};
    return ERR_NONE;
}

const char *bench_device_name(const struct bench_device *device)
{
    return device->accelerator ? device->accelerator->name : "cpu";
}

void bench_device_describe(const struct bench_device *device, json_t *of_case)
{
    if (!device->accelerator)
        return;
    json_object_set_new(of_case, "device", json_string(device->accelerator->name));
    json_object_set_new(of_case, "devices", json_integer(device->count));
}

int bench_device_enter(const struct bench_device *device, int rank)
{
    assert(rank >= 0 && (!device->accelerator || device->count > 0));
    return device->accelerator ? device->accelerator->enter(rank % device->count) : ERR_NONE;
}

int bench_device_alloc(const struct bench_device *device, size_t bytes, void **out)
{
    const struct accelerator *accelerator = device->accelerator;
    if (!accelerator) {
        *out = bench_alloc(bytes, 1);
        return *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu bytes", bytes);
    }
    void *memory;
    TRY(accelerator->allocate(bytes, &memory));
    int code = accelerator_claim(accelerator, memory, bytes);
    if (code == ERR_NONE)
        *out = memory;
    else
        (void)accelerator->release(memory);
    return code;
}

void bench_device_free(const struct bench_device *device, void *memory, size_t bytes)
{
    if (!memory)
        return;
    if (!device->accelerator) {
        bench_free(memory, bytes);
        return;
    }
    accelerator_disclaim(memory);
    (void)device->accelerator->release(memory);
}

int bench_device_fill(const struct bench_device *device, void *memory, uint32_t word, size_t bytes)
{
    size_t whole_bytes = bytes - bytes % sizeof word;
    if (device->accelerator)
        return whole_bytes > 0 ? device->accelerator->fill(memory, word, whole_bytes) : ERR_NONE;
    for (size_t i = 0; i < whole_bytes; i += sizeof word)
        memcpy((char *)memory + i, &word, sizeof word);
    return ERR_NONE;
}

int bench_device_alloc_host(const struct bench_device *device, size_t bytes, void **out)
{
    void *memory = bench_alloc(bytes, 1);
    if (!memory)
        return err_set(ERR_MEMORY, "no memory for %zu bytes", bytes);
    int code = device->accelerator ? device->accelerator->lock(memory, bytes) : ERR_NONE;
    if (code == ERR_NONE)
        *out = memory;
    else
        bench_free(memory, bytes);
    return code;
}

void bench_device_free_host(const struct bench_device *device, void *memory, size_t bytes)
{
    if (memory && device->accelerator)
        (void)device->accelerator->unlock(memory);
    bench_free(memory, bytes);
}
