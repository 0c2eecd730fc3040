// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/io_cufile_internal.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct failure {
    const char *call;  // null: none
    struct cufile_status status;
};

// Global because cuFile is global to the process.
static struct {
    pthread_mutex_t mutex;
    const struct cufile_calls *calls;  // null: not open
    struct cufile_file *files;
    struct cufile_buffer *buffers;
    struct failure failure;  // the first since the last io_cufile_explain
    int explained;           // cuFile's error of the last message; 0: none
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// Errors of cuFile with a specific cause: as errno for the pool, and as text.
static const struct {
    int error, code;
    const char *text;
} known[] = {
    {5001, ENODEV, "nvidia-fs is not loaded, and cufile.json does not allow compatibility mode"},
    {5004, ENODEV, "the versions of nvidia-fs and libcufile differ"},
    {5007, EOPNOTSUPP, "this machine is not supported"},
    {5008, EOPNOTSUPP, "the file system is not supported"},
    {5009, EOPNOTSUPP, "the GPU is not supported"},
    {CUFILE_CUDA_DRIVER_ERROR, EIO, "CUDA's driver failed"},
    {5012, EFAULT, "the memory is not GPU memory"},
    {5014, EFAULT, "the request exceeds the memory"},
    {5016, ENOMEM, "the limit of pinned memory is exceeded"},
    {5017, EFAULT, "the request exceeds the memory"},
    {5019, EINVAL, "the file was opened with flags that cuFile does not accept, such as O_TMPFILE"},
    {5020, EINVAL, "the file was not opened with O_DIRECT"},
    {5025, EACCES, "access is denied"},
    {5027, EBADF, "cuFile does not recognise the file or its disk; see cufile.log"},
    {5028, EEXIST, "the file is already registered"},
    {5031, ENOENT, "the file cannot be reopened by its name"},
    {5036, ENOMEM, "GPU memory could not be pinned"},
    {5043, ENOMEM, "out of memory"},
};

static int code_of(int error)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].error == error)
            return known[i].code;
    return EIO;
}

bool io_cufile_cannot_serve(void)
{
    int code = code_of(process.explained);
    return code == ENODEV || code == EOPNOTSUPP || code == EBADF;
}

static int set_error(const struct failure *failure, const char *what)
{
    const char *text = "see cufile.log";
    char cuda[48] = "";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].error == failure->status.error)
            text = known[i].text;
    process.explained = failure->status.error;
    if (failure->status.cuda_error != 0)
        snprintf(cuda, sizeof cuda, ", CUDA error %d", failure->status.cuda_error);
    return err_set(ERR_IO, "%s%s%s: cuFile error %d%s: %s", what, *what ? ": " : "", failure->call,
                   failure->status.error, cuda, text);
}

// Records a failure; the caller holds the mutex.
static int note(const char *call, struct cufile_status status)
{
    if (!process.failure.call)
        process.failure = (struct failure){call, status};
    return -code_of(status.error);
}

int cufile_note_failure(const char *call, struct cufile_status status)
{
    pthread_mutex_lock(&process.mutex);
    int code = note(call, status);
    pthread_mutex_unlock(&process.mutex);
    return code;
}

const struct cufile_calls *cufile_calls_open(void)
{
    return process.calls;
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
        return err_set(ERR_INTERNAL, "cuFile is already open");
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
    assert(!process.files && !process.buffers);
    if (process.calls)
        (void)process.calls->driver_close();
    process.calls = NULL;
}

int io_cufile_register(void *memory, size_t bytes, int device)
{
    assert(process.calls && memory && bytes > 0);
    struct cufile_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer)
        return err_set(ERR_MEMORY, "out of memory for the record of a buffer");
    *buffer = (struct cufile_buffer){NULL, memory, bytes, device};
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
    struct cufile_buffer **at = &process.buffers;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    struct cufile_buffer *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&process.mutex);
    if (found)
        (void)process.calls->buffer_deregister(memory);
    free(found);
}

// Registers a file and adds its entry; the caller holds the mutex.
static int add_file(int descriptor, struct cufile_file **out)
{
    struct cufile_file *file = calloc(1, sizeof *file);
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

int cufile_take_file(int descriptor, struct cufile_file **out)
{
    pthread_mutex_lock(&process.mutex);
    struct cufile_file *file = process.files;
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

void cufile_give_file(struct cufile_file *file)
{
    pthread_mutex_lock(&process.mutex);
    assert(file->use_count > 0);
    if (--file->use_count == 0) {
        struct cufile_file **at = &process.files;
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
    struct cufile_file *kept;
    int code = cufile_take_file(file, &kept);
    return code == 0 ? ERR_NONE : io_cufile_explain(err_set(ERR_IO, "%s: the file there: %s", path, strerror(-code)));
}

void io_cufile_give(int file)
{
    pthread_mutex_lock(&process.mutex);
    struct cufile_file *kept = process.files;
    while (kept && kept->descriptor != file)
        kept = kept->next;
    pthread_mutex_unlock(&process.mutex);
    if (kept)
        cufile_give_file(kept);
}

struct cufile_buffer cufile_find_buffer(void *address)
{
    struct cufile_buffer found = {.memory = address};
    pthread_mutex_lock(&process.mutex);
    for (const struct cufile_buffer *buffer = process.buffers; buffer; buffer = buffer->next)
        if ((uintptr_t)address - (uintptr_t)buffer->memory < buffer->bytes)
            found = *buffer;
    pthread_mutex_unlock(&process.mutex);
    return found;
}

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
