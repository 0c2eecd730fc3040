// SPDX-License-Identifier: Apache-2.0
// A transfer, cut into requests that one thread keeps in flight; and the pool of threads that share one.
#include "ref/tier/io.h"

#include "base/err.h"
#include "ref/tier/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct io_engine *io_engine_of(enum nvme_engine engine)
{
    static const struct io_engine *const engines[NVME_ENGINE_COUNT] = {
        [NVME_LIBAIO] = &io_engine_libaio, [NVME_IO_URING] = &io_engine_uring};
    return engines[engine];
}

int io_engine_parse(const char *name, enum nvme_engine *out)
{
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        if (strcmp(name, io_engine_of((enum nvme_engine)engine)->name) == 0) {
            *out = (enum nvme_engine)engine;
            return ERR_NONE;
        }
    return err_set(ERR_USAGE, "unknown I/O engine '%s'; known are libaio and io_uring", name);
}

int io_queue_open(const struct io_engine *engine, int depth, struct inject *inject, struct io_queue **out)
{
    return inject ? inject_queue_open(inject, engine, depth, out) : engine->open(depth, out);
}

void io_queue_close(struct io_queue *queue)
{
    if (queue)
        queue->engine->close(queue);
}

int io_reserve(struct inject *inject, int file, uint64_t offset, uint64_t bytes)
{
    if (inject && inject_takes_space(inject))
        return -ENOSPC;
    int code;
    do
        code = fallocate(file, 0, (off_t)offset, (off_t)bytes);
    while (code != 0 && errno == EINTR);
    return code == 0 ? 0 : -errno;
}

// A request on its way, and what it is part of.
struct slot {
    struct io_request request;
    uint64_t at;  // in the transfer
    size_t bytes;
    struct io_location location;
    int attempts;
};

// One thread of a pool.
struct worker {
    struct io_pool *pool;
    struct io_queue *queue;
    struct slot *slots;
    struct io_request **ready;  // slots whose request is to be handed to the kernel
    struct io_request **done;
    unsigned *vacant;  // slots without a request
    int ready_count, vacant_count, flight_count;
    uint64_t begin, end;  // its part of the transfer
    pthread_t thread;
    bool wanted;  // under the pool's mutex: a part is waiting
    int code;
    char message[2048];
};

struct io_pool {
    const struct io_engine *engine;
    struct nvme_aio aio;
    const struct io_transfer *transfer;
    _Atomic bool failed;  // somebody's part; the others need not go on
    pthread_mutex_t mutex;
    pthread_cond_t begin, end;
    int busy_count;  // workers that have not ended their parts; this and closing are under the mutex
    bool closing;
    int worker_count;  // the calling thread and those that were started
    struct worker workers[];
};

enum { ATTEMPTS_MAX = 1000 };

static int fail(const struct slot *slot, const char *what)
{
    const struct io_request *request = &slot->request;
    return err_set(ERR_IO, "%s: %s %zu bytes at offset %" PRIu64 " of the file there: %s", slot->location.path,
                   request->write ? "writing" : "reading", request->bytes, request->offset, what);
}

// Cuts the next request from the part that begins at *next.
static void cut(struct worker *worker, uint64_t *next)
{
    const struct io_transfer *transfer = worker->pool->transfer;
    struct io_location location;
    transfer->locate(transfer->context, *next, &location);
    if (location.bytes == 0) {
        worker->end = *next;
        return;
    }
    unsigned index = worker->vacant[--worker->vacant_count];
    struct slot *slot = &worker->slots[index];
    *slot = (struct slot){.at = *next, .bytes = worker->pool->aio.block_bytes, .location = location};
    if (slot->bytes > location.bytes)
        slot->bytes = location.bytes;
    if (slot->bytes > worker->end - *next)
        slot->bytes = worker->end - *next;
    slot->request = (struct io_request){.file = location.file,
                                        .write = location.write,
                                        .slot = index,
                                        .offset = location.offset,
                                        .memory = location.memory,
                                        .bytes = slot->bytes};
    *next += slot->bytes;
    worker->ready[worker->ready_count++] = &slot->request;
}

// Hands the kernel what is ready, as far as it takes it.
static int submit(struct worker *worker)
{
    int sent = 0, code = ERR_NONE;
    while (sent < worker->ready_count) {
        int count = worker->pool->aio.single_submit ? 1 : worker->ready_count - sent;
        int taken = worker->queue->engine->submit(worker->queue, worker->ready + sent, count);
        if (taken > 0) {
            sent += taken;
            worker->flight_count += taken;
            continue;
        }
        struct slot *slot = (struct slot *)worker->ready[sent];
        bool transient = taken == 0 || taken == -EAGAIN || taken == -EINTR || taken == -EBUSY;
        if (!transient || ++slot->attempts > ATTEMPTS_MAX) {
            code = fail(slot, strerror(taken < 0 ? -taken : EAGAIN));
            break;
        }
        if (worker->flight_count > 0)
            break;  // one that ends makes room
        usleep(1000);
    }
    worker->ready_count -= sent;
    memmove(worker->ready, worker->ready + sent, (size_t)worker->ready_count * sizeof(struct io_request *));
    return code;
}

// What a request has come to: it is over, it failed, or what is left of it is ready to be asked for again.
static int settle(struct worker *worker, struct slot *slot)
{
    struct io_request *request = &slot->request;
    const struct io_transfer *transfer = worker->pool->transfer;
    int64_t moved = request->result;
    if (moved == (int64_t)request->bytes) {
        worker->vacant[worker->vacant_count++] = request->slot;
        if (!transfer->finish)
            return ERR_NONE;
        return transfer->finish(transfer->context, slot->at, slot->location.memory, slot->bytes);
    }
    if (moved == -EAGAIN || moved == -EINTR) {
        if (++slot->attempts > ATTEMPTS_MAX)
            return fail(slot, strerror((int)-moved));
        if (moved == -EAGAIN)
            usleep(1000);
        moved = 0;
    } else if (moved < 0) {
        return fail(slot, strerror((int)-moved));
    } else if (moved == 0 || moved > (int64_t)request->bytes || (size_t)moved % slot->location.alignment_bytes != 0) {
        char what[160];
        snprintf(what, sizeof what, "only %" PRId64 " bytes were moved, and the rest cannot be asked for: %s", moved,
                 moved == 0 ? "the file ends there" : "it is not aligned for direct I/O");
        return fail(slot, what);
    }
    request->offset += (uint64_t)moved;
    request->memory = (char *)request->memory + moved;
    request->bytes -= (size_t)moved;
    worker->ready[worker->ready_count++] = request;
    return ERR_NONE;
}

static int reap(struct worker *worker, int least, int most)
{
    const struct io_engine *engine = worker->queue->engine;
    int count;
    do
        count = engine->reap(worker->queue, least, worker->done, most);
    while (count == -EINTR);
    return count;
}

// Gives the queue up, which waits for what is in flight: nothing else is known of it any more.
static void abandon(struct worker *worker)
{
    io_queue_close(worker->queue);
    worker->queue = NULL;
    worker->flight_count = 0;
}

static int work(struct worker *worker)
{
    struct io_pool *pool = worker->pool;
    if (!worker->queue)
        return err_set(ERR_IO, "%s: the queue was given up after an error", pool->engine->name);
    worker->ready_count = 0;
    worker->vacant_count = pool->aio.queue_depth;
    for (int i = 0; i < worker->vacant_count; i++)
        worker->vacant[i] = (unsigned)(worker->vacant_count - 1 - i);
    uint64_t next = worker->begin;
    int batch = pool->aio.queue_depth < 8 ? 1 : pool->aio.queue_depth / 8;
    int code = ERR_NONE;
    for (;;) {
        bool going = code == ERR_NONE && !pool->failed;
        while (going && next < worker->end && worker->vacant_count > 0)
            cut(worker, &next);
        if (going && worker->ready_count > 0)
            code = submit(worker);
        if (worker->flight_count == 0) {
            if (code != ERR_NONE || pool->failed || (worker->ready_count == 0 && next == worker->end))
                return code;
            continue;
        }
        // Where many have ended, only some are looked at before the queue is filled again: the disk has work meanwhile.
        bool some = pool->aio.overlap_events && going;
        int count = reap(worker, some ? 1 : worker->flight_count, some ? batch : worker->flight_count);
        if (count < 0) {
            abandon(worker);
            if (code != ERR_NONE)
                return code;
            return err_set(ERR_IO, "%s: waiting for requests: %s", pool->engine->name, strerror(-count));
        }
        worker->flight_count -= count;
        // After an error only the waiting is left: the first message stays.
        for (int i = 0; i < count && code == ERR_NONE; i++)
            code = settle(worker, (struct slot *)worker->done[i]);
    }
}

// Its part, and the message where that fails: a message is its thread's.
static void part(struct worker *worker)
{
    worker->code = worker->begin < worker->end ? work(worker) : ERR_NONE;
    if (worker->code == ERR_NONE)
        return;
    worker->pool->failed = true;
    snprintf(worker->message, sizeof worker->message, "%s", err_message());
}

static void *worker_run(void *argument)
{
    struct worker *worker = argument;
    struct io_pool *pool = worker->pool;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->closing && !worker->wanted)
            pthread_cond_wait(&pool->begin, &pool->mutex);
        if (pool->closing)
            break;
        worker->wanted = false;
        pthread_mutex_unlock(&pool->mutex);
        part(worker);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy_count == 0)
            pthread_cond_signal(&pool->end);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

int io_pool_transfer(struct io_pool *pool, const struct io_transfer *transfer)
{
    if (transfer->bytes == 0)
        return ERR_NONE;
    uint64_t block = pool->aio.block_bytes, blocks = (transfer->bytes + block - 1) / block;
    uint64_t share = (blocks + (uint64_t)pool->worker_count - 1) / (uint64_t)pool->worker_count * block;
    pthread_mutex_lock(&pool->mutex);
    pool->transfer = transfer;
    pool->failed = false;
    for (int i = 0; i < pool->worker_count; i++) {
        struct worker *worker = &pool->workers[i];
        worker->begin = (uint64_t)i * share < transfer->bytes ? (uint64_t)i * share : transfer->bytes;
        worker->end = transfer->bytes - worker->begin < share ? transfer->bytes : worker->begin + share;
        worker->code = ERR_NONE;
        worker->wanted = i > 0 && worker->begin < worker->end;
        pool->busy_count += worker->wanted;
    }
    if (pool->busy_count > 0)
        pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->mutex);
    // The calling thread is the first worker.
    part(&pool->workers[0]);
    pthread_mutex_lock(&pool->mutex);
    while (pool->busy_count > 0)
        pthread_cond_wait(&pool->end, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->worker_count; i++)
        if (pool->workers[i].code != ERR_NONE)
            return err_set(pool->workers[i].code, "%s", pool->workers[i].message);
    return ERR_NONE;
}

static int worker_open(struct worker *worker, struct io_pool *pool, struct inject *inject)
{
    size_t depth = (size_t)pool->aio.queue_depth;
    worker->pool = pool;
    worker->slots = calloc(depth, sizeof *worker->slots);
    worker->ready = calloc(depth, sizeof(struct io_request *));
    worker->done = calloc(depth, sizeof(struct io_request *));
    worker->vacant = calloc(depth, sizeof *worker->vacant);
    if (!worker->slots || !worker->ready || !worker->done || !worker->vacant)
        return err_set(ERR_MEMORY, "no memory for an I/O queue of depth %zu", depth);
    return io_queue_open(pool->engine, pool->aio.queue_depth, inject, &worker->queue);
}

static void worker_close(struct worker *worker)
{
    io_queue_close(worker->queue);
    free(worker->slots);
    free(worker->ready);
    free(worker->done);
    free(worker->vacant);
}

// Signals go to the threads of the program, not to these.
static int workers_start(struct io_pool *pool, int wanted_count)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    while (code == 0 && pool->worker_count < wanted_count) {
        struct worker *worker = &pool->workers[pool->worker_count];
        code = pthread_create(&worker->thread, NULL, worker_run, worker);
        if (code == 0)
            pool->worker_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0 ? ERR_NONE : err_set(ERR_MEMORY, "cannot start an I/O thread: %s", strerror(code));
}

static int check(const struct nvme_aio *aio)
{
    if (aio->block_bytes == 0 || aio->block_bytes % IO_ALIGNMENT != 0 || aio->block_bytes > IO_BLOCK_MAX_BYTES)
        return err_set(ERR_USAGE, "aio.block_size %zu: a multiple of %d up to %d is needed", aio->block_bytes,
                       IO_ALIGNMENT, IO_BLOCK_MAX_BYTES);
    if (aio->queue_depth < 1 || aio->queue_depth > IO_DEPTH_MAX)
        return err_set(ERR_USAGE, "aio.queue_depth %d: from 1 to %d", aio->queue_depth, IO_DEPTH_MAX);
    if (aio->intra_op_parallelism < 1 || aio->intra_op_parallelism > IO_THREAD_MAX)
        return err_set(ERR_USAGE, "aio.intra_op_parallelism %d: from 1 to %d", aio->intra_op_parallelism,
                       IO_THREAD_MAX);
    return ERR_NONE;
}

int io_pool_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                 struct io_pool **out)
{
    TRY(check(aio));
    size_t count = (size_t)aio->intra_op_parallelism;
    struct io_pool *pool = calloc(1, sizeof *pool + count * sizeof pool->workers[0]);
    if (!pool)
        return err_set(ERR_MEMORY, "no memory for %zu I/O threads", count);
    pool->engine = engine;
    pool->aio = *aio;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    int code = ERR_NONE;
    for (size_t i = 0; i < count && code == ERR_NONE; i++)
        code = worker_open(&pool->workers[i], pool, inject);
    pool->worker_count = 1;
    if (code == ERR_NONE)
        code = workers_start(pool, (int)count);
    if (code != ERR_NONE) {
        io_pool_close(pool);
        return code;
    }
    *out = pool;
    return ERR_NONE;
}

void io_pool_close(struct io_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->closing = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i < pool->worker_count; i++)
        pthread_join(pool->workers[i].thread, NULL);
    for (int i = 0; i < pool->aio.intra_op_parallelism; i++)
        worker_close(&pool->workers[i]);
    pthread_cond_destroy(&pool->end);
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
