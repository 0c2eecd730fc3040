// SPDX-License-Identifier: Apache-2.0
// IVDEP before a loop promises that no iteration reads what another one writes, so that the compiler's vector code
// needs no check for overlap.
#pragma once

#if defined(__aarch64__) && !defined(__ARM_NEON)
#define IVDEP  // there is no vector code, and clang would warn of that
#elif defined(__clang__)
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif
