// SPDX-License-Identifier: Apache-2.0
// The list of benchmarks: ROW(NAME) adds `const struct benchmark bench_NAME`, which the benchmark's own file defines.
#pragma once

#include "bench/harness/bench.h"

#define BENCHMARKS(ROW)                                                                                                \
    ROW(adam)                                                                                                          \
    ROW(checkpoint)                                                                                                    \
    ROW(comm)                                                                                                          \
    ROW(links)                                                                                                         \
    ROW(memory)                                                                                                        \
    ROW(nvme)                                                                                                          \
    ROW(overlap)                                                                                                       \
    ROW(pcie)                                                                                                          \
    ROW(peer)                                                                                                          \
    ROW(pipeline)                                                                                                      \
    ROW(product)                                                                                                       \
    ROW(ranks)                                                                                                         \
    ROW(step)                                                                                                          \
    ROW(swap)

#define BENCHMARK_DECLARE(NAME) extern const struct benchmark bench_##NAME;
BENCHMARKS(BENCHMARK_DECLARE)
#undef BENCHMARK_DECLARE

// Returns benchmark `index` of the list, "all" behind the last, and null past that.
const struct benchmark *bench_at(size_t index);

// Returns whether all ranks of a launcher measure this benchmark together; false for an unknown name.
bool bench_is_together(const char *name);

// Runs the benchmark argv[0] as `zerogauge bench ARGV` does; returns the exit status.
int bench_named(int argc, const char **argv);

// Runs `zerogauge bench`; returns the exit status.
int bench_main(int argc, const char **argv);
