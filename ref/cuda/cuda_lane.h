// SPDX-License-Identifier: Apache-2.0
// The calling thread's place on a GPU: its device, and a stream of its own, made at first use and destroyed when the
// thread ends. A thread of the overlap schedule is a lane, so each lane has a stream, and lanes overlap on the device
// as they do on processors. The streams do not wait for the legacy default stream.
//
// Work that is enqueued here is complete after cuda_lane_wait by the same thread; before that no other thread may
// count on it. A call that cannot return an error notes it, and cuda_lane_wait returns the first one noted.
#ifndef ZG_CUDA_LANE_H
#define ZG_CUDA_LANE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;  // what a cudaStream_t points to

// NULL where the process can use a GPU; else "no CUDA device: " and the reason. The first call asks the driver.
const char *cuda_lane_absent(void);

// Devices of this process; 0 without any.
int cuda_lane_device_count(void);

// The device of a rank that is the local_rank-th on its host: ranks take turns, so that several share one where there
// are more ranks than devices. device_count > 0.
int cuda_lane_device_of(int local_rank, int device_count);

// From now on the calling thread works on that device; by default on device 0. ERR_USAGE: there is no such device.
int cuda_lane_use(int device);
int cuda_lane_device(void);

// The calling thread's stream on its device. When it cannot be made that is noted, and the result is NULL, which
// launches and copies take as the default stream: they fail or do harm to nobody, and the error is not lost.
struct CUstream_st *cuda_lane_stream(void);

// Returns ERR_NONE if status, a cudaError_t, is cudaSuccess; else sets the message, "CUDA: WHAT on device D: NAME:
// DESCRIPTION", and returns ERR_MEMORY for want of memory, ERR_IO otherwise.
int cuda_lane_error(unsigned status, const char *what);

// The same, and keeps the first such error of the thread until its next cuda_lane_wait.
int cuda_lane_note(unsigned status, const char *what);

// Notes an error whose message is set: ERR_NONE does nothing. Returns code.
int cuda_lane_keep(int code);

// Notes what the launch just made says of itself (cudaGetLastError). what names the kernel.
int cuda_lane_launched(const char *what);

// Returns when all that the calling thread has enqueued on its stream is complete. The error is the first noted, or
// else what went wrong on the device. Without a stream there is nothing to wait for.
int cuda_lane_wait(void);

#ifdef __cplusplus
}
#endif

#endif
