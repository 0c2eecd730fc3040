// SPDX-License-Identifier: Apache-2.0
// Counter-based random bits: each value is a function of its coordinates, in integer arithmetic only, and needs no
// value before it. random_key folds coordinates (seed, step, ...) into a key one by one; random_at returns the bits of
// one element under a key.
#pragma once

#include <stdint.h>

// Step and finaliser of splitmix64: a bijection on 64-bit words.
static inline uint64_t random_mix(uint64_t bits)
{
    bits += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

// Returns the key for one more coordinate under key.
static inline uint64_t random_key(uint64_t key, uint64_t coordinate)
{
    return random_mix(key ^ random_mix(coordinate));
}

static inline uint64_t random_at(uint64_t key, uint64_t element)
{
    return random_key(key, element);
}

// Maps bits evenly to 0 .. count-1.
static inline uint64_t random_below(uint64_t bits, uint64_t count)
{
    return (uint64_t)((unsigned __int128)bits * count >> 64);
}

// Returns a nearly normal value, the sum of four 16-bit uniforms: mean 0, deviation 1, magnitude at most 3.47.
static inline float random_normal(uint64_t bits)
{
    int32_t sum = 0;
    for (int shift = 0; shift < 64; shift += 16)
        sum += (int32_t)(bits >> shift & 0xffff);
    return (float)(2 * sum - 4 * 65535) * 1.3214983e-05f;
}
