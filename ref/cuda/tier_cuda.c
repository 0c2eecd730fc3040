// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/tier_cuda.h"

#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/cuda_matmul.h"
#include "base/err.h"
#include "ref/cuda/isa_cuda.h"

#include <cuda_runtime_api.h>

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

enum { DEVICE_MAX = 64 };

// Peer access from one device to another is enabled once per process, by the first thread that enters.
static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;
static bool reaches[DEVICE_MAX][DEVICE_MAX];

// Enables access of the calling thread's device to all devices that it can reach.
static int open_peers(int device)
{
    int code = ERR_NONE;
    pthread_mutex_lock(&peers_lock);
    for (int other = 0; code == ERR_NONE && other < cuda_lane_device_count() && other < DEVICE_MAX; other++) {
        int can = 0;
        if (other == device || reaches[device][other])
            continue;
        code = cuda_lane_error(cudaDeviceCanAccessPeer(&can, device, other), "querying peer access");
        if (code != ERR_NONE || !can)
            continue;
        cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
        if (status == cudaErrorPeerAccessAlreadyEnabled) {
            (void)cudaGetLastError();
            status = cudaSuccess;
        }
        code = cuda_lane_error(status, "enabling peer access");
        reaches[device][other] = code == ERR_NONE;
    }
    pthread_mutex_unlock(&peers_lock);
    return code;
}

static int cuda_enter(int device)
{
    TRY(cuda_lane_use(device));
    return device < DEVICE_MAX ? open_peers(device) : ERR_NONE;
}

int cuda_devices_for(int rank_count, int *device_count)
{
    assert(rank_count > 0);
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    int count = cuda_lane_device_count();
    count = count < rank_count ? count : rank_count;
    count = count < DEVICE_MAX ? count : DEVICE_MAX;
    for (int device = 0; device < count; device++)
        for (int other = 0; other < count; other++) {
            int can = 1;
            if (other != device)
                TRY(cuda_lane_error(cudaDeviceCanAccessPeer(&can, device, other), "querying peer access"));
            if (!can)
                return err_set(ERR_USAGE,
                               "CUDA: device %d cannot reach the memory of device %d, and ranks in one process fold "
                               "each other's arrays: let them share one device, with CUDA_VISIBLE_DEVICES=0",
                               device, other);
        }
    *device_count = count;
    return ERR_NONE;
}

static int cuda_allocate(size_t bytes, void **out)
{
    char what[64];
    snprintf(what, sizeof what, "an allocation of %zu bytes", bytes);
    return cuda_lane_error(cudaMalloc(out, bytes), what);
}

static int cuda_release(void *memory)
{
    return cuda_lane_error(cudaFree(memory), "freeing an allocation");
}

static int cuda_lock(void *memory, size_t bytes)
{
    return cuda_lane_error(cudaHostRegister(memory, bytes, cudaHostRegisterPortable), "pinning host memory");
}

static int cuda_unlock(void *memory)
{
    return cuda_lane_error(cudaHostUnregister(memory), "unpinning host memory");
}

static int cuda_wait(void)
{
    return cuda_lane_wait();
}

// With cudaMemcpyDefault the runtime finds the direction from the addresses.
static int cuda_copy(void *to, const void *from, size_t bytes)
{
    struct CUstream_st *stream;
    char what[64];
    snprintf(what, sizeof what, "a copy of %zu bytes", bytes);
    TRY(cuda_lane_keep(cuda_lane_open(&stream)));
    TRY(cuda_lane_note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), what));
    if (accelerator_of(to) && accelerator_of(from))
        return ERR_NONE;
    cuda_lane_note(cudaStreamSynchronize(stream), what);
    return cuda_lane_noted();
}

static int cuda_fill(void *memory, uint32_t word, size_t bytes)
{
    assert((uintptr_t)memory % sizeof word == 0 && bytes % sizeof word == 0);
    struct CUstream_st *stream;
    TRY(cuda_lane_keep(cuda_lane_open(&stream)));
    return isa_cuda_fill(memory, word, bytes / sizeof word);
}

const struct accelerator cuda_accelerator = {
    .name = "cuda",
    .kernels = &isa_cuda,
    .enter = cuda_enter,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .lock = cuda_lock,
    .unlock = cuda_unlock,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .wait = cuda_wait,
    .matmul = cuda_matmul,
    .choose_products = cuda_matmul_choose,
};
