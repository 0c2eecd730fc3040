// SPDX-License-Identifier: Apache-2.0
// Products of square matrices in one thread, for lane_load.h.
#ifndef ZG_LANE_COMPUTE_H
#define ZG_LANE_COMPUTE_H

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

#endif
