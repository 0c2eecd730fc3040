// SPDX-License-Identifier: Apache-2.0
// Devices and errors.
#include "ci/standin/standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Few blocks are held, so that grids are small.
enum { MULTIPROCESSORS = 2, DEVICE_MAX = 16, L2_BYTES = 1 << 20 };

static _Thread_local struct {
    int device;
    cudaError_t last;
} own;

void standin_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("CUDA stand-in: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

bool standin_refuses(const char *function)
{
    const char *named = getenv("ZG_STANDIN_REFUSE");
    return named && strcmp(named, function) == 0;
}

cudaError_t standin_status(cudaError_t status)
{
    if (status != cudaSuccess)
        own.last = status;
    return status;
}

static int number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

static int device_count(void)
{
    int count = number("ZG_STANDIN_DEVICES", 1);
    return count < DEVICE_MAX ? count : DEVICE_MAX;
}

int standin_device(void)
{
    return own.device;
}

static bool is_device(int device)
{
    return device >= 0 && device < device_count();
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = device_count();
    return standin_status(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (!is_device(device))
        return standin_status(cudaErrorInvalidDevice);
    own.device = device;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    size_t free_bytes;
    int capability = number("ZG_STANDIN_CAPABILITY", 90);
    if (!is_device(device))
        return standin_status(cudaErrorInvalidDevice);
    *out = (struct cudaDeviceProp){.name = STANDIN_NAME};
    out->major = capability / 10;
    out->minor = capability % 10;
    out->multiProcessorCount = MULTIPROCESSORS;
    out->asyncEngineCount = 1;
    out->l2CacheSize = L2_BYTES;
    out->pciBusID = 0x3b + device;  // as NVML's part has it (nvml.c)
    return cudaMemGetInfo(&free_bytes, &out->totalGlobalMem);
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp of;
    cudaError_t status = cudaGetDeviceProperties(&of, device);
    if (status != cudaSuccess)
        return status;
    switch ((int)attribute) {
    case cudaDevAttrMultiProcessorCount:
        *out = of.multiProcessorCount;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *out = of.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *out = of.minor;
        break;
    case cudaDevAttrL2CacheSize:
        *out = of.l2CacheSize;
        break;
    default:
        standin_die("attribute %d of a device is unknown", (int)attribute);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int other)
{
    if (!is_device(device) || !is_device(other))
        return standin_status(cudaErrorInvalidDevice);
    *out = device != other;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    (void)flags;
    return standin_status(is_device(other) && other != own.device ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t last = own.last;
    own.last = cudaSuccess;
    return last;
}

// clang-format off
#define ERRORS(row) \
    row(cudaSuccess, "no error") \
    row(cudaErrorInvalidValue, "invalid argument") \
    row(cudaErrorMemoryAllocation, "out of memory") \
    row(cudaErrorInvalidConfiguration, "invalid configuration argument") \
    row(cudaErrorInvalidPitchValue, "invalid pitch argument") \
    row(cudaErrorNoDevice, "no CUDA-capable device is detected") \
    row(cudaErrorInvalidDevice, "invalid device ordinal") \
    row(cudaErrorNotReady, "device not ready") \
    row(cudaErrorInvalidResourceHandle, "invalid resource handle") \
    row(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
    row(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") \
    row(cudaErrorIllegalState, "the operation cannot be performed in the present state") \
    row(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
    row(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture") \
    row(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a captured one") \
    row(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")
// clang-format on
#define NAME(error, text)                                                                                              \
    case error:                                                                                                        \
        return #error;
#define TEXT(error, text)                                                                                              \
    case error:                                                                                                        \
        return text;

const char *cudaGetErrorName(cudaError_t error)
{
    switch ((int)error) {
        ERRORS(NAME)
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch ((int)error) {
        ERRORS(TEXT)
    }
    return "unrecognized error code";
}
