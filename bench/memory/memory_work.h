// SPDX-License-Identifier: Apache-2.0
// A memory operation that is repeated in one way, and its verification: the source changes before every repetition (a
// stamp in each 4 KiB), and the result is compared before the next.
#pragma once

#include "bench/harness/bench.h"
#include "bench/memory/memory_kernels.h"
#include "bench/harness/streams.h"

// Adam's mix reads four arrays and writes three of them (streams.h).
enum memory_operation { MEMORY_COPY, MEMORY_READ, MEMORY_WRITE, MEMORY_ADAM_MIX, MEMORY_OPERATION_COUNT };

const char *memory_operation_name(enum memory_operation operation);

// Returns the bytes read plus the bytes written per byte of an array, and the number of arrays.
int memory_operation_bytes(enum memory_operation operation);
int memory_operation_arrays(enum memory_operation operation);

// Returns the name of a way, such as "streaming stores" or "memcpy"; null: the operation is not known in this way here.
const char *memory_way_name(enum memory_operation operation, enum memory_way way);

// Returns the way in which this program's own code would do it.
enum memory_way memory_own_way(enum memory_operation operation, bool in_cache);

// Returns the initial value of a word of an array. No byte has its highest bit set.
memory_word memory_value_at(int array, size_t index);

enum { MEMORY_ARRAY_COUNT = 5, MEMORY_STAMP_WORDS = 512 };

// Arrays of equal size: Adam's four, the first of which is the source of copies and reads; and the target of writes. An
// operation has only those that it needs.
struct memory_work;
struct memory_arrays {
    enum memory_operation operation;
    size_t count;          // words of each, a multiple of MEMORY_STAMP_WORDS
    int threads;           // that touched the pages first
    int checking_threads;  // that fill and verify
    bool huge;
    memory_word *arrays[MEMORY_ARRAY_COUNT];
    uint64_t round;                  // the stamp in each 4 KiB of the first array
    bool flipped;                    // true if Adam's mix has been applied an odd number of times
    const struct memory_work *last;  // the last operation that wrote, not yet verified; null: none
};

// Allocates and fills the arrays of an operation, touched first by `threads` threads. checking_threads: at least 1.
// ERR_MEMORY. Closing a zeroed struct is safe.
int memory_arrays_open(enum memory_operation operation, size_t count, int threads, int checking_threads, bool huge,
                       struct memory_arrays *out);
void memory_arrays_close(struct memory_arrays *arrays);

// Verifies every word that the last repetition wrote. ERR_CHECK: some are wrong.
int memory_arrays_check(struct memory_arrays *arrays);

struct memory_work {
    struct memory_arrays *arrays;
    enum memory_way way;
    int threads;
    memory_word value;  // the word to write, or the expected sum
};

// For bench_alternate, with a struct memory_work as the context. Prepare verifies the last repetition and changes the
// source; run is one repetition, and compares what it read immediately.
int memory_work_prepare(void *context);
int memory_work_run(void *context);

// Chooses the fastest of all ways by the shortest of a few trials; base: its arrays and threads.
int memory_work_fastest(const struct memory_work *base, struct memory_work *out);
