// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/io_pool.h"

#include "base/err.h"
#include "ref/tier/inject.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A request and the bytes of the transfer that it moves. A slot is vacant, ready, or in flight.
struct slot {
    struct io_request request;
    uint64_t at;  // in the transfer
    size_t bytes;
    struct io_location location;
    int attempts;
};

struct io_worker {
    const struct io_engine *engine;
    const struct nvme_aio *aio;
    struct io_queue *queue;  // null after an error of the queue itself
    struct slot *slots;
    struct io_request **ready;  // to be submitted
    struct io_request **done;
    unsigned *vacant;
    int ready_count, vacant_count, flight_count;
    const struct io_transfer *transfer;
    uint64_t next, end;  // the part of the transfer that is not cut into requests yet
};

enum { ATTEMPTS_MAX = 1000 };

static int fail(const struct slot *slot, const char *reason)
{
    const struct io_request *request = &slot->request;
    return err_set(ERR_IO, "%s: %s %zu bytes at offset %" PRIu64 " of the file there: %s", slot->location.path,
                   request->write ? "writing" : "reading", request->bytes, request->offset, reason);
}

static void cut_request(struct io_worker *worker)
{
    const struct io_transfer *transfer = worker->transfer;
    struct io_location location;
    transfer->locate(transfer->context, worker->next, &location);
    if (location.bytes == 0) {
        worker->end = worker->next;
        return;
    }
    unsigned index = worker->vacant[--worker->vacant_count];
    struct slot *slot = &worker->slots[index];
    *slot = (struct slot){.at = worker->next, .bytes = worker->aio->block_bytes, .location = location};
    if (slot->bytes > location.bytes)
        slot->bytes = location.bytes;
    if (slot->bytes > worker->end - worker->next)
        slot->bytes = worker->end - worker->next;
    slot->request = (struct io_request){.file = location.file,
                                        .write = location.write,
                                        .slot = index,
                                        .offset = location.offset,
                                        .memory = location.memory,
                                        .bytes = slot->bytes};
    worker->next += slot->bytes;
    worker->ready[worker->ready_count++] = &slot->request;
}

// The share of the queue that stays in flight while other transfers go first.
enum { YIELDING_SHARE = 4 };

// True if another request may be in flight.
static bool has_room(const struct io_worker *worker)
{
    int in_use = worker->aio->queue_depth - worker->vacant_count, room = worker->aio->queue_depth;
    const atomic_int *prior_count = worker->transfer->prior_count;
    if (prior_count && atomic_load(prior_count) > 0)
        room = room < 2 * YIELDING_SHARE ? 1 : room / YIELDING_SHARE;
    return in_use < room;
}

// Submits ready requests until the kernel takes no more.
static int submit(struct io_worker *worker)
{
    int sent = 0, code = ERR_NONE;
    while (sent < worker->ready_count) {
        int count = worker->aio->single_submit ? 1 : worker->ready_count - sent;
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
            break;  // a completion makes room
        usleep(1000);
    }
    worker->ready_count -= sent;
    memmove(worker->ready, worker->ready + sent, (size_t)worker->ready_count * sizeof(struct io_request *));
    return code;
}

// Ends a request that moved all its bytes or failed; makes the rest of any other ready again.
static int settle(struct io_worker *worker, struct slot *slot)
{
    struct io_request *request = &slot->request;
    const struct io_transfer *transfer = worker->transfer;
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
        char reason[160];
        snprintf(reason, sizeof reason, "the kernel moved only %" PRId64 " bytes, and the rest cannot be requested: %s",
                 moved, moved == 0 ? "the file ends there" : "it is not aligned for direct I/O");
        return fail(slot, reason);
    }
    request->offset += (uint64_t)moved;
    request->memory = (char *)request->memory + moved;
    request->bytes -= (size_t)moved;
    worker->ready[worker->ready_count++] = request;
    return ERR_NONE;
}

static int reap(struct io_worker *worker, int least, int most)
{
    int count;
    do
        count = worker->queue->engine->reap(worker->queue, least, worker->done, most);
    while (count == -EINTR);
    return count;
}

// Closes the queue, which waits for the requests in flight; after an error of reap their state is unknown.
static void abandon_queue(struct io_worker *worker)
{
    io_queue_close(worker->queue);
    worker->queue = NULL;
    worker->flight_count = 0;
}

static void begin_part(struct io_worker *worker, const struct io_transfer *transfer, uint64_t begin, uint64_t end)
{
    assert(begin <= end && end <= transfer->bytes && transfer->locate && worker->flight_count == 0);
    worker->transfer = transfer;
    worker->next = begin;
    worker->end = end;
    worker->ready_count = 0;
    worker->vacant_count = worker->aio->queue_depth;
    for (int i = 0; i < worker->vacant_count; i++)
        worker->vacant[i] = (unsigned)(worker->vacant_count - 1 - i);
}

int io_worker_move(struct io_worker *worker, const struct io_transfer *transfer, uint64_t begin, uint64_t end,
                   const _Atomic bool *failed)
{
    if (!worker->queue)
        return err_set(ERR_IO, "%s: an earlier error closed the queue", worker->engine->name);
    begin_part(worker, transfer, begin, end);
    int batch = worker->aio->queue_depth < 8 ? 1 : worker->aio->queue_depth / 8;
    int code = ERR_NONE;
    for (;;) {
        bool going = code == ERR_NONE && !*failed;
        while (going && worker->next < worker->end && has_room(worker))
            cut_request(worker);
        if (going && worker->ready_count > 0)
            code = submit(worker);
        if (worker->flight_count == 0) {
            if (code != ERR_NONE || *failed || (worker->ready_count == 0 && worker->next == worker->end))
                return code;
            continue;
        }
        // Settles only a batch of the completions before it refills the queue, so that the disk stays busy.
        bool some = worker->aio->overlap_events && going;
        int count = reap(worker, some ? 1 : worker->flight_count, some ? batch : worker->flight_count);
        if (count < 0) {
            abandon_queue(worker);
            if (code != ERR_NONE)
                return code;
            return err_set(ERR_IO, "%s: waiting for requests: %s", worker->engine->name, strerror(-count));
        }
        worker->flight_count -= count;
        // After an error it only waits for the rest; the first message stays.
        for (int i = 0; i < count && code == ERR_NONE; i++)
            code = settle(worker, (struct slot *)worker->done[i]);
    }
}

int io_worker_open(const struct io_engine *engine, const struct nvme_aio *aio, struct inject *inject,
                   struct io_worker **out)
{
    assert(aio->queue_depth > 0 && aio->block_bytes > 0);
    size_t depth = (size_t)aio->queue_depth;
    struct io_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return err_set(ERR_MEMORY, "out of memory for an I/O queue");
    worker->engine = engine;
    worker->aio = aio;
    worker->slots = calloc(depth, sizeof *worker->slots);
    worker->ready = calloc(depth, sizeof(struct io_request *));
    worker->done = calloc(depth, sizeof(struct io_request *));
    worker->vacant = calloc(depth, sizeof *worker->vacant);
    int code;
    if (!worker->slots || !worker->ready || !worker->done || !worker->vacant)
        code = err_set(ERR_MEMORY, "out of memory for an I/O queue of depth %zu", depth);
    else if (inject)
        code = inject_queue_open(inject, engine, aio->queue_depth, &worker->queue);
    else
        code = io_queue_open(engine, aio->queue_depth, &worker->queue);
    if (code == ERR_NONE)
        *out = worker;
    else
        io_worker_close(worker);
    return code;
}

void io_worker_close(struct io_worker *worker)
{
    if (!worker)
        return;
    io_queue_close(worker->queue);
    free(worker->slots);
    free(worker->ready);
    free(worker->done);
    free(worker->vacant);
    free(worker);
}
