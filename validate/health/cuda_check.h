// SPDX-License-Identifier: Apache-2.0
// The kernels of device_check.h, for one GPU, in a build with CUDA. The calling thread has chosen the device
// (cuda_lane_use).
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A block of threads computes the digests of two products whose bits are known.
struct cuda_check_block {
    uint64_t digests[2];  // chains of fused multiply-adds; tensor cores
    unsigned multiprocessor, worked;
};

// The products of `count` blocks, on one multiprocessor alone, or on all (-1). flip: the multiprocessor whose result
// gets a wrong bit, or -1. out: [count] of the host. Returns 0, or an error of cuda_lane.h.
int cuda_check_products(uint64_t seed, int multiprocessor, int flip, struct cuda_check_block *out, unsigned count);

// Computes the same on the processor.
void cuda_check_expected(uint64_t seed, uint64_t out[2]);

// Words of a pattern, which depend on their number from `first` on; a word of the random one.
enum cuda_check_pattern { PATTERN_ADDRESS, PATTERN_CHECKER, PATTERN_WALKING_ONE, PATTERN_RANDOM, PATTERN_COUNT };
uint64_t cuda_check_word(uint64_t seed, uint64_t number);

struct cuda_check_wrong {
    unsigned long long count, last_inverse;  // of words; ~ of the first one's number
};

// Enqueues: words of the device's memory become those of the pattern.
void cuda_check_write(uint64_t *words, size_t count, size_t first, enum cuda_check_pattern pattern, uint64_t seed);

// Enqueues: words that are not the pattern's, or its complement's, are counted in *out, of the device's memory; then
// each becomes the complement of what it should be. flip: the number of a word that gets a wrong bit before; ~0: none.
void cuda_check_read(uint64_t *words, size_t count, size_t first, enum cuda_check_pattern pattern, uint64_t seed,
                     int complement, uint64_t flip, struct cuda_check_wrong *out);

#ifdef __cplusplus
}
#endif
