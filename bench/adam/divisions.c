// SPDX-License-Identifier: Apache-2.0
// Divisions and square roots, vectorised by the compiler for the best instruction set that this processor has.
#include "bench/adam/divisions.h"

#include "ref/arithmetic/isa.h"

#include <math.h>

#define DIVISIONS_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define DIVISIONS_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define DIVISIONS_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define DIVISIONS_AVX2 __attribute__((target("avx2")))

// Elements whose results the next round takes: enough that none waits for another.
enum { BLOCK = 512 };

// As Adam's last operations: sqrt(v) / bias + eps, and m over that; or over that over the step size.
DIVISIONS_INLINE float divide_block(size_t count, int per_element)
{
    _Alignas(64) float x[BLOCK];
    const volatile float one = 1;  // which the compiler cannot know
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

DIVISIONS_AVX512 static float divide_avx512(size_t count, int per_element)
{
    return divide_block(count, per_element);
}

DIVISIONS_AVX2 static float divide_avx2(size_t count, int per_element)
{
    return divide_block(count, per_element);
}

static float divide_scalar(size_t count, int per_element)
{
    return divide_block(count, per_element);
}

static float (*const builds[ISA_COUNT])(size_t count, int per_element) = {
    [ISA_SCALAR] = divide_scalar,
    [ISA_AVX2] = divide_avx2,
    [ISA_AVX512] = divide_avx512,
};

float divisions_step(size_t count, int per_element, int threads)
{
    enum isa isa = isa_best();
    float result = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : result)
    for (int part = 0; part < threads; part++) {
        size_t begin = count / (size_t)threads * (size_t)part;
        size_t end = part + 1 == threads ? count : begin + count / (size_t)threads;
        float found = builds[isa](end - begin, per_element);
        // A comparison with what is not a number is false.
        result = found <= result ? result : found;
    }
    return result;
}
