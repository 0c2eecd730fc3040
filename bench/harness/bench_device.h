// SPDX-License-Identifier: Apache-2.0
// What a benchmark's `--device` names, and memory there: an accelerator's, or without one this processor's.
#ifndef ZG_BENCH_DEVICE_H
#define ZG_BENCH_DEVICE_H

#include "ref/arithmetic/accelerator.h"

#include <jansson.h>

struct bench_device {
    const struct accelerator *accelerator;  // null: this processor
    int count;                              // of its devices, which ranks share in turn; 0 without one
};

// Finds what `name` says for so many ranks of this process: "cpu", which null is, too, or "cuda". launched: each rank
// is a process of a launcher. ERR_USAGE: an unknown name. *absent: there is no such device here, which whoever measures
// says in a skip (the message says why), and *out is this processor.
int bench_device_find(const char *name, int ranks, bool launched, struct bench_device *out, bool *absent);

// "cpu", or the accelerator's name.
const char *bench_device_name(const struct bench_device *device);

// Adds to a result's case what it was measured on: "device", and "devices", how many of them. Of this processor
// nothing is added.
void bench_device_describe(const struct bench_device *device, json_t *of_case);

// The calling thread works from now on where the rank does.
int bench_device_enter(const struct bench_device *device, int rank);

// Memory where the calling thread works, of any contents. ERR_MEMORY. Given back with bench_device_free (null-safe).
int bench_device_alloc(const struct bench_device *device, size_t bytes, void **out);
void bench_device_free(const struct bench_device *device, void *memory, size_t bytes);

// Every four bytes of such memory become `word`, whole ones alone. Of an accelerator that is begun, as its kernels are.
int bench_device_fill(const struct bench_device *device, void *memory, uint32_t word, size_t bytes);

// Memory of this processor that copies to and from the device begin or end in: bench_alloc's, page-locked for the
// accelerator. Given back with bench_device_free_host (null-safe).
int bench_device_alloc_host(const struct bench_device *device, size_t bytes, void **out);
void bench_device_free_host(const struct bench_device *device, void *memory, size_t bytes);

#endif
