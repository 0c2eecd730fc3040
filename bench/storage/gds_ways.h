// SPDX-License-Identifier: Apache-2.0
// The two ways between a GPU's memory and files: cuFile's, and the tiers', through page-locked host memory in pieces,
// of which one is copied to or from the GPU while another is read or written. Both move the same bytes, which are
// known and compared after every sample.
#ifndef ZG_GDS_WAYS_H
#define ZG_GDS_WAYS_H

#include "bench/harness/bench_device.h"
#include "bench/storage/gds_files.h"
#include "ref/tier/io_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gds_setting {
    const struct bench_device *device;  // the first of its devices is used, which the caller has entered
    const struct gds_files *files;      // all of their bytes are moved; blocks lie in them in turn
    size_t block_bytes;                 // of one request; a multiple of IO_ALIGNMENT that divides a file's bytes
    int flight_count;                   // requests: cuFile's threads, or the depth of the other engine's queue
    enum nvme_engine engine;            // of the way through the host
};

struct gds_ways;

// cuFile is open (io_cufile.h). Writes the files. ERR_USAGE: they are too small for so many requests in flight.
int gds_ways_open(const struct gds_setting *setting, struct gds_ways **out);
void gds_ways_close(struct gds_ways *ways);  // null-safe

// One sample: of all bytes, from files to the GPU or back. Before a write they become new ones, and the files are read
// back through the host after it; before a read there is nothing of them on the GPU, which is compared after it.
// ERR_CHECK names the byte that is wrong.
int gds_ways_sample(struct gds_ways *ways, bool write, bool direct, double *bytes_per_ns);

// Bytes of a piece of the way through the host, which has memory for two.
size_t gds_ways_piece_bytes(const struct gds_ways *ways);

#endif
