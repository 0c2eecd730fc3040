// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime and cuBLAS for hosts without a GPU, for tests: work on a stream is a queue that runs when somebody
// waits, and not before, so that a missing wait always shows. It finds what a GPU may hide:
//
//     a kernel, a fill or a copy between the device and page-locked memory begins when a wait for it does; the source
//     and the target of a copy are read and written then
//     a copy from pageable memory has read its source on return; one within the host is complete then
//     work that nobody waited for before its stream was destroyed, or the process ended, ends the process
//     a captured stream's work does nothing until its graph is launched; waiting for the stream, and allocating and
//     freeing memory in its thread, fail meanwhile and make the capture invalid
//     fresh device memory is filled with NaN; freed addresses are never used again
//     device memory is accessible only while the queues run: the host that touches it, and work on memory that was
//     freed, get SIGSEGV
//
// Kernels are the project's own, compiled for the host (kernel.cuh): the threads of a block run as fibers, in random
// order between barriers and shuffles (block.c). The environment changes what there is:
//
//     ZG_STANDIN_DEVICES=N      the number of devices; 1 unless set
//     ZG_STANDIN_CAPABILITY=XY  their compute capability, X.Y; 9.0 unless set
//     ZG_STANDIN_BYTES=N        the memory of all together; half of the host's unless set
//     ZG_STANDIN_GIVEN_BYTES=N  of these, what can be allocated; all unless set
//     ZG_STANDIN_REFUSE=NAME    the function of this name fails for lack of memory
//     ZG_STANDIN_SEED=N         of the order of threads; 0 unless set
//     ZG_STANDIN_COUNTS=FILE    launches and the bytes of memory that they move are written there, a line for each
//     kind:
//                               launches, bytes read, bytes written, name; kernels' bytes where they were compiled so
//     ZG_STANDIN_CACHE_BYTES=N  of the cache between kernels and memory, for the counts; 0 unless set
//     ZG_STANDIN_LATE_US=N      every other stream begins its work N microseconds after a wait for it does
#pragma once

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Its name as a device.
#define STANDIN_NAME "CUDA stand-in (host)"

// Work: run is called once with what it works on, which it frees. again: returns another of the same, for each launch
// of a graph; null: it cannot be captured.
struct standin_work {
    void (*run)(void *what);
    void *what;
    void *(*again)(void *what);
};

// Adds work to the stream's queue; null: the default stream of the current device.
cudaError_t standin_enqueue(cudaStream_t stream, struct standin_work work);

// Work that runs no sooner than is_ready returns true; if `waits`, it returns only then.
cudaError_t standin_enqueue_when(cudaStream_t stream, struct standin_work work,
                                 bool (*is_ready)(void *what, bool waits));

// Returns whether the stream exists: it was not destroyed.
bool standin_stream_is_open(cudaStream_t stream);

int standin_stream_device(cudaStream_t stream);

// Where a stream has what is captured of it, null where nothing is. A captured stream adds its work there, and refuses
// waits; which does so, returns the error.
cudaGraph_t *standin_capture_of(cudaStream_t stream);
cudaError_t standin_capture_add(cudaGraph_t graph, struct standin_work work, bool (*is_ready)(void *what, bool waits));
cudaError_t standin_capture_refuse(cudaGraph_t graph);

// Returns whether a capture of the calling thread forbids what may wait for the device, such as allocations, and work
// on the default stream, even where the captured one would not wait for it; the capture is then invalid, and the status
// set.
bool standin_capture_forbids(cudaError_t status);

// Graphs, and what was made of them to be launched, that were not destroyed.
int standin_graph_count(void);

// Ends the process: the program uses CUDA in a way whose result is undefined.
void standin_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

// Returns status, which cudaGetLastError then returns, too.
cudaError_t standin_status(cudaError_t status);

// Returns whether ZG_STANDIN_REFUSE names the function.
bool standin_refuses(const char *function);

// The calling thread's device.
int standin_device(void);

// Where memory is: on a device, page-locked, or neither. Memory that is on a device in part, or was freed there, is
// wrong.
enum standin_place { STANDIN_PAGEABLE, STANDIN_PINNED, STANDIN_ON_DEVICE, STANDIN_WRONG };
enum standin_place standin_place_of(const void *memory, size_t bytes);

// Device memory is accessible between these, which nest, in all threads.
void standin_memory_open(void);
void standin_memory_close(void);

// For the counts: the range of all device memory; the launch that the calling thread makes from now on; and bytes that
// it reads or writes.
void standin_count_memory(const void *range, size_t bytes);
void standin_count(const char *name);
void standin_touch(const void *address, size_t bytes, bool writes);
void standin_count_write(void);  // also when the process ends

// Runs a kernel's blocks: thread(what) for each thread.
void standin_run_kernel(unsigned blocks, unsigned threads, void (*thread)(void *what), void *what);

// The thread of a kernel that runs now.
struct standin_thread {
    unsigned index, block, thread_count, block_count;
};
const struct standin_thread *standin_thread(void);

// __syncthreads: returns when all threads of the block that have not ended have called it.
void standin_meet_block(void);

// Gives a value to the lanes of a warp that are in the mask, of which the caller is one, when all of them have called
// it. Returns their values by lane, valid until the thread's next call.
const uint64_t *standin_meet_warp(uint32_t mask, uint64_t value);

// A copy to shared memory, of which a part is there when it begins and the rest when the thread waits for its copies.
void standin_copy_begin(void *to, const void *from, size_t bytes);
void standin_copies_wait(void);

#ifdef __cplusplus
}
#endif
