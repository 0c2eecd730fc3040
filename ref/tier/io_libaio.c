// SPDX-License-Identifier: Apache-2.0
// The engine libaio: the kernel's asynchronous calls for files opened with O_DIRECT.
#include "ref/tier/io.h"

#include "base/err.h"

#include <libaio.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct libaio_queue {
    struct io_queue queue;
    io_context_t context;
    struct iocb *blocks;     // one for each slot
    struct iocb **pointers;  // argument of io_submit
    struct io_event *events;
    int depth;
    int in_flight;  // requests
};

// Contexts that the kernel is destroying. It waits for all processors to pass a quiet moment, some 30 ms.
static atomic_int ending_count;

static void *end_context(void *context)
{
    io_destroy(context);
    atomic_fetch_sub(&ending_count, 1);
    return NULL;
}

// A context without requests ends in a thread of its own, for which nobody waits.
static void begin_end(io_context_t context)
{
    pthread_t thread;
    atomic_fetch_add(&ending_count, 1);
    if (pthread_create(&thread, NULL, end_context, context) == 0)
        pthread_detach(thread);
    else
        end_context(context);
}

// Those that are ending still count for the kernel's limit.
static int set_up(int depth, io_context_t *context)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        bool waits = atomic_load(&ending_count) > 0;
        *context = NULL;
        int code = io_setup(depth, context);
        if (code != -EAGAIN || !waits)
            return code;
        nanosleep(&pause, NULL);
    }
}

static void libaio_close(struct io_queue *queue)
{
    struct libaio_queue *own = (struct libaio_queue *)queue;
    if (!own)
        return;
    if (own->context && own->in_flight > 0)
        io_destroy(own->context);
    else if (own->context)
        begin_end(own->context);
    free(own->blocks);
    free(own->pointers);
    free(own->events);
    free(own);
}

static int libaio_open(int depth, struct io_queue **out)
{
    struct libaio_queue *own = calloc(1, sizeof *own);
    if (!own)
        return err_set(ERR_MEMORY, "out of memory for an I/O queue");
    own->queue.engine = &io_engine_libaio;
    own->depth = depth;
    own->blocks = calloc((size_t)depth, sizeof *own->blocks);
    own->pointers = calloc((size_t)depth, sizeof(struct iocb *));
    own->events = calloc((size_t)depth, sizeof *own->events);
    if (!own->blocks || !own->pointers || !own->events) {
        libaio_close(&own->queue);
        return err_set(ERR_MEMORY, "out of memory for an I/O queue of depth %d", depth);
    }
    int code = set_up(depth, &own->context);
    if (code < 0) {
        own->context = NULL;
        libaio_close(&own->queue);
        if (code == -EAGAIN)
            return err_set(ERR_IO,
                           "libaio: the kernel allows no further queue of depth %d; raise the sysctl fs.aio-max-nr, "
                           "or lower aio.queue_depth or aio.intra_op_parallelism",
                           depth);
        return err_set(ERR_IO, "libaio is not usable here: io_setup: %s; try the engine io_uring", strerror(-code));
    }
    *out = &own->queue;
    return ERR_NONE;
}

static int libaio_submit(struct io_queue *queue, struct io_request *const requests[], int count)
{
    struct libaio_queue *own = (struct libaio_queue *)queue;
    for (int i = 0; i < count; i++) {
        struct io_request *request = requests[i];
        struct iocb *block = &own->blocks[request->slot];
        if (request->write)
            io_prep_pwrite(block, request->file, request->memory, request->bytes, (long long)request->offset);
        else
            io_prep_pread(block, request->file, request->memory, request->bytes, (long long)request->offset);
        block->data = request;
        own->pointers[i] = block;
    }
    int taken = io_submit(own->context, count, own->pointers);
    own->in_flight += taken > 0 ? taken : 0;
    return taken;
}

static int libaio_reap(struct io_queue *queue, int least, struct io_request *done[], int most)
{
    struct libaio_queue *own = (struct libaio_queue *)queue;
    int count = io_getevents(own->context, least, most, own->events, NULL);
    for (int i = 0; i < count; i++) {
        done[i] = own->events[i].data;
        done[i]->result = (int64_t)own->events[i].res;
    }
    own->in_flight -= count > 0 ? count : 0;
    return count;
}

const struct io_engine io_engine_libaio = {"libaio", libaio_open, libaio_submit, libaio_reap, libaio_close};
