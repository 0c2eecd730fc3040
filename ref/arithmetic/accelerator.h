// SPDX-License-Identifier: Apache-2.0
// An accelerator is a second processor with its own memory, which only its kernels and copies may touch. The address
// of an array decides which processor works on it: dtype.h, norm.h, adam.h and gpt_math.h run where their arrays lie,
// and bytes_copy reaches both memories, so that stages and models need not distinguish them. Without an accelerator all
// memory is the host's.
//
// The accelerator runs the work of one thread in order, asynchronously; it is complete after that thread's
// accelerator_wait, which executor.h calls at the end of each operation. accelerator_wait also returns the errors of
// functions that return nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct isa_kernels;
struct matmul_product;

struct accelerator {
    const char *name;
    const struct isa_kernels *kernels;          // for arrays in its memory; a kernel that returns a number waits for it
    int (*enter)(int device);                   // selects the device for the calling thread
    int (*allocate)(size_t bytes, void **out);  // on the calling thread's device, 256-byte aligned
    int (*release)(void *memory);
    int (*lock)(void *memory,
                size_t bytes);  // pins host memory, so that the accelerator copies from and to it directly
    int (*unlock)(void *memory);
    // If either address is in host memory, it is complete on return, and an error of earlier work is returned, too.
    int (*copy)(void *to, const void *from, size_t bytes);
    int (*fill)(void *memory, uint32_t word, size_t bytes);  // 4-byte aligned, a multiple of 4 bytes
    int (*wait)(void);
    void (*matmul)(const struct matmul_product *product);  // matmul.h
    // of_library: its library makes the products of floats, too, in an order of its own; else our kernel makes them, as
    // matmul.h defines them. For the whole process. Null: there is one way.
    void (*choose_products)(bool of_library);
};

// Registers memory as the accelerator's until it is disclaimed. bytes > 0; a process has one accelerator.
int accelerator_claim(const struct accelerator *accelerator, const void *memory, size_t bytes);
void accelerator_disclaim(const void *memory);

// Returns the accelerator whose memory the address lies in; null: host memory.
const struct accelerator *accelerator_of(const void *address);

// Waits for the work that the calling thread has begun on the accelerator; returns immediately if there is none.
int accelerator_wait(void);

// Copies within or between the two memories; the ranges do not overlap. The next accelerator_wait returns an
// accelerator's error once more, for callers that ignore this result.
int bytes_copy(void *to, const void *from, size_t bytes);

// Sets bytes to zero, in either memory. On an accelerator, address and size are multiples of 4.
int bytes_zero(void *memory, size_t bytes);
