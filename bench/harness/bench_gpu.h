// SPDX-License-Identifier: Apache-2.0
// A GPU to be measured: its clock, and a kernel that moves the memory streams of Adam. Tests give functions of their
// own in place of the GPU's.
#ifndef ZG_BENCH_GPU_H
#define ZG_BENCH_GPU_H

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/adam.h"

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

#endif
