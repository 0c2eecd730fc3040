// SPDX-License-Identifier: Apache-2.0
// One thing done to memory again and again, and its proof: what it reads changes before every repetition (a number in
// each 4 KiB), and what it left is compared before the next.
#ifndef ZG_MEMORY_WORK_H
#define ZG_MEMORY_WORK_H

#include "bench/harness/bench.h"
#include "bench/memory/memory_kernels.h"
#include "bench/adam/streams.h"

// The first four, and what the C library has for them; the mix of Adam's update is four arrays read and three of them
// written (streams.h), and has nothing there.
enum memory_operation {
    MEMORY_COPY,
    MEMORY_READ,
    MEMORY_WRITE,
    MEMORY_ADAM_MIX,
    MEMORY_COPY_LIBC,
    MEMORY_READ_LIBC,
    MEMORY_WRITE_LIBC,
    MEMORY_OPERATION_COUNT
};
enum { MEMORY_OWN_COUNT = MEMORY_COPY_LIBC };

const char *memory_operation_name(enum memory_operation operation);

// For one byte of each array: bytes read and bytes written.
int memory_operation_bytes(enum memory_operation operation);

enum { MEMORY_ARRAY_COUNT = 5, MEMORY_STAMP_WORDS = 512 };

// Arrays of equal size: the four of Adam, the first of which is what is copied and read; and one that is written.
struct memory_work;
struct memory_arrays {
    size_t count;  // words of each; a multiple of MEMORY_STAMP_WORDS
    int threads;   // that wrote the pages first
    bool huge;
    memory_word *arrays[MEMORY_ARRAY_COUNT];
    uint64_t round;                  // the number in each 4 KiB of the first array
    bool flipped;                    // whether Adam's mix has been applied an odd number of times
    const struct memory_work *last;  // what wrote last, and is not verified yet; null: nothing
};

// ERR_MEMORY. Filled, and touched first by these threads.
int memory_arrays_open(size_t count, int threads, bool huge, struct memory_arrays *out);
void memory_arrays_close(struct memory_arrays *arrays);  // of zeros too

// ERR_CHECK unless everything is as the last repetition should have left it.
int memory_arrays_check(struct memory_arrays *arrays);

struct memory_work {
    struct memory_arrays *arrays;
    enum memory_operation operation;
    int threads;
    bool past_cache;    // what is written is larger than the caches
    memory_word value;  // that it writes, or finds as a sum
};

// For bench_alternate: prepare verifies what was done last to the arrays and changes them; run is one repetition. What
// is read is compared at once.
int memory_work_prepare(void *context);
int memory_work_run(void *context);

#endif
