// SPDX-License-Identifier: Apache-2.0
// Transfers between files and memory. A worker moves a part of a transfer on one thread: it cuts the part into requests
// of block_bytes, keeps queue_depth of them in flight, and requests the rest again where the kernel moves less than a
// request's bytes. A pool of workers shares a transfer among threads.
#pragma once

#include "ref/tier/io.h"

#include <stdatomic.h>

struct inject;

// The location of a byte of a transfer on disk and in memory, and the direction.
struct io_location {
    bool write;
    int file;
    const char *path;        // the folder of the file, for messages
    size_t alignment_bytes;  // a shorter move than this cannot be continued; 1: any can
    uint64_t offset;
    unsigned char *memory;  // only read by a write
    size_t bytes;           // contiguous from there in both file and memory; 0: the transfer ends here
};

struct io_transfer {
    uint64_t bytes;
    // Locates byte `at` of the transfer. Called once for each request, in order, just before it is submitted.
    void (*locate)(void *context, uint64_t at, struct io_location *out);
    // Called after all bytes of a request have moved, on the thread that moved them, while other requests are in
    // flight. An error ends the transfer. May be null.
    int (*finish)(void *context, uint64_t at, const unsigned char *memory, size_t bytes);
    void *context;
    // The number of transfers under way that have priority; null: none has. While there are some, this transfer keeps a
    // quarter of its queue in flight, and at least one request, so that it always goes on.
    const atomic_int *prior_count;
};

struct io_worker;

// Opens a worker with a queue of the engine; aio, engine and inject (null: no faults) outlive it.
int io_worker_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                   struct io_worker **out);
void io_worker_close(struct io_worker *worker);  // null-safe

// Moves bytes [begin, end) of the transfer; nothing is in flight on return. Ends early, without an error of its own,
// once *failed is true. ERR_IO names path and offset.
int io_worker_move(struct io_worker *worker, const struct io_transfer *transfer, uint64_t begin, uint64_t end,
                   const _Atomic bool *failed);

// A pool of threads, each with a worker, that share one transfer.

struct io_pool;

// Opens a pool of aio->intra_op_parallelism workers with queues of `engine`; aio->engine is ignored. inject (null: no
// faults) outlives the pool. ERR_USAGE names a setting outside its range; ERR_IO: the kernel provides no such queue.
int io_pool_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                 struct io_pool **out);
void io_pool_close(struct io_pool *pool);  // null-safe

// Runs the transfer; nothing is in flight on return, whether it succeeded or not. One call at a time. Each thread moves
// one contiguous part of whole blocks. ERR_IO names path and offset.
int io_pool_transfer(struct io_pool *pool, const struct io_transfer *transfer);
