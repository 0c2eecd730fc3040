// SPDX-License-Identifier: Apache-2.0
// A pool of threads, each with a worker (io_worker.h), that share one transfer.
#ifndef ZG_IO_POOL_H
#define ZG_IO_POOL_H

#include "ref/tier/io_worker.h"

struct io_pool;

// Opens a pool of aio->intra_op_parallelism workers with queues of `engine`; aio->engine is ignored. inject (null: no
// faults) outlives the pool. ERR_USAGE names a setting outside its range; ERR_IO: the kernel provides no such queue.
int io_pool_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                 struct io_pool **out);
void io_pool_close(struct io_pool *pool);  // null-safe

// Runs the transfer; nothing is in flight on return, whether it succeeded or not. One call at a time. Each thread moves
// one contiguous part of whole blocks. ERR_IO names path and offset.
int io_pool_transfer(struct io_pool *pool, const struct io_transfer *transfer);

#endif
