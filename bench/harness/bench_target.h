// SPDX-License-Identifier: Apache-2.0
// Attributes of functions that the compiler vectorises for one instruction set, chosen at run time by isa_best.
#ifndef ZG_BENCH_TARGET_H
#define ZG_BENCH_TARGET_H

#define BENCH_INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define BENCH_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define BENCH_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define BENCH_AVX2 __attribute__((target("avx2")))

#endif
