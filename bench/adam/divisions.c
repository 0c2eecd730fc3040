// SPDX-License-Identifier: Apache-2.0
// Divisions and square roots, vectorised by the compiler for the best instruction set of this CPU.
#include "bench/adam/divisions.h"

#include "bench/harness/bench_target.h"
#include "ref/arithmetic/adam.h"

#include <assert.h>
#include <math.h>

// Elements per round, each an input of the next: enough that no division waits for the previous one.
enum { BLOCK = 512 };

// Adam's last operations: m / (sqrt(v) / bias + eps), or m / ((sqrt(v) / bias + eps) / step_size).
static BENCH_INLINE float divide_block(size_t count, int per_element)
{
    _Alignas(64) float x[BLOCK];
    const volatile float one = 1;  // volatile, so that no division is folded away
    float a = one, b = one, c = one / 0x1p20f;
    for (size_t i = 0; i < BLOCK; i++)
        x[i] = 1 + (float)i / BLOCK;
    for (size_t done = 0; done < count; done += BLOCK) {
        if (per_element == 3)
            for (size_t i = 0; i < BLOCK; i++)
                x[i] = a / ((sqrtf(x[i]) / b + c) / a);
        else if (per_element == 2)
            for (size_t i = 0; i < BLOCK; i++)
                x[i] = a / (sqrtf(x[i]) / b + c);
        else
            for (size_t i = 0; i < BLOCK; i++)
                x[i] = a / (sqrtf(x[i]) * b + c);
    }
    return x[count % BLOCK];
}

BENCH_BUILDS(float, divide, (size_t count, int per_element), divide_block(count, per_element));

float divisions_step(size_t count, int per_element, int threads)
{
    assert(per_element >= 1 && per_element <= 3 && threads > 0);
    enum isa isa = isa_best();
    float result = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : result)
    for (int part = 0; part < threads; part++) {
        size_t begin = count / (size_t)threads * (size_t)part;
        size_t end = part + 1 == threads ? count : begin + count / (size_t)threads;
        float found = divide_builds[isa](end - begin, per_element);
        // Written so that a NaN wins.
        result = found <= result ? result : found;
    }
    return result;
}
