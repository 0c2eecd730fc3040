// SPDX-License-Identifier: Apache-2.0
// A function in one build for each instruction set of ref/arithmetic/isa.h, vectorised by the compiler; isa_best
// chooses among them at run time.
#pragma once

#include "ref/arithmetic/isa.h"

#define BENCH_INLINE inline __attribute__((always_inline))
#if defined(__aarch64__)
#define BENCH_WIDE
#ifdef __clang__
#define BENCH_WIDEST __attribute__((target("sve")))
#else
#define BENCH_WIDEST __attribute__((target("+sve")))
#endif
#else
#define BENCH_WIDE __attribute__((target("avx2")))
#ifdef __clang__
#define BENCH_WIDEST __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define BENCH_WIDEST __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#endif

// Defines the array NAME_builds[isa] of functions `type NAME(parameters)`, all of which return the expression `call` of
// a BENCH_INLINE function.
#define BENCH_BUILDS(type, name, parameters, call)                                                                     \
    static type name##_scalar parameters                                                                               \
    {                                                                                                                  \
        return call;                                                                                                   \
    }                                                                                                                  \
    BENCH_WIDE static type name##_wide parameters                                                                      \
    {                                                                                                                  \
        return call;                                                                                                   \
    }                                                                                                                  \
    BENCH_WIDEST static type name##_widest parameters                                                                  \
    {                                                                                                                  \
        return call;                                                                                                   \
    }                                                                                                                  \
    static type(*const name##_builds[ISA_COUNT]) parameters = {name##_scalar, name##_wide, name##_widest}
