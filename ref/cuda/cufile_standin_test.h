// SPDX-License-Identifier: Apache-2.0
// A stand-in for cuFile, over the shadow accelerator's memory and real files: it counts what is registered, refuses
// what cuFile would, and can be told to be difficult.
#ifndef ZG_CUFILE_STANDIN_TEST_H
#define ZG_CUFILE_STANDIN_TEST_H

#include "ref/cuda/io_cufile.h"
#include "ref/arithmetic/shadow_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { STANDIN_FILES = 64 };

static struct {
    pthread_mutex_t lock;
    int files[STANDIN_FILES];  // registered descriptors + 1; 0: none
    const void *buffers[8];
    int file_count, file_total, buffer_count, driver_opens, driver_closes;
    unsigned control_flags;
    int device;  // that a calling thread must have entered
    atomic_int move_count;
    size_t piece_bytes;              // that one call moves at most; 0: all
    int fail_at, spoil_at, drop_at;  // the call, from 1, that fails, has one bit wrong, or moves nothing; 0: none
    ssize_t fail_result;
    int fail_errno;
    struct cufile_status driver_status, file_status, buffer_status;
    const void *last_memory;
    off_t last_file_offset, last_memory_offset;
} standin = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct cufile_status standin_driver_open(void)
{
    standin.driver_opens += standin.driver_status.error == 0;
    return standin.driver_status;
}

static struct cufile_status standin_driver_close(void)
{
    standin.driver_closes++;
    return (struct cufile_status){0};
}

static struct cufile_status standin_properties(struct cufile_properties *out)
{
    *out = (struct cufile_properties){.control_flags = standin.control_flags};
    return (struct cufile_status){0};
}

static struct cufile_status standin_file_register(void **handle, struct cufile_description *description)
{
    struct cufile_status status = standin.file_status;
    pthread_mutex_lock(&standin.lock);
    int *vacant = NULL;
    for (int i = 0; i < STANDIN_FILES; i++) {
        if (standin.files[i] == description->handle.file + 1)
            status.error = 5028;
        if (standin.files[i] == 0 && !vacant)
            vacant = &standin.files[i];
    }
    struct stat of;
    if (fcntl(description->handle.file, F_GETFL) & (O_TMPFILE & ~O_DIRECTORY))
        status.error = 5019;
    else if (fstat(description->handle.file, &of) == 0 && of.st_nlink == 0)
        status.error = 5031;
    if (description->type != CUFILE_DESCRIPTOR || description->operations || !vacant)
        status.error = 5022;
    if (status.error == 0) {
        *vacant = description->handle.file + 1;
        *handle = vacant;
        standin.file_count++;
        standin.file_total++;
    }
    pthread_mutex_unlock(&standin.lock);
    return status;
}

static void standin_file_deregister(void *handle)
{
    pthread_mutex_lock(&standin.lock);
    standin.file_count -= *(int *)handle != 0;
    *(int *)handle = 0;
    pthread_mutex_unlock(&standin.lock);
}

static struct cufile_status standin_buffer_register(const void *memory, size_t bytes, int flags)
{
    struct cufile_status status = standin.buffer_status;
    if (flags != 0 || !shadow_find(memory) || !shadow_find((const char *)memory + bytes - 1))
        status.error = 5012;
    if (status.error == 0)
        standin.buffers[standin.buffer_count++] = memory;
    return status;
}

static struct cufile_status standin_buffer_deregister(const void *memory)
{
    for (int i = 0; i < standin.buffer_count; i++)
        if (standin.buffers[i] == memory) {
            standin.buffers[i] = standin.buffers[--standin.buffer_count];
            return (struct cufile_status){0};
        }
    return (struct cufile_status){5024, 0};
}

// Returns the error of a call, or 0, and sets *bytes to the bytes that it moves.
static ssize_t standin_begin(const int *handle, const void *memory, off_t file_offset, off_t memory_offset,
                             size_t *bytes, int *call)
{
    *call = ++standin.move_count;
    pthread_mutex_lock(&standin.lock);
    int file = *handle;
    standin.last_memory = memory;
    standin.last_file_offset = file_offset;
    standin.last_memory_offset = memory_offset;
    pthread_mutex_unlock(&standin.lock);
    if (file == 0)
        return -5027;
    if (shadow_device != standin.device)
        return -5015;
    if (!shadow_find((const char *)memory + memory_offset) ||
        !shadow_find((const char *)memory + memory_offset + *bytes - 1))
        return -5014;
    if (standin.piece_bytes > 0 && *bytes > standin.piece_bytes)
        *bytes = standin.piece_bytes;
    errno = standin.fail_errno;
    return *call == standin.fail_at ? standin.fail_result : 0;
}

static ssize_t standin_read(void *handle, void *memory, size_t bytes, off_t file_offset, off_t memory_offset)
{
    int call;
    ssize_t wrong = standin_begin(handle, memory, file_offset, memory_offset, &bytes, &call);
    if (wrong != 0)
        return wrong;
    if (call == standin.drop_at)
        return (ssize_t)bytes;
    unsigned char *to = shadow_find((char *)memory + memory_offset);
    ssize_t moved = pread(*(int *)handle - 1, to, bytes, file_offset);
    if (moved > 0 && call == standin.spoil_at)
        to[moved / 2] ^= 4;
    return moved;
}

static ssize_t standin_write(void *handle, const void *memory, size_t bytes, off_t file_offset, off_t memory_offset)
{
    int call;
    ssize_t wrong = standin_begin(handle, memory, file_offset, memory_offset, &bytes, &call);
    if (wrong != 0)
        return wrong;
    if (call == standin.drop_at)
        return (ssize_t)bytes;
    unsigned char *from = shadow_find((const char *)memory + memory_offset);
    if (call == standin.spoil_at)
        from[bytes / 2] ^= 4;
    return pwrite(*(int *)handle - 1, from, bytes, file_offset);
}

static const struct cufile_calls standin_calls = {
    .driver_open = standin_driver_open,
    .driver_close = standin_driver_close,
    .properties = standin_properties,
    .file_register = standin_file_register,
    .file_deregister = standin_file_deregister,
    .buffer_register = standin_buffer_register,
    .buffer_deregister = standin_buffer_deregister,
    .read = standin_read,
    .write = standin_write,
};

#endif
