// SPDX-License-Identifier: Apache-2.0
// The device and the stream of the calling thread. The stream is created at first use and destroyed when the thread
// ends, after its users; it does not wait for the legacy default stream. Each lane of the overlap schedule is a thread
// and so has its own stream: lanes overlap on the device as they do on the host.
//
// Enqueued work is complete after cuda_lane_wait by the same thread; other threads must not use its results before. A
// function that returns no error notes it instead; cuda_lane_wait returns the first error noted.
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;  // cudaStream_t points to it

// Returns null if the process can use a GPU, else "no CUDA device: " and the reason, which may be a GPU older than
// those that the kernels are built for. The first call queries the driver.
const char *cuda_lane_absent(void);

// Returns the number of devices of this process, which may be 0.
int cuda_lane_device_count(void);

// Selects the calling thread's device; the default is device 0. ERR_USAGE: the device does not exist.
int cuda_lane_use(int device);
int cuda_lane_device(void);

// Gives the calling thread's stream on its device. cuda_lane_stream notes the error instead, and returns null, the
// default stream for launches and copies.
int cuda_lane_open(struct CUstream_st **out);
struct CUstream_st *cuda_lane_stream(void);

// A user of the calling thread's stream that must end before it does.
struct cuda_lane_user {
    void (*close)(struct cuda_lane_user *user);
    struct cuda_lane_user *next;  // of the lane
};

// Has user->close called once before the calling thread's stream is destroyed, at the thread's end or by cuda_lane_use;
// the last user is closed first. The caller owns *user, which exists until then. The thread has a stream.
void cuda_lane_join(struct cuda_lane_user *user);

// Returns ERR_NONE if status, a cudaError_t, is cudaSuccess. Otherwise sets the message "CUDA: WHAT on device D: NAME:
// DESCRIPTION" and returns ERR_MEMORY if memory is exhausted, else ERR_IO.
int cuda_lane_error(unsigned status, const char *what);

// As cuda_lane_error; also notes the error.
int cuda_lane_note(unsigned status, const char *what);

// Notes the current message as an error; ERR_NONE does nothing. Returns code.
int cuda_lane_keep(int code);

// Notes the error of the last kernel launch (cudaGetLastError). what names the kernel.
int cuda_lane_launched(const char *what);

// Returns the first error noted, which stays noted.
int cuda_lane_noted(void);

// Waits for all work on the calling thread's stream, if it has one. Returns the first noted error, else the device's
// error.
int cuda_lane_wait(void);

#ifdef __cplusplus
}
#endif
