// SPDX-License-Identifier: Apache-2.0
// The engine of io.h that uses cuFile: submit completes each request.
#include "ref/cuda/io_cufile_internal.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct cufile_queue {
    struct io_queue queue;
    int depth;
    struct io_request **done;  // a ring of depth entries, from first
    int first, done_count;
    struct cufile_file **files;  // used by this queue
    int file_count;
};

// Finds the handle of a file and makes the queue a user of it. Returns 0 or -errno.
static int find_file(struct cufile_queue *own, int descriptor, void **handle)
{
    for (int i = 0; i < own->file_count; i++)
        if (own->files[i]->descriptor == descriptor) {
            *handle = own->files[i]->handle;
            return 0;
        }
    struct cufile_file **larger = realloc(own->files, (size_t)(own->file_count + 1) * sizeof *larger);
    if (!larger)
        return -ENOMEM;
    own->files = larger;
    struct cufile_file *file;
    int code = cufile_take_file(descriptor, &file);
    if (code == 0) {
        own->files[own->file_count++] = file;
        *handle = file->handle;
    }
    return code;
}

// Returns the bytes moved, or -errno.
static int64_t move(struct cufile_queue *own, const struct io_request *request)
{
    void *handle;
    int code = find_file(own, request->file, &handle);
    if (code != 0)
        return code;
    struct cufile_buffer buffer = cufile_find_buffer(request->memory);
    const struct accelerator *accelerator = accelerator_of(buffer.memory);
    // A thread of a pool may not have entered the device yet.
    if (accelerator && accelerator->enter(buffer.device) != ERR_NONE)
        return -ENODEV;
    // cuFile takes an offset in the file and one in the registered memory.
    off_t inside = (unsigned char *)request->memory - buffer.memory, offset = (off_t)request->offset;
    const struct cufile_calls *calls = cufile_calls_open();
    ssize_t moved = request->write ? calls->write(handle, buffer.memory, request->bytes, offset, inside)
                                   : calls->read(handle, buffer.memory, request->bytes, offset, inside);
    if (moved == -1)
        moved = errno != 0 ? -errno : -EIO;
    if (moved >= -CUFILE_ERROR_BASE)
        return moved;
    return cufile_note_failure(request->write ? "cuFileWrite" : "cuFileRead", (struct cufile_status){(int)-moved, 0});
}

static void cufile_close(struct io_queue *queue)
{
    struct cufile_queue *own = (struct cufile_queue *)queue;
    if (!own)
        return;
    for (int i = 0; i < own->file_count; i++)
        cufile_give_file(own->files[i]);
    free(own->files);
    free(own->done);
    free(own);
}

static int cufile_open(int depth, struct io_queue **out)
{
    assert(depth > 0);
    if (!cufile_calls_open())
        return err_set(ERR_INTERNAL, "cuFile is not open");
    struct cufile_queue *own = calloc(1, sizeof *own);
    struct io_request **done = calloc((size_t)depth, sizeof *done);
    if (!own || !done) {
        free(own);
        free(done);
        return err_set(ERR_MEMORY, "out of memory for an I/O queue of depth %d", depth);
    }
    *own = (struct cufile_queue){.queue.engine = &io_engine_cufile, .depth = depth, .done = done};
    *out = &own->queue;
    return ERR_NONE;
}

static int cufile_submit(struct io_queue *queue, struct io_request *const requests[], int count)
{
    struct cufile_queue *own = (struct cufile_queue *)queue;
    assert(count <= own->depth - own->done_count);
    for (int i = 0; i < count; i++) {
        requests[i]->result = move(own, requests[i]);
        own->done[(own->first + own->done_count++) % own->depth] = requests[i];
    }
    return count;
}

static int cufile_reap(struct io_queue *queue, int least, struct io_request *done[], int most)
{
    struct cufile_queue *own = (struct cufile_queue *)queue;
    (void)least;
    int count = own->done_count < most ? own->done_count : most;
    for (int i = 0; i < count; i++)
        done[i] = own->done[(own->first + i) % own->depth];
    own->first = (own->first + count) % own->depth;
    own->done_count -= count;
    return count;
}

const struct io_engine io_engine_cufile = {"cufile", cufile_open, cufile_submit, cufile_reap, cufile_close};
