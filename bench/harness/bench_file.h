// SPDX-License-Identifier: Apache-2.0
// The result file of --out (results/RECORDS.md): one for a process, open from the command line to the exit status.
// Where there is none, records go nowhere.
#ifndef ZG_BENCH_FILE_H
#define ZG_BENCH_FILE_H

#include "bench/harness/bench.h"

// Begins the file for `zerogauge bench ARGV`. ERR_USAGE where it exists already.
int bench_file_open(const char *path, int argc, const char **argv, const struct bench_options *options);

// Takes the record over.
int bench_file_append(json_t *record);

// A benchmark that was run as one of all, from then to now.
int bench_file_part(int argc, const char **argv, uint64_t begin_ns, int status);

// For the benchmark of that name: ends the file if it is its own and code is ERR_NONE, else leaves it as that of a
// failed run. The code of the whole.
int bench_file_close(const char *name, int code);

#endif
