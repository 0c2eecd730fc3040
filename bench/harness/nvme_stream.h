// SPDX-License-Identifier: Apache-2.0
// Streams of requests of one size, kept in flight for a time over files whose contents are known. Every 512 bytes begin
// with a stamp made of the file, the offset and the number of times they were written. Each read compares the first
// stamp in every 4 KiB, which finds stale and misplaced blocks; untimed passes compare all other stamps and the bytes
// between.
#pragma once

#include "ref/executor/emulation.h"
#include "ref/tier/io_pool.h"
#include "ref/tier/nvme_folder.h"

// One unnamed file of the same size in each folder; they vanish with the process.
struct nvme_files {
    int count;
    uint64_t bytes;  // of each
    struct nvme_folder *folders;
    uint32_t **passes;  // [file][4 KiB block]: how often it was written
};

// Creates the files and reserves their space; bytes is a multiple of 4096, above 0. Nothing is written. ERR_IO names
// the folder without enough space.
int nvme_files_open(const char *const paths[], int count, uint64_t bytes, bool buffered, struct nvme_files *out);
void nvme_files_close(struct nvme_files *files);

enum stream_direction { STREAM_READ, STREAM_WRITE, STREAM_MIXED, STREAM_DIRECTION_COUNT };

const char *stream_direction_name(enum stream_direction direction);

struct stream {
    struct nvme_files *files;
    enum nvme_engine engine;
    enum stream_direction direction;  // mixed: reads of the first half and writes of the second, in turn
    size_t block_bytes;               // of a request, a multiple of 4096
    int depth;
    bool random;                        // random offsets instead of sequential ones; with depth 1 only
    double seconds;                     // no request starts later; those in flight finish
    uint64_t block_max;                 // no request starts after this many; 0: no limit
    const struct emulation *emulation;  // limits the rates of reads and writes; null: no limits
    bool thorough;                      // compares every byte that is read, not one stamp per 4 KiB
};

struct stream_result {
    uint64_t bytes, ns;
    uint64_t *latencies_ns;  // with depth 1, of each request in order of completion; the caller frees it; else null
    size_t request_count;
};

// Runs a stream. ERR_CHECK: a block does not hold what was last written. ERR_USAGE: the files are too small for the
// depth.
int stream_run(const struct stream *stream, struct stream_result *out);

// Reads back what a sequential stream of writes in blocks of `block_bytes` has written, `bytes` from the first block
// on, and compares every byte.
int stream_read_back(struct nvme_files *files, uint64_t bytes, size_t block_bytes);

// Writes all blocks, or reads all and compares every byte.
int stream_all(struct nvme_files *files, enum stream_direction direction);
