// SPDX-License-Identifier: Apache-2.0
// `bench pcie` on GPUs: copies on streams, timed by events.
#include "bench/pcie/pcie.h"

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "bench/memory/memory_cuda.h"
#include "ref/cuda/cuda_lane.h"
#include "base/err.h"
#include "base/gpu.h"

#include <cuda_runtime_api.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static int device_open(size_t bytes, void **out)
{
    return cuda_lane_error(cudaMalloc(out, bytes), "memory for copies");
}

static void device_close(void *memory)
{
    (void)cudaFree(memory);
}

static int host_open(enum pcie_memory kind, size_t bytes, void **out)
{
    if (kind == PCIE_DRIVERS)
        return cuda_lane_error(cudaHostAlloc(out, bytes, cudaHostAllocPortable), "page-locked memory");
    void *memory = bench_alloc(bytes, 1);
    if (!memory)
        return err_set(ERR_MEMORY, "no memory for %zu bytes on the host", bytes);
    int code = kind != PCIE_PAGEABLE
                   ? cuda_lane_error(cudaHostRegister(memory, bytes, cudaHostRegisterPortable), "locked host memory")
                   : ERR_NONE;
    if (code != ERR_NONE)
        bench_free(memory, bytes);
    else
        *out = memory;
    return code;
}

static void host_close(enum pcie_memory kind, void *memory, size_t bytes)
{
    if (!memory)
        return;
    if (kind == PCIE_DRIVERS) {
        (void)cudaFreeHost(memory);
        return;
    }
    if (kind != PCIE_PAGEABLE)
        (void)cudaHostUnregister(memory);
    bench_free(memory, bytes);
}

static int copy(void *to, const void *from, size_t bytes)
{
    return cuda_lane_error(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_lane_stream()), "a copy");
}

static int copy_by_kernel(void *to, const void *from, size_t bytes)
{
    memory_cuda_copy(to, from, bytes / sizeof(memory_word));
    return cuda_lane_noted();
}

static int reach(int other, bool *directly)
{
    int can = 0;
    TRY(cuda_lane_error(cudaDeviceCanAccessPeer(&can, cuda_lane_device(), other), "access to another device"));
    *directly = can != 0;
    cudaError_t status = can ? cudaDeviceEnablePeerAccess(other, 0) : cudaSuccess;
    if (status != cudaErrorPeerAccessAlreadyEnabled)
        return cuda_lane_error(status, "access to another device");
    (void)cudaGetLastError();
    return ERR_NONE;
}

// NVML's devices are found by their place on the bus.
static void place_of(int device, char out[GPU_TEXT_BYTES])
{
    struct cudaDeviceProp of;
    *out = '\0';
    if (cudaGetDeviceProperties(&of, device) == cudaSuccess)
        snprintf(out, GPU_TEXT_BYTES, "%04x:%02x:%02x", (unsigned)of.pciDomainID, (unsigned)of.pciBusID,
                 (unsigned)of.pciDeviceID);
}

// The most that the link can be: an idle one may be slower.
static double lanes_gb_per_s(int device, char name[])
{
    struct gpu gpus[GPU_MAX];
    char place[GPU_TEXT_BYTES];
    size_t count = gpus_read(gpus), i = 0;
    place_of(device, place);
    while (i < count && strcmp(gpus[i].pci, place) != 0)
        i++;
    return i < count ? pcie_lanes_gb_per_s(gpus[i].values[GPU_PCIE_GENERATION_MOST],
                                           gpus[i].values[GPU_PCIE_LANES_MOST], name)
                     : pcie_lanes_gb_per_s(0, 0, name);
}

static double gb_per_s(int device, int peer, char name[])
{
    char place[GPU_TEXT_BYTES], other[GPU_TEXT_BYTES], own_name[PCIE_NAME_BYTES];
    int links;
    if (peer < 0)
        return lanes_gb_per_s(device, name);
    place_of(device, place);
    place_of(peer, other);
    double nvlink = gpu_nvlink_gb_per_s(place, other, &links);
    if (nvlink == 0) {
        double theirs = lanes_gb_per_s(peer, name), own = lanes_gb_per_s(device, own_name);
        if (own < theirs)
            snprintf(name, PCIE_NAME_BYTES, "%s", own_name);
        return fmin(own, theirs);
    }
    snprintf(name, PCIE_NAME_BYTES, "NVLink x%d", links);
    return isnan(nvlink) ? pcie_lanes_gb_per_s(0, 0, name) : nvlink;
}

int pcie_cuda(const struct pcie_link **out)
{
    static struct pcie_link link = {
        .enter = cuda_lane_use,
        .device_open = device_open,
        .device_close = device_close,
        .host_open = host_open,
        .host_close = host_close,
        .reach = reach,
        .copy = copy,
        .copy_by_kernel = copy_by_kernel,
        .wait = cuda_lane_wait,
        .begin = bench_gpu_clock_begin,
        .end = bench_gpu_clock_end,
        .gb_per_s = gb_per_s,
        .name = "cuda",
    };
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    link.device_count = cuda_lane_device_count();
    *out = &link;
    return ERR_NONE;
}
