// SPDX-License-Identifier: Apache-2.0
// Storage at work: requests of one size kept in flight for a time, over files whose contents are known. Every 512 bytes
// begin with a stamp made of their file, their offset and how often they were written. Whatever read comes across 4 KiB
// compares the first stamp of them, so that a block that is stale or misplaced shows; the others, and what is between
// them, are compared when no clock runs.
#ifndef ZG_NVME_STREAM_H
#define ZG_NVME_STREAM_H

#include "ref/executor/emulation.h"
#include "ref/tier/io_pool.h"
#include "ref/tier/nvme_folder.h"

// One file of the same size in each folder; unnamed, and gone with the program.
struct nvme_files {
    int count;
    uint64_t bytes;  // of each
    struct nvme_folder *folders;
    uint32_t **passes;  // of each file: how often each 4 KiB has been written
};

// Reserves the space; ERR_IO says where there is not enough of it. Nothing is written yet.
int nvme_files_open(const char *const paths[], int count, uint64_t bytes, bool buffered, struct nvme_files *out);
void nvme_files_close(struct nvme_files *files);

enum stream_direction { STREAM_READ, STREAM_WRITE, STREAM_MIXED, STREAM_DIRECTION_COUNT };

const char *stream_direction_name(enum stream_direction direction);

struct stream {
    struct nvme_files *files;
    enum nvme_engine engine;
    enum stream_direction direction;  // mixed: reads of the first half and writes of the second, in turn
    size_t block_bytes;
    int depth;
    bool random;                        // places by chance instead of one after the other; with depth 1 only
    double seconds;                     // nothing is begun later; what is in flight ends
    uint64_t block_max;                 // or after so many blocks; 0: no limit
    const struct emulation *emulation;  // how fast reads and writes are at most; null: as fast as they are
    bool thorough;                      // every byte that is read is compared, not one stamp in 4 KiB
};

struct stream_result {
    uint64_t bytes, ns;
    uint64_t *latencies_ns;  // of each request, in the order in which they ended; null unless depth is 1. To be freed
    size_t request_count;
};

// ERR_CHECK where something was read that is not what was written there last.
int stream_run(const struct stream *stream, struct stream_result *out);

// Writes all, or reads all and compares every byte.
int stream_all(struct nvme_files *files, enum stream_direction direction);

#endif
