// SPDX-License-Identifier: Apache-2.0
// The work of two lanes, for lane_load.h: copies between host memory and the device tier, and products of square
// matrices in one thread. With an accelerator the tier is its memory, and the host memory is page-locked; without one
// both are host memory.
#pragma once

#include "bench/harness/bench_device.h"

#include <stdbool.h>
#include <stddef.h>

struct lane_copy {
    struct bench_device device;
    int rank;        // whose device is used
    bool to_device;  // false: from the device
    unsigned char *from, *to;
    unsigned char *twin;  // host memory to fill and verify the accelerator's buffer; null: no accelerator
    unsigned char value;  // of every byte of `from`
    size_t buffer_bytes, piece_bytes;
    size_t copied_bytes;  // since `from` was filled
};

// Allocates the buffers. The caller has set device, rank and to_device and zeroed the rest. bytes: size of the buffer,
// copied in pieces of at most 8 MiB; 0: 64 MiB. Leaves the calling thread on the rank's device. The caller closes it,
// after an error too.
int lane_copy_open(size_t bytes, struct lane_copy *copy);
void lane_copy_close(struct lane_copy *copy);

// Prepares the calling thread for copies, before they are timed.
int lane_copy_enter(const struct lane_copy *copy);

// Copies the next piece.
int lane_copy_run(struct lane_copy *copy);

// Verifies the bytes copied since the last check, then fills `from` with another value. At least one piece must have
// been copied. ERR_CHECK: a byte is wrong.
int lane_copy_check(struct lane_copy *copy);

enum { LANE_COMPUTE_SIDE = 512 };
#define LANE_COMPUTE_FLOPS (2.0 * LANE_COMPUTE_SIDE * LANE_COMPUTE_SIDE * LANE_COMPUTE_SIDE)

// [LANE_COMPUTE_SIDE][LANE_COMPUTE_SIDE] each
struct lane_compute {
    float *a, *b, *product, *expected;
};

// Allocates and fills a zeroed struct. ERR_MEMORY. The caller closes it, after an error too.
int lane_compute_open(struct lane_compute *compute);
void lane_compute_close(struct lane_compute *compute);

// Computes the product once.
void lane_compute_run(const struct lane_compute *compute);

// Verifies every element of the last product, and overwrites it. ERR_CHECK: one is wrong.
int lane_compute_check(struct lane_compute *compute);
