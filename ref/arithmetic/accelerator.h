// SPDX-License-Identifier: Apache-2.0
// A processor beside this one with memory of its own, which only its kernels and copies may touch. An address says
// whose memory it is: dtype.h, norm.h, adam.h and gpt_math.h run where their arrays lie, and bytes_copy reaches both
// sides, so that stages and models need not know which it is. Without an accelerator all memory is this processor's.
//
// What is begun there is in order for the thread that began it, and complete after that thread's accelerator_wait;
// executor.h waits at the end of each operation. An error of something that returns nothing is that wait's.
#ifndef ZG_ACCELERATOR_H
#define ZG_ACCELERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct isa_kernels;
struct matmul_operand;

struct accelerator {
    const char *name;
    const struct isa_kernels *kernels;          // for arrays in its memory; those that return numbers wait for them
    int (*enter)(int device);                   // the calling thread works on that device of it from now on
    int (*allocate)(size_t bytes, void **out);  // on the calling thread's device, 256-byte aligned
    int (*release)(void *memory);
    int (*lock)(void *memory, size_t bytes);  // this processor's memory stays where it is, for copies from and to it
    int (*unlock)(void *memory);
    int (*copy)(void *to, const void *from, size_t bytes);   // complete on return if either is this processor's memory
    int (*fill)(void *memory, uint32_t word, size_t bytes);  // 4-byte aligned, a multiple of 4 bytes
    int (*wait)(void);
    // matmul of gpt_math.h.
    void (*matmul)(size_t m, size_t n, size_t k, float alpha, struct matmul_operand a, struct matmul_operand b,
                   float beta, float *c, size_t c_stride);
};

// From now on, until it is disclaimed, that memory is the accelerator's: one for the whole process. bytes > 0.
int accelerator_claim(const struct accelerator *accelerator, const void *memory, size_t bytes);
void accelerator_disclaim(const void *memory);

// Whose memory that is; NULL: this processor's.
const struct accelerator *accelerator_of(const void *address);

// Waits for what the calling thread has begun on the accelerator. Without one there is nothing to wait for.
int accelerator_wait(void);

// to = from, either of them anywhere; without overlap. An accelerator's error is returned here and by the next
// accelerator_wait, so that callers without an error to return may leave it to that.
int bytes_copy(void *to, const void *from, size_t bytes);

// All bytes become zero; both a multiple of 4.
int bytes_zero(void *memory, size_t bytes);

#endif
