// SPDX-License-Identifier: Apache-2.0
// IVDEP before a loop: no iteration reads what another one writes, so the compiler needs no check for overlap before
// its vector code.
#ifndef ZG_IVDEP_H
#define ZG_IVDEP_H

#ifdef __clang__
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

#endif
