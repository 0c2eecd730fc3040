// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_lane.h"

#include "base/err.h"

#include <cuda_runtime_api.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 512 };

// Of the calling thread.
static _Thread_local struct {
    int device;
    cudaStream_t stream;
    struct cuda_lane_user *users;  // of the stream, the last one first
    int code;                      // the first error noted
    char message[MESSAGE_BYTES];
} lane;

// The driver's first answer; the devices of a machine do not change while a process runs.
static struct {
    pthread_once_t once;
    int device_count;
    char absent[MESSAGE_BYTES];
    pthread_key_t key;  // destroys a thread's stream when the thread ends
    bool has_key;
} process = {.once = PTHREAD_ONCE_INIT};

static cudaError_t destroy_stream(void)
{
    cudaStream_t stream = lane.stream;
    while (lane.users) {
        struct cuda_lane_user *user = lane.users;
        lane.users = user->next;
        user->close(user);
    }
    lane.stream = NULL;
    return cudaStreamDestroy(stream);
}

// A thread that ends cannot report an error. Its thread-local variables still exist.
static void end_lane(void *stream)
{
    (void)stream;
    (void)destroy_stream();
}

void cuda_lane_join(struct cuda_lane_user *user)
{
    assert(lane.stream && user->close);
    user->next = lane.users;
    lane.users = user;
}

// Describes the first device that is older than the kernels; returns false if there is none.
static bool is_too_old(int count)
{
    for (int device = 0; device < count; device++) {
        int major = 0, minor = 0;
        struct cudaDeviceProp of;
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
            10 * major + minor >= ZG_CUDA_LEAST || cudaGetDeviceProperties(&of, device) != cudaSuccess)
            continue;
        snprintf(process.absent, sizeof process.absent,
                 "no CUDA device: device %d (%s) has compute capability %d.%d, and the kernels are built for %d.%d and "
                 "later; CUDA_VISIBLE_DEVICES can hide it",
                 device, of.name, major, minor, ZG_CUDA_LEAST / 10, ZG_CUDA_LEAST % 10);
        return true;
    }
    return false;
}

static void ask_driver(void)
{
    int count = 0, driver = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    // A version of 0 means that there is no driver, which the runtime would report as an insufficient one.
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        snprintf(process.absent, sizeof process.absent, "no CUDA device: NVIDIA's driver is not loaded");
    else if (status != cudaSuccess || count == 0)
        snprintf(process.absent, sizeof process.absent, "no CUDA device: %s",
                 status != cudaSuccess ? cudaGetErrorString(status) : "the driver lists none");
    else if (!is_too_old(count))
        process.device_count = count;
    (void)cudaGetLastError();
    process.has_key = pthread_key_create(&process.key, end_lane) == 0;
}

const char *cuda_lane_absent(void)
{
    pthread_once(&process.once, ask_driver);
    return process.device_count > 0 ? NULL : process.absent;
}

int cuda_lane_device_count(void)
{
    return cuda_lane_absent() ? 0 : process.device_count;
}

int cuda_lane_device(void)
{
    return lane.device;
}

int cuda_lane_error(unsigned status, const char *what)
{
    if (status == cudaSuccess)
        return ERR_NONE;
    cudaError_t error = (cudaError_t)status;
    // Clears the error, or the next launch would report it again.
    (void)cudaGetLastError();
    return err_set(error == cudaErrorMemoryAllocation ? ERR_MEMORY : ERR_IO, "CUDA: %s on device %d: %s: %s", what,
                   lane.device, cudaGetErrorName(error), cudaGetErrorString(error));
}

int cuda_lane_keep(int code)
{
    if (code != ERR_NONE && lane.code == ERR_NONE) {
        lane.code = code;
        snprintf(lane.message, sizeof lane.message, "%s", err_message());
    }
    return code;
}

int cuda_lane_note(unsigned status, const char *what)
{
    return cuda_lane_keep(cuda_lane_error(status, what));
}

int cuda_lane_launched(const char *what)
{
    return cuda_lane_note(cudaGetLastError(), what);
}

int cuda_lane_use(int device)
{
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    if (device < 0 || device >= process.device_count)
        return err_set(ERR_USAGE, "no CUDA device %d: expected 0 to %d", device, process.device_count - 1);
    if (lane.stream && device != lane.device) {
        TRY(cuda_lane_wait());
        (void)pthread_setspecific(process.key, NULL);
        TRY(cuda_lane_error(destroy_stream(), "destroying a stream"));
    }
    TRY(cuda_lane_error(cudaSetDevice(device), "selecting a device"));
    lane.device = device;
    return ERR_NONE;
}

int cuda_lane_open(struct CUstream_st **out)
{
    const char *absent = lane.stream ? NULL : cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    if (!lane.stream) {
        cudaStream_t stream;
        TRY(cuda_lane_error(cudaSetDevice(lane.device), "selecting a device"));
        TRY(cuda_lane_error(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
        // Without the key, or memory for its value, the stream lasts as long as the process.
        if (process.has_key)
            (void)pthread_setspecific(process.key, stream);
        lane.stream = stream;
    }
    *out = lane.stream;
    return ERR_NONE;
}

struct CUstream_st *cuda_lane_stream(void)
{
    struct CUstream_st *stream = NULL;
    cuda_lane_keep(cuda_lane_open(&stream));
    return stream;
}

int cuda_lane_noted(void)
{
    return lane.code == ERR_NONE ? ERR_NONE : err_set(lane.code, "%s", lane.message);
}

int cuda_lane_wait(void)
{
    if (lane.stream)
        cuda_lane_note(cudaStreamSynchronize(lane.stream), "enqueued work");
    int code = cuda_lane_noted();
    lane.code = ERR_NONE;
    return code;
}
