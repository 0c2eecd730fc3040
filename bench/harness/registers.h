// SPDX-License-Identifier: Apache-2.0
// The peak of a processor's arithmetic: fused multiply-adds of a matrix product's tile in registers alone.
#pragma once

#include <stdbool.h>

// Steps of each chain of a pass, between two looks at the clock.
enum { REGISTERS_STEPS = 1 << 14 };

// Operations of a pass of one thread; a fused multiply-add is two.
double registers_flops(void);

// One pass by the calling thread. Returns false if its sums are wrong.
bool registers_pass(void);

// Passes of `threads` threads at the same time, each for at least `seconds`. Sets the operations of all in a ns.
// ERR_CHECK: sums are wrong.
int registers_measure(int threads, double seconds, double *gflops);
