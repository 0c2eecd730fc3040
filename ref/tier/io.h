// SPDX-License-Identifier: Apache-2.0
// Queues of asynchronous file I/O. An engine puts an interface of the kernel (libaio, io_uring) behind four functions;
// io_pool.h moves transfers through a queue.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IO_ALIGNMENT = 4096, IO_BLOCK_MAX_BYTES = 1 << 30, IO_DEPTH_MAX = 4096, IO_THREAD_MAX = 256 };

enum nvme_engine { NVME_LIBAIO, NVME_IO_URING, NVME_ENGINE_COUNT };

// The settings of DeepSpeed's section "aio", with the same meanings.
struct nvme_aio {
    size_t block_bytes;        // of one request to the kernel; the last of a transfer may be shorter
    int queue_depth;           // requests in flight, for each thread
    bool single_submit;        // one system call for each request, instead of one for all that are ready
    bool overlap_events;       // refill the queue as requests complete, instead of waiting for all of them
    int intra_op_parallelism;  // threads that share one transfer, each with its own queue
    enum nvme_engine engine;
};

// One request to the kernel. Request and memory belong to the queue from submit until reap returns them.
struct io_request {
    int file;
    bool write;
    unsigned slot;  // below the queue's depth; no two requests in flight have the same
    uint64_t offset;
    void *memory;
    size_t bytes;
    int64_t result;  // set by reap: bytes moved, or -errno
};

// The first member of every engine's queue. One thread at a time uses a queue.
struct io_queue {
    const struct io_engine *engine;
};

struct io_engine {
    const char *name;
    // ERR_IO gives the kernel's reason.
    int (*open)(int depth, struct io_queue **out);
    // Returns the number of requests that the kernel took, from the first on, or -errno if it took none. -EAGAIN: try
    // again later.
    int (*submit)(struct io_queue *queue, struct io_request *const requests[], int count);
    // Waits until `least` requests have ended (0: does not wait), stores up to `most` ended ones in done and returns
    // their number, or -errno.
    int (*reap)(struct io_queue *queue, int least, struct io_request *done[], int most);
    // Waits for the requests in flight. Null-safe.
    void (*close)(struct io_queue *queue);
};

extern const struct io_engine io_engine_libaio, io_engine_uring;

const struct io_engine *io_engine_of(enum nvme_engine engine);

// Parses "libaio" or "io_uring"; ERR_USAGE for anything else.
int io_engine_parse(const char *name, enum nvme_engine *out);

// Opens a queue of the engine. depth: from 1 to IO_DEPTH_MAX.
int io_queue_open(const struct io_engine *engine, int depth, struct io_queue **out);
void io_queue_close(struct io_queue *queue);  // null-safe
