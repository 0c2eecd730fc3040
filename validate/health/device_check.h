// SPDX-License-Identifier: Apache-2.0
// The GPUs of this host, for `preflight --device cuda` and `soak --device cuda`: every multiprocessor computes the
// processor's bits, alone and while all others work; nine tenths of what is free of the memory keep each pattern and
// its complement, and where the device gives less, that is a wrong result; copies arrive unchanged both ways. A GPU
// without ECC, or with a broken multiprocessor, corrupts silently what it trains.
#pragma once

#include "validate/health/health_round.h"

// The names by which --inject flips a bit, each time that one is tested: products at a multiprocessor, the others at a
// device.
#define DEVICE_PRODUCTS "gpu-products"
#define DEVICE_MEMORY "gpu-memory"
#define DEVICE_COPIES "gpu-copies"

struct device_flip {
    const char *operation;  // null: none
    int at;
    uint64_t round;  // 0: in every round
};

// *devices: their number; *multiprocessors: of the one with most. ERR_USAGE: name is not "cuda", this build has no
// CUDA, or no device is usable.
int device_check_find(const char *name, int *devices, int *multiprocessors);

// Checks all devices once. Wrong results are appended to the round's mismatches, with HEALTH_CORE_GPU; `text`
// receives a line about what was right, "" where anything is wrong. ERR_MEMORY, ERR_IO: a device failed.
int device_check(uint64_t seed, const struct device_flip *flip, uint64_t round_number, struct health_round *round,
                 char text[HEALTH_TEXT_MAX]);

// The same in a build with CUDA (cuda_check.c), and the multiprocessors of a device, 0 where the driver does not say.
int cuda_check_multiprocessors(int device);
int cuda_check(uint64_t seed, const struct device_flip *flip, uint64_t round_number, struct health_round *round,
               char text[HEALTH_TEXT_MAX]);
