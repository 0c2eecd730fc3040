// SPDX-License-Identifier: Apache-2.0
// The passes over a gradient from which the norm is computed, as operations (gradient_norm.c).
#pragma once

#include "ref/arithmetic/norm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The exponents at which squares are summed before the largest of all is known.
enum { OPTIMIZER_GUESSES = 9 };

// The spans of a scan behind those of its ranges: what it finds, and what it begins from.
enum { OPTIMIZER_SCAN_RESULTS = 3 };

struct gradient_scan {
    enum dtype dtype;
    uint32_t max_bits;
    uint32_t *max_out;       // [result_count], and so is sum_out; of guesses the sums' exponents differ
    const uint32_t *max_in;  // the bucket's own, for guesses,
    int last_exponent;       // and that of the step before
    struct norm_sum *sum_out;
    int result_count;
    bool first;  // begins its ranges' sums at 0; others add to them
    size_t range_count;
    struct norm_range ranges[];  // of gradients
};

// Operations on a struct gradient_scan: the largest magnitude; the sum of squares, relative to the largest of all; and
// sums relative to the exponents that are guessed.
int gradient_scan_maximum(void *arguments);
int gradient_scan_squares(void *arguments);
int gradient_scan_guesses(void *arguments);

// k of norm.h; 0 where all gradients are 0, whose sum is 0 at any exponent.
int gradient_exponent(uint32_t max_bits);

// A bucket's first guess: the exponent of its own largest square, or one below the last step's if that is larger.
int gradient_lowest_guess(uint32_t own_max_bits, int last_exponent);
