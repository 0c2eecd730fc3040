// SPDX-License-Identifier: Apache-2.0
// Copies between host memory and the device tier, over and over, for lane_load.h. The tier is an accelerator's memory,
// and then the host's is page-locked; without one both are host memory.
#ifndef ZG_LANE_COPY_H
#define ZG_LANE_COPY_H

#include "bench/harness/bench_device.h"

#include <stdbool.h>
#include <stddef.h>

struct lane_copy {
    struct bench_device device;
    int rank;        // that copies
    bool to_device;  // else from there
    unsigned char *from, *to;
    unsigned char *twin;  // this processor's, of what lies on an accelerator; null: nothing does
    unsigned char value;  // that from holds
    size_t buffer_bytes, piece_bytes;
    size_t copied_bytes;  // since it does
};

// Device, rank and to_device are set, all else is zero. bytes: of all that is copied over and over, in pieces of at
// most 8 MiB; 0: 64 MiB. The calling thread has then entered the rank's device. Closed with lane_copy_close, also
// after an error.
int lane_copy_open(size_t bytes, struct lane_copy *copy);
void lane_copy_close(struct lane_copy *copy);

// The calling thread enters the rank's device, before any clock; then it copies one piece after the other.
int lane_copy_enter(const struct lane_copy *copy);
int lane_copy_run(struct lane_copy *copy);

// ERR_CHECK where what was copied since the last time is not there. From then on other bytes are copied.
int lane_copy_check(struct lane_copy *copy);

#endif
