// SPDX-License-Identifier: Apache-2.0
// Two ways between a GPU's memory and files: cuFile, and the path through page-locked host memory in pieces, of which
// one is copied to or from the GPU while another is read or written. Both move the same known bytes, which are verified
// after every sample.
#ifndef ZG_GDS_WAYS_H
#define ZG_GDS_WAYS_H

#include "bench/harness/bench_device.h"
#include "bench/storage/gds_files.h"
#include "ref/tier/io_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gds_setting {
    const struct bench_device *device;  // its first device is used, which the caller has entered
    const struct gds_files *files;      // a sample moves all of their bytes, striped by block
    size_t block_bytes;                 // of one request; a multiple of IO_ALIGNMENT that divides a file's bytes
    int flight_count;                   // requests in flight: cuFile's threads, or the depth of the engine's queue
    enum nvme_engine engine;            // of the path through host memory
};

struct gds_ways;

// Writes the files; cuFile is open (io_cufile.h). ERR_USAGE: the files are too small for the requests in flight.
int gds_ways_open(const struct gds_setting *setting, struct gds_ways **out);
void gds_ways_close(struct gds_ways *ways);  // null-safe

// Takes one sample: moves all bytes from the files to the GPU, or back (write), by cuFile (direct) or through host
// memory. Before a write the data is renewed, and afterwards the files are read back through the host; before a read
// the GPU's memory is cleared, and afterwards it is compared. ERR_CHECK names the wrong byte.
int gds_ways_sample(struct gds_ways *ways, bool write, bool direct, double *bytes_per_ns);

// Returns the bytes of a piece of the path through host memory, which has two buffers of this size.
size_t gds_ways_piece_bytes(const struct gds_ways *ways);

#endif
