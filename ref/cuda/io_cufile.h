// SPDX-License-Identifier: Apache-2.0
// GPUDirect Storage: cuFile as an engine behind io.h, whose requests name memory of a GPU. Its calls are synchronous: a
// request is done inside submit, so that requests in flight are the pool's threads (intra_op_parallelism), each with a
// queue of depth 1. Whether bytes pass host memory on the way is up to cuFile (io_cufile_path).
//
// cuFile is one for the whole process, and so is this: it is opened, memory is registered, queues come and go, memory
// is given back, it is closed. A file is registered when a request first names it, once however many queues it has, and
// it stays open until the last of them is closed. cuFile takes files that were opened with O_DIRECT, by their name
// (O_TMPFILE is refused), and that still have it when they are registered. The engine needs no CUDA; the library's
// calls do (io_cufile_library).
#ifndef ZG_IO_CUFILE_H
#define ZG_IO_CUFILE_H

#include "ref/tier/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// cuFile's own types, as libcufile.so.0 passes them; io_cufile_test.c compares them with cufile.h where that is found.
struct cufile_status {
    int error;       // CUfileOpError; 0: none
    int cuda_error;  // CUresult, where error is CUFILE_CUDA_DRIVER_ERROR
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

// What is called of cuFile; a test puts its own there.
struct cufile_calls {
    const char *library;  // the file that was loaded
    struct cufile_status (*driver_open)(void);
    struct cufile_status (*driver_close)(void);
    struct cufile_status (*properties)(struct cufile_properties *out);
    struct cufile_status (*file_register)(void **handle, struct cufile_description *description);
    void (*file_deregister)(void *handle);
    struct cufile_status (*buffer_register)(const void *memory, size_t bytes, int flags);
    struct cufile_status (*buffer_deregister)(const void *memory);
    // Bytes that were moved; -1 with errno, which may be a CUfileOpError; or minus a CUfileOpError. The second offset
    // is into the memory.
    ssize_t (*read)(void *handle, void *memory, size_t bytes, off_t file_offset, off_t memory_offset);
    ssize_t (*write)(void *handle, const void *memory, size_t bytes, off_t file_offset, off_t memory_offset);
};

// The library's own, loaded when first asked for. ERR_USAGE: there is none on this machine, or none that could be
// opened. Built with CUDA only.
int io_cufile_library(const struct cufile_calls **out);

// Whether the kernel has the module nvidia-fs.
bool io_cufile_has_nvidia_fs(void);

// The ways that bytes may go, as far as can be known: "nvidia-fs", "PCI P2PDMA", "compatibility mode", which is through
// host memory, or one of the first two with " or compatibility mode" where cuFile may choose that for a file system.
const char *io_cufile_path(bool has_nvidia_fs, const struct cufile_properties *properties);

// Opens cuFile for this process. ERR_IO says why that cannot be; ERR_INTERNAL: it is open already. The calls outlive
// it. *path becomes what io_cufile_path says.
int io_cufile_open(const struct cufile_calls *calls, const char **path);

// When no queue and no memory is left. Null-safe in that it may be called where it is not open.
void io_cufile_close(void);

// Requests may name memory within these bytes from now on without a copy on its device; it may be any accelerator's
// (accelerator.h), which a thread enters at that device before it calls cuFile for it. ERR_IO: cuFile refuses.
int io_cufile_register(void *memory, size_t bytes, int device);
void io_cufile_deregister(void *memory);  // null-safe

// The file is registered from now on until it is given back, used by queues or not; it may lose its name meanwhile.
// path is for messages. ERR_IO: cuFile refuses it.
int io_cufile_keep(int file, const char *path);
void io_cufile_give(int file);

// The engine. A request whose memory is not registered goes through what cuFile has for such memory. ERR_INTERNAL
// where cuFile is not open.
extern const struct io_engine io_engine_cufile;

// Returns code. If it is an error, and cuFile has reported a failure since the last call of this, the message says
// which: the pool knows of errno alone.
int io_cufile_explain(int code);

#endif
