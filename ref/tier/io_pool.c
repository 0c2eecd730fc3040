// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/io_pool.h"

#include "base/err.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One thread of a pool; member 0 is the calling thread.
struct member {
    struct io_pool *pool;
    struct io_worker *worker;
    uint64_t begin, end;  // its part of the transfer
    pthread_t thread;
    bool wanted;  // under the pool's mutex: a part is waiting
    int code;
    char message[2048];
};

struct io_pool {
    const struct io_engine *engine;
    struct nvme_aio aio;
    const struct io_transfer *transfer;  // null between transfers
    _Atomic bool failed;                 // a part of the transfer has failed, so the other members stop
    pthread_mutex_t mutex;
    pthread_cond_t begin, end;
    int busy_count;  // threads that have not ended their parts; this and closing are under the mutex
    bool closing;
    int member_count;  // the calling thread and the threads started
    struct member members[];
};

// Moves the member's part. Keeps the message of a failure, because messages are per thread.
static void move_part(struct member *member)
{
    struct io_pool *pool = member->pool;
    member->code = ERR_NONE;
    if (member->begin < member->end)
        member->code = io_worker_move(member->worker, pool->transfer, member->begin, member->end, &pool->failed);
    if (member->code == ERR_NONE)
        return;
    pool->failed = true;
    snprintf(member->message, sizeof member->message, "%s", err_message());
}

static void *member_run(void *argument)
{
    struct member *member = argument;
    struct io_pool *pool = member->pool;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->closing && !member->wanted)
            pthread_cond_wait(&pool->begin, &pool->mutex);
        if (pool->closing)
            break;
        member->wanted = false;
        pthread_mutex_unlock(&pool->mutex);
        move_part(member);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy_count == 0)
            pthread_cond_signal(&pool->end);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

// Divides the transfer into contiguous parts of whole blocks and wakes the threads that have one.
static void hand_out(struct io_pool *pool, const struct io_transfer *transfer)
{
    uint64_t block = pool->aio.block_bytes, blocks = (transfer->bytes + block - 1) / block;
    uint64_t part = (blocks + (uint64_t)pool->member_count - 1) / (uint64_t)pool->member_count * block;
    pthread_mutex_lock(&pool->mutex);
    assert(!pool->transfer && pool->busy_count == 0);
    pool->transfer = transfer;
    pool->failed = false;
    for (int i = 0; i < pool->member_count; i++) {
        struct member *member = &pool->members[i];
        member->begin = (uint64_t)i * part < transfer->bytes ? (uint64_t)i * part : transfer->bytes;
        member->end = transfer->bytes - member->begin < part ? transfer->bytes : member->begin + part;
        member->code = ERR_NONE;
        member->wanted = i > 0 && member->begin < member->end;
        pool->busy_count += member->wanted;
    }
    if (pool->busy_count > 0)
        pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->mutex);
}

int io_pool_transfer(struct io_pool *pool, const struct io_transfer *transfer)
{
    if (transfer->bytes == 0)
        return ERR_NONE;
    hand_out(pool, transfer);
    move_part(&pool->members[0]);
    pthread_mutex_lock(&pool->mutex);
    while (pool->busy_count > 0)
        pthread_cond_wait(&pool->end, &pool->mutex);
    pool->transfer = NULL;
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->member_count; i++)
        if (pool->members[i].code != ERR_NONE)
            return err_set(pool->members[i].code, "%s", pool->members[i].message);
    return ERR_NONE;
}

// Starts threads with all signals blocked, so that the program's own threads receive them.
static int start_threads(struct io_pool *pool, int wanted_count)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    while (code == 0 && pool->member_count < wanted_count) {
        struct member *member = &pool->members[pool->member_count];
        code = pthread_create(&member->thread, NULL, member_run, member);
        if (code == 0)
            pool->member_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0 ? ERR_NONE : err_set(ERR_MEMORY, "cannot start an I/O thread: %s", strerror(code));
}

static int check(const struct nvme_aio *aio)
{
    if (aio->block_bytes == 0 || aio->block_bytes % IO_ALIGNMENT != 0 || aio->block_bytes > IO_BLOCK_MAX_BYTES)
        return err_set(ERR_USAGE, "aio.block_size %zu: expected a multiple of %d, at most %d", aio->block_bytes,
                       IO_ALIGNMENT, IO_BLOCK_MAX_BYTES);
    if (aio->queue_depth < 1 || aio->queue_depth > IO_DEPTH_MAX)
        return err_set(ERR_USAGE, "aio.queue_depth %d: expected 1 to %d", aio->queue_depth, IO_DEPTH_MAX);
    if (aio->intra_op_parallelism < 1 || aio->intra_op_parallelism > IO_THREAD_MAX)
        return err_set(ERR_USAGE, "aio.intra_op_parallelism %d: expected 1 to %d", aio->intra_op_parallelism,
                       IO_THREAD_MAX);
    return ERR_NONE;
}

int io_pool_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                 struct io_pool **out)
{
    TRY(check(aio));
    size_t count = (size_t)aio->intra_op_parallelism;
    struct io_pool *pool = calloc(1, sizeof *pool + count * sizeof pool->members[0]);
    if (!pool)
        return err_set(ERR_MEMORY, "out of memory for %zu I/O threads", count);
    pool->engine = engine;
    pool->aio = *aio;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    int code = ERR_NONE;
    for (size_t i = 0; i < count && code == ERR_NONE; i++) {
        pool->members[i].pool = pool;
        code = io_worker_open(engine, &pool->aio, inject, &pool->members[i].worker);
    }
    pool->member_count = 1;
    if (code == ERR_NONE)
        code = start_threads(pool, (int)count);
    if (code == ERR_NONE)
        *out = pool;
    else
        io_pool_close(pool);
    return code;
}

void io_pool_close(struct io_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    assert(!pool->transfer);
    pool->closing = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i < pool->member_count; i++)
        pthread_join(pool->members[i].thread, NULL);
    for (int i = 0; i < pool->aio.intra_op_parallelism; i++)
        io_worker_close(pool->members[i].worker);
    pthread_cond_destroy(&pool->end);
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
