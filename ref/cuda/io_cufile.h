// SPDX-License-Identifier: Apache-2.0
// GPUDirect Storage: an engine of io.h that uses cuFile, for requests whose memory lies on a GPU. cuFile's calls are
// synchronous, and submit completes each request, so requests are in flight only on the threads of a pool
// (intra_op_parallelism), each with a queue of depth 1. cuFile decides whether bytes pass through host memory
// (io_cufile_path).
//
// cuFile is global to the process, and so is this: open it, register memory, use queues, deregister the memory, close
// it. A file is registered when a request first names it, once for all queues, and stays so until the last of these
// queues is closed. cuFile accepts files opened with O_DIRECT that have a name when they are registered; it refuses
// O_TMPFILE. The engine itself needs no CUDA; the library's functions do (io_cufile_library).
#ifndef ZG_IO_CUFILE_H
#define ZG_IO_CUFILE_H

#include "ref/tier/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// The types of libcufile.so.0; io_cufile_test.c compares them with cufile.h if that is installed.
struct cufile_status {
    int error;       // CUfileOpError; 0: none
    int cuda_error;  // CUresult, if error is CUFILE_CUDA_DRIVER_ERROR
};

enum { CUFILE_ERROR_BASE = 5000, CUFILE_CUDA_DRIVER_ERROR = 5011, CUFILE_DESCRIPTOR = 1 };

struct cufile_description {
    int type;  // CUFILE_DESCRIPTOR
    union {
        int file;
        void *other;
    } handle;
    const void *operations;  // null
};

struct cufile_properties {
    unsigned driver_major, driver_minor;
    size_t poll_threshold_kib, direct_most_kib;
    unsigned status_flags, control_flags, feature_flags;
    unsigned device_cache_kib, buffer_cache_kib, pinned_most_kib, batch_most, batch_timeout_ms;
};

// Bits of control_flags and feature_flags.
enum { CUFILE_ALLOWS_COMPATIBILITY = 1u << 1, CUFILE_HAS_PCI_P2PDMA = 1u << 4 };

// The functions of cuFile that the engine calls; a test replaces them.
struct cufile_calls {
    const char *library;  // the file loaded
    struct cufile_status (*driver_open)(void);
    struct cufile_status (*driver_close)(void);
    struct cufile_status (*properties)(struct cufile_properties *out);
    struct cufile_status (*file_register)(void **handle, struct cufile_description *description);
    void (*file_deregister)(void *handle);
    struct cufile_status (*buffer_register)(const void *memory, size_t bytes, int flags);
    struct cufile_status (*buffer_deregister)(const void *memory);
    // Return the bytes moved; -1 with errno, which may be a CUfileOpError; or minus a CUfileOpError.
    ssize_t (*read)(void *handle, void *memory, size_t bytes, off_t file_offset, off_t memory_offset);
    ssize_t (*write)(void *handle, const void *memory, size_t bytes, off_t file_offset, off_t memory_offset);
};

// Loads the functions of the library on first use. ERR_USAGE: the library is not installed or cannot be loaded. Built
// with CUDA only.
int io_cufile_library(const struct cufile_calls **out);

// Returns whether the kernel has the module nvidia-fs.
bool io_cufile_has_nvidia_fs(void);

// Returns the path of the bytes, as far as it can be known: "nvidia-fs", "PCI P2PDMA", "compatibility mode" (through
// host memory), or one of the first two with " or compatibility mode" if cuFile may choose that for a file system.
const char *io_cufile_path(bool has_nvidia_fs, const struct cufile_properties *properties);

// Opens cuFile for this process and sets *path to io_cufile_path. The calls outlive it. ERR_IO gives cuFile's reason;
// ERR_INTERNAL: it is open already.
int io_cufile_open(const struct cufile_calls *calls, const char **path);

// Closes cuFile, if it is open, after all queues are closed and all memory is deregistered.
void io_cufile_close(void);

// Registers memory, so that requests within it need no copy on its device. The memory may belong to an accelerator
// (accelerator.h); a thread enters `device` before it calls cuFile for that memory. ERR_IO: cuFile refuses.
int io_cufile_register(void *memory, size_t bytes, int device);
void io_cufile_deregister(void *memory);  // null-safe

// Keeps the file registered until it is given back, whether queues use it or not; it may be unlinked meanwhile. path
// appears in messages. ERR_IO: cuFile refuses it.
int io_cufile_keep(int file, const char *path);
void io_cufile_give(int file);

// The engine. For memory that is not registered, cuFile uses buffers of its own. ERR_INTERNAL: cuFile is not open.
extern const struct io_engine io_engine_cufile;

// Returns code. If it is an error and cuFile has reported a failure since the last call, adds that failure to the
// message, because the pool knows only errno.
int io_cufile_explain(int code);

// Returns whether the last message with an error of cuFile means that it cannot serve this machine, GPU, file system or
// disk at all, so that what needs it is skipped rather than failed.
bool io_cufile_cannot_serve(void);

#endif
