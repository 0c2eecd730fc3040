// SPDX-License-Identifier: Apache-2.0
// The result file of --out (results/RECORDS.md): one per process, open from bench_parse to bench_exit. Without --out
// records are dropped.
#pragma once

#include "bench/harness/bench.h"

// Creates the file for `zerogauge bench ARGV`. ERR_USAGE: it exists already.
int bench_file_open(const char *path, int argc, const char **argv, const struct bench_options *options);

bool bench_file_is_open(void);

// Appends a record and takes ownership of it.
int bench_file_append(json_t *record);

// Appends the record of a benchmark that `bench all` ran from begin_ns until now, with its exit status.
int bench_file_part(int argc, const char **argv, uint64_t begin_ns, int status);

// Closes the file if the benchmark `name` opened it: with an end record if code is ERR_NONE, else without one, which
// marks a failed run. Returns code, or the error of writing.
int bench_file_close(const char *name, int code);
