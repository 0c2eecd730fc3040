// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/io_cufile.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file {
    struct file *next;
    int descriptor, use_count;
    void *handle;
};

struct buffer {
    struct buffer *next;
    unsigned char *memory;
    size_t bytes;
    int device;
};

struct failure {
    const char *call;  // null: none
    struct cufile_status status;
};

// Globals, as cuFile is the process's.
static struct {
    pthread_mutex_t mutex;
    const struct cufile_calls *calls;  // null: not open
    struct file *files;
    struct buffer *buffers;
    struct failure failure;  // the first since it was last asked for
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct cufile_queue {
    struct io_queue queue;
    int depth;
    struct io_request **done;  // from first on, in a ring of depth
    int first, done_count;
    struct file **files;  // that it has used
    int file_count;
};

// cuFile's errors that say what is amiss: in errno's terms, for the pool, and in words.
static const struct {
    int error, code;
    const char *text;
} known[] = {
    {5001, ENODEV, "nvidia-fs is not loaded, and cufile.json does not allow compatibility mode"},
    {5004, ENODEV, "nvidia-fs is of another version than libcufile"},
    {5007, EOPNOTSUPP, "this machine is not supported"},
    {5008, EOPNOTSUPP, "the file system is not supported"},
    {5009, EOPNOTSUPP, "the GPU is not supported"},
    {CUFILE_CUDA_DRIVER_ERROR, EIO, "CUDA's driver failed"},
    {5012, EFAULT, "the memory is not the GPU's"},
    {5014, EFAULT, "the request reaches beyond the memory"},
    {5016, ENOMEM, "more memory than may be pinned at once"},
    {5017, EFAULT, "the request reaches beyond the memory"},
    {5019, EINVAL, "the file was opened with flags that cuFile does not take, such as O_TMPFILE"},
    {5020, EINVAL, "the file was not opened with O_DIRECT"},
    {5025, EACCES, "access is denied"},
    {5027, EBADF, "nothing is known of the file, or of the disk that it is on; cufile.log says more"},
    {5028, EEXIST, "the file is registered already"},
    {5031, ENOENT, "the file cannot be opened again by its name"},
    {5036, ENOMEM, "no GPU memory could be pinned"},
    {5043, ENOMEM, "no memory is left"},
};

static int code_of(int error)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].error == error)
            return known[i].code;
    return EIO;
}

static int set_error(const struct failure *failure, const char *what)
{
    const char *text = "cufile.log says more";
    char cuda[48] = "";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].error == failure->status.error)
            text = known[i].text;
    if (failure->status.cuda_error != 0)
        snprintf(cuda, sizeof cuda, ", CUDA's error %d", failure->status.cuda_error);
    return err_set(ERR_IO, "%s%s%s: cuFile's error %d%s: %s", what, *what ? ": " : "", failure->call,
                   failure->status.error, cuda, text);
}

// -errno of what cuFile has answered, which is kept for io_cufile_explain. Under the mutex.
static int note(const char *call, struct cufile_status status)
{
    if (!process.failure.call)
        process.failure = (struct failure){call, status};
    return -code_of(status.error);
}

bool io_cufile_has_nvidia_fs(void)
{
    return access("/proc/driver/nvidia-fs", F_OK) == 0;
}

const char *io_cufile_path(bool has_nvidia_fs, const struct cufile_properties *properties)
{
    bool may_choose = properties->control_flags & CUFILE_ALLOWS_COMPATIBILITY;
    if (has_nvidia_fs)
        return may_choose ? "nvidia-fs or compatibility mode" : "nvidia-fs";
    if (properties->feature_flags & CUFILE_HAS_PCI_P2PDMA)
        return may_choose ? "PCI P2PDMA or compatibility mode" : "PCI P2PDMA";
    return "compatibility mode";
}

int io_cufile_open(const struct cufile_calls *calls, const char **path)
{
    struct cufile_properties properties = {0};
    if (process.calls)
        return err_set(ERR_INTERNAL, "cuFile is open already");
    struct failure failure = {"cuFileDriverOpen", calls->driver_open()};
    if (failure.status.error != 0)
        return set_error(&failure, "");
    failure = (struct failure){"cuFileDriverGetProperties", calls->properties(&properties)};
    if (failure.status.error != 0) {
        (void)calls->driver_close();
        return set_error(&failure, "");
    }
    process.calls = calls;
    process.failure = (struct failure){0};
    *path = io_cufile_path(io_cufile_has_nvidia_fs(), &properties);
    return ERR_NONE;
}

void io_cufile_close(void)
{
    if (process.calls)
        (void)process.calls->driver_close();
    process.calls = NULL;
}

int io_cufile_register(void *memory, size_t bytes, int device)
{
    struct buffer *buffer = malloc(sizeof *buffer);
    if (!buffer)
        return err_set(ERR_MEMORY, "no memory for what is known of a buffer");
    *buffer = (struct buffer){NULL, memory, bytes, device};
    struct failure failure = {"cuFileBufRegister", process.calls->buffer_register(memory, bytes, 0)};
    if (failure.status.error != 0) {
        char what[64];
        free(buffer);
        snprintf(what, sizeof what, "%zu bytes of memory", bytes);
        return set_error(&failure, what);
    }
    pthread_mutex_lock(&process.mutex);
    buffer->next = process.buffers;
    process.buffers = buffer;
    pthread_mutex_unlock(&process.mutex);
    return ERR_NONE;
}

void io_cufile_deregister(void *memory)
{
    pthread_mutex_lock(&process.mutex);
    struct buffer **at = &process.buffers;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    struct buffer *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&process.mutex);
    if (found)
        (void)process.calls->buffer_deregister(memory);
    free(found);
}

// The entry of a file that no queue has used yet. Under the mutex.
static int add_file(int descriptor, struct file **out)
{
    struct file *file = calloc(1, sizeof *file);
    struct cufile_description description = {.type = CUFILE_DESCRIPTOR, .handle.file = descriptor};
    if (!file)
        return -ENOMEM;
    struct cufile_status status = process.calls->file_register(&file->handle, &description);
    if (status.error != 0) {
        free(file);
        return note("cuFileHandleRegister", status);
    }
    file->descriptor = descriptor;
    file->next = process.files;
    *out = process.files = file;
    return 0;
}

// One more that uses the file. 0 or -errno.
static int take_file(int descriptor, struct file **out)
{
    pthread_mutex_lock(&process.mutex);
    struct file *file = process.files;
    while (file && file->descriptor != descriptor)
        file = file->next;
    int code = file ? 0 : add_file(descriptor, &file);
    if (code == 0) {
        file->use_count++;
        *out = file;
    }
    pthread_mutex_unlock(&process.mutex);
    return code;
}

// The queue has used the file before, or does so from now on. 0 or -errno.
static int find_file(struct cufile_queue *own, int descriptor, void **handle)
{
    for (int i = 0; i < own->file_count; i++)
        if (own->files[i]->descriptor == descriptor) {
            *handle = own->files[i]->handle;
            return 0;
        }
    struct file **larger = realloc(own->files, (size_t)(own->file_count + 1) * sizeof *larger);
    if (!larger)
        return -ENOMEM;
    own->files = larger;
    struct file *file;
    int code = take_file(descriptor, &file);
    if (code == 0) {
        own->files[own->file_count++] = file;
        *handle = file->handle;
    }
    return code;
}

// The last that has used a file deregisters it.
static void give_file(struct file *file)
{
    pthread_mutex_lock(&process.mutex);
    if (--file->use_count == 0) {
        struct file **at = &process.files;
        while (*at != file)
            at = &(*at)->next;
        *at = file->next;
        process.calls->file_deregister(file->handle);
        free(file);
    }
    pthread_mutex_unlock(&process.mutex);
}

int io_cufile_keep(int file, const char *path)
{
    struct file *kept;
    int code = take_file(file, &kept);
    return code == 0 ? ERR_NONE : io_cufile_explain(err_set(ERR_IO, "%s: the file there: %s", path, strerror(-code)));
}

void io_cufile_give(int file)
{
    pthread_mutex_lock(&process.mutex);
    struct file *kept = process.files;
    while (kept && kept->descriptor != file)
        kept = kept->next;
    pthread_mutex_unlock(&process.mutex);
    if (kept)
        give_file(kept);
}

// The registered memory that the address is in, or the address itself.
static struct buffer find_buffer(void *address)
{
    struct buffer found = {.memory = address};
    pthread_mutex_lock(&process.mutex);
    for (const struct buffer *buffer = process.buffers; buffer; buffer = buffer->next)
        if ((uintptr_t)address - (uintptr_t)buffer->memory < buffer->bytes)
            found = *buffer;
    pthread_mutex_unlock(&process.mutex);
    return found;
}

// Bytes that were moved, or -errno.
static int64_t move(struct cufile_queue *own, const struct io_request *request)
{
    void *handle;
    int code = find_file(own, request->file, &handle);
    if (code != 0)
        return code;
    struct buffer buffer = find_buffer(request->memory);
    const struct accelerator *accelerator = accelerator_of(buffer.memory);
    // A thread of a pool has not met the device before.
    if (accelerator && accelerator->enter(buffer.device) != ERR_NONE)
        return -ENODEV;
    // Where the bytes lie in the file says nothing of where they lie in memory: each has its own offset.
    off_t inside = (unsigned char *)request->memory - buffer.memory, offset = (off_t)request->offset;
    ssize_t moved = request->write ? process.calls->write(handle, buffer.memory, request->bytes, offset, inside)
                                   : process.calls->read(handle, buffer.memory, request->bytes, offset, inside);
    if (moved == -1)
        moved = errno != 0 ? -errno : -EIO;
    if (moved >= -CUFILE_ERROR_BASE)
        return moved;
    pthread_mutex_lock(&process.mutex);
    code = note(request->write ? "cuFileWrite" : "cuFileRead", (struct cufile_status){(int)-moved, 0});
    pthread_mutex_unlock(&process.mutex);
    return code;
}

static void cufile_close(struct io_queue *queue)
{
    struct cufile_queue *own = (struct cufile_queue *)queue;
    if (!own)
        return;
    for (int i = 0; i < own->file_count; i++)
        give_file(own->files[i]);
    free(own->files);
    free(own->done);
    free(own);
}

static int cufile_open(int depth, struct io_queue **out)
{
    if (!process.calls)
        return err_set(ERR_INTERNAL, "cuFile is not open");
    struct cufile_queue *own = calloc(1, sizeof *own);
    struct io_request **done = calloc((size_t)depth, sizeof *done);
    if (!own || !done) {
        free(own);
        free(done);
        return err_set(ERR_MEMORY, "no memory for an I/O queue of depth %d", depth);
    }
    *own = (struct cufile_queue){.queue.engine = &io_engine_cufile, .depth = depth, .done = done};
    *out = &own->queue;
    return ERR_NONE;
}

static int cufile_submit(struct io_queue *queue, struct io_request *const requests[], int count)
{
    struct cufile_queue *own = (struct cufile_queue *)queue;
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

int io_cufile_explain(int code)
{
    pthread_mutex_lock(&process.mutex);
    struct failure failure = process.failure;
    process.failure = (struct failure){0};
    pthread_mutex_unlock(&process.mutex);
    if (code == ERR_NONE || !failure.call)
        return code;
    char before[1024];
    snprintf(before, sizeof before, "%s", err_message());
    (void)set_error(&failure, before);
    return err_set(code, "%s", err_message());
}
