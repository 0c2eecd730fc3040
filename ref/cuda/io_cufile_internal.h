// SPDX-License-Identifier: Apache-2.0
// The files and buffers of the process's cuFile, for the queues of the engine (io_cufile_queue.c).
#ifndef ZG_IO_CUFILE_INTERNAL_H
#define ZG_IO_CUFILE_INTERNAL_H

#include "ref/cuda/io_cufile.h"

struct cufile_file {
    struct cufile_file *next;
    int descriptor, use_count;
    void *handle;
};

struct cufile_buffer {
    struct cufile_buffer *next;
    unsigned char *memory;
    size_t bytes;
    int device;
};

// Returns the functions of the open cuFile; null: it is not open.
const struct cufile_calls *cufile_calls_open(void);

// Registers the file unless it is registered, and adds a user. Returns 0 or -errno.
int cufile_take_file(int descriptor, struct cufile_file **out);

// Removes a user; the last one deregisters the file.
void cufile_give_file(struct cufile_file *file);

// Returns the registered buffer that holds the address, or one that begins at the address.
struct cufile_buffer cufile_find_buffer(void *address);

// Records a failure for io_cufile_explain, unless there is one; returns -errno.
int cufile_note_failure(const char *call, struct cufile_status status);

#endif
