// SPDX-License-Identifier: Apache-2.0
// The device that a benchmark's `--device` names, and memory on it: an accelerator's, or host memory without one.
#pragma once

#include "ref/arithmetic/accelerator.h"

#include <jansson.h>
#include "ref/arithmetic/adam.h"

struct bench_device {
    const struct accelerator *accelerator;  // null: the CPU
    int count;                              // of devices, assigned to ranks round-robin; 0 without an accelerator
};

// Finds the device named "cpu" (or null) or "cuda" for `ranks` ranks of this process. launched: a launcher started each
// rank as a process. ERR_USAGE: an unknown name. *absent: this machine has no such device; *out is the CPU then, and
// err_message gives the reason, which the caller reports as a skip.
int bench_device_find(const char *name, int ranks, bool launched, struct bench_device *out, bool *absent);

// Returns "cpu" or the accelerator's name.
const char *bench_device_name(const struct bench_device *device);

// Adds "device" and "devices", their number, to a result's case; nothing for the CPU.
void bench_device_describe(const struct bench_device *device, json_t *of_case);

// Makes the rank's device current in the calling thread.
int bench_device_enter(const struct bench_device *device, int rank);

// Allocates uninitialised memory on the calling thread's current device. ERR_MEMORY: there is too little. The caller
// frees it with bench_device_free (null-safe).
int bench_device_alloc(const struct bench_device *device, size_t bytes, void **out);
void bench_device_free(const struct bench_device *device, void *memory, size_t bytes);

// Returns the memory that is free on the calling thread's current device; SIZE_MAX: it does not tell, as the CPU.
size_t bench_device_free_bytes(const struct bench_device *device);

// Fills memory of the device with `word`; up to three bytes at the end that hold no full word stay as they are. On an
// accelerator it returns once the fill is started, as kernels do.
int bench_device_fill(const struct bench_device *device, void *memory, uint32_t word, size_t bytes);

// Allocates zeroed host memory for copies to and from the device, page-locked for an accelerator. The caller frees it
// with bench_device_free_host (null-safe).
int bench_device_alloc_host(const struct bench_device *device, size_t bytes, void **out);
void bench_device_free_host(const struct bench_device *device, void *memory, size_t bytes);

// A GPU to be measured: its clock, and a kernel that moves the memory streams of Adam. Tests give functions of their
// own in place of the GPU's.
struct bench_gpu {
    const struct accelerator *accelerator;      // current in the calling thread
    int (*begin)(void);                         // starts timing the calling thread's work
    int (*end)(double *ms);                     // waits for that work and returns its duration
    void (*mix)(const struct adam_step *step);  // moves a step's streams with next to no arithmetic
    size_t cache_bytes;                         // of the device's last-level cache: larger arrays do not stay in it
};

// Finds the GPU and makes it current. ERR_USAGE: there is none; the message says why.
int bench_gpu_find(struct bench_gpu *out);

// Time the calling thread's stream on the device that it has entered. Only in builds with CUDA.
int bench_gpu_clock_begin(void);
int bench_gpu_clock_end(double *ms);
