// SPDX-License-Identifier: Apache-2.0
// Asynchronous file I/O. An engine is the kernel's interface (libaio, io_uring) behind four functions; a pool is a
// number of threads, each with a queue of that engine, that share a transfer: they cut it into requests of block_bytes,
// keep queue_depth of them in flight, and go on where the kernel delivers less than it was asked for.
#ifndef ZG_IO_H
#define ZG_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IO_ALIGNMENT = 4096, IO_BLOCK_MAX_BYTES = 1 << 30, IO_DEPTH_MAX = 4096, IO_THREAD_MAX = 256 };

enum nvme_engine { NVME_LIBAIO, NVME_IO_URING, NVME_ENGINE_COUNT };

// DeepSpeed's section "aio", with its meaning.
struct nvme_aio {
    size_t block_bytes;        // of one request to the kernel; the last of a transfer may be shorter
    int queue_depth;           // requests in flight, for each thread
    bool single_submit;        // one system call a request, not one for all that are ready
    bool overlap_events;       // refill the queue as requests complete, instead of waiting for all of them
    int intra_op_parallelism;  // threads that share one transfer, each with a queue of its own
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
    int64_t result;  // set by reap: bytes that were moved, or -errno
};

// What an engine's own queue begins with. A queue is for one thread at a time.
struct io_queue {
    const struct io_engine *engine;
};

struct io_engine {
    const char *name;
    // ERR_IO says why the kernel gives none.
    int (*open)(int depth, struct io_queue **out);
    // How many of the requests, from the first on, the kernel took; or -errno where it took none. -EAGAIN: later.
    int (*submit)(struct io_queue *queue, struct io_request *const requests[], int count);
    // Waits until `least` requests have ended (0: does not wait) and puts up to `most` of those that have into done.
    // How many, or -errno.
    int (*reap)(struct io_queue *queue, int least, struct io_request *done[], int most);
    // Waits for what is in flight. Null-safe.
    void (*close)(struct io_queue *queue);
};

extern const struct io_engine io_engine_libaio, io_engine_uring;

const struct io_engine *io_engine_of(enum nvme_engine engine);

// "libaio" or "io_uring"; ERR_USAGE for anything else.
int io_engine_parse(const char *name, enum nvme_engine *out);

struct inject;

// A queue of the engine; with a null `inject` as it is, else with its faults.
int io_queue_open(const struct io_engine *engine, int depth, struct inject *inject, struct io_queue **out);
void io_queue_close(struct io_queue *queue);  // null-safe

// Makes sure that the file system has room for bytes of the file from offset on. 0 or -errno.
int io_reserve(struct inject *inject, int file, uint64_t offset, uint64_t bytes);

// Where a byte of a transfer lies, on the disk and in memory, and which way it goes.
struct io_location {
    bool write;
    int file;
    const char *path;        // the folder of the file, for messages
    size_t alignment_bytes;  // to which the rest of a request that was cut short must be aligned to be asked for again
    uint64_t offset;
    unsigned char *memory;  // not changed by a write
    size_t bytes;           // contiguous from there on in both; 0: the transfer ends here
};

struct io_transfer {
    uint64_t bytes;
    // Where byte `at` of the transfer lies; asked once for each request, in order, when it can be sent.
    void (*locate)(void *context, uint64_t at, struct io_location *out);
    // Called for each request that has moved all of its bytes, by the thread that moved it, while others are in
    // flight; its error ends the transfer. May be null.
    int (*finish)(void *context, uint64_t at, const unsigned char *memory, size_t bytes);
    void *context;
};

struct io_pool;

// The engine counts, not the one in aio. ERR_USAGE for settings that cannot be; ERR_IO where the kernel has no such
// queues. The faults outlive the pool.
int io_pool_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                 struct io_pool **out);
void io_pool_close(struct io_pool *pool);  // null-safe

// Returns when nothing is in flight any more, whether it succeeded or not. Not for two threads at once. The threads of
// a pool get contiguous parts of whole blocks. ERR_IO names path and offset.
int io_pool_transfer(struct io_pool *pool, const struct io_transfer *transfer);

#endif
