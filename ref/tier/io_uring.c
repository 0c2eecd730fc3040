// SPDX-License-Identifier: Apache-2.0
// The engine io_uring, through liburing: requests and completions lie in rings shared with the kernel.
#include "ref/tier/io.h"

#include "base/err.h"

#include <liburing.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct uring_queue {
    struct io_queue queue;
    struct io_uring ring;
    int in_flight;
};

static int uring_open(int depth, struct io_queue **out)
{
    struct uring_queue *own = calloc(1, sizeof *own);
    if (!own)
        return err_set(ERR_MEMORY, "out of memory for an I/O queue");
    own->queue.engine = &io_engine_uring;
    int code = io_uring_queue_init((unsigned)depth, &own->ring, 0);
    if (code < 0) {
        free(own);
        if (code == -ENOMEM)
            return err_set(ERR_IO,
                           "io_uring: the kernel lacks memory for a queue of depth %d; raise the limit of locked "
                           "memory (ulimit -l), or lower aio.queue_depth",
                           depth);
        return err_set(ERR_IO, "io_uring is not usable here: %s%s; use the engine libaio", strerror(-code),
                       code == -EPERM || code == -EACCES ? " (see the sysctl kernel.io_uring_disabled, and the "
                                                           "container's seccomp profile)"
                       : code == -ENOSYS ? " (the kernel lacks it, or the container's seccomp profile hides it)"
                                         : "");
    }
    *out = &own->queue;
    return ERR_NONE;
}

static bool is_transient(int code)
{
    return code == -EINTR || code == -EAGAIN || code == -EBUSY;
}

// Takes all requests that fit into the ring; those that the kernel does not accept now go with the next call.
static int uring_submit(struct io_queue *queue, struct io_request *const requests[], int count)
{
    struct uring_queue *own = (struct uring_queue *)queue;
    for (int i = 0; i < count; i++) {
        struct io_request *request = requests[i];
        struct io_uring_sqe *entry = io_uring_get_sqe(&own->ring);
        if (!entry)
            return i > 0 ? i : -EAGAIN;
        if (request->write)
            io_uring_prep_write(entry, request->file, request->memory, (unsigned)request->bytes, request->offset);
        else
            io_uring_prep_read(entry, request->file, request->memory, (unsigned)request->bytes, request->offset);
        io_uring_sqe_set_data(entry, request);
        own->in_flight++;
    }
    int code = io_uring_submit(&own->ring);
    return code < 0 && !is_transient(code) ? code : count;
}

static int uring_reap(struct io_queue *queue, int least, struct io_request *done[], int most)
{
    struct uring_queue *own = (struct uring_queue *)queue;
    int count = 0;
    for (;;) {
        struct io_uring_cqe *completion;
        while (count < most && io_uring_peek_cqe(&own->ring, &completion) == 0) {
            done[count] = io_uring_cqe_get_data(completion);
            done[count++]->result = completion->res;
            io_uring_cqe_seen(&own->ring, completion);
        }
        if (count >= least)
            break;
        int code = io_uring_submit_and_wait(&own->ring, (unsigned)(least - count));
        if (code < 0 && !is_transient(code))
            return code;
        if (code == -EAGAIN || code == -EBUSY)
            usleep(100);
    }
    own->in_flight -= count;
    return count;
}

// The kernel may end a ring's requests some time after the ring, so this waits for them before the caller frees their
// memory.
static void uring_close(struct io_queue *queue)
{
    struct uring_queue *own = (struct uring_queue *)queue;
    if (!own)
        return;
    struct io_request *done;
    while (own->in_flight > 0 && uring_reap(queue, 1, &done, 1) > 0)
        continue;
    io_uring_queue_exit(&own->ring);
    free(own);
}

const struct io_engine io_engine_uring = {"io_uring", uring_open, uring_submit, uring_reap, uring_close};
