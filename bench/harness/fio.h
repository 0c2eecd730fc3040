// SPDX-License-Identifier: Apache-2.0
// The baseline of storage: fio, on files of this process with the same requests.
#pragma once

#include "bench/harness/nvme_stream.h"

enum { FIO_VERSION_BYTES = 64, FIO_PERCENTILE_COUNT = 4 };

// The percentiles 50, 95, 99 and 99.9.
extern const double fio_percentiles[FIO_PERCENTILE_COUNT];

// Returns fio's version, such as "fio-3.33". ERR_USAGE: it is not installed.
int fio_version(char out[FIO_VERSION_BYTES]);

struct fio_result {
    double bytes_per_ns;
    double percentiles_us[FIO_PERCENTILE_COUNT];  // latency of reads; of writes in a stream that only writes
};

// Runs the stream by fio for its seconds. The files must be filled; fio writes data of its own. fio opens the unnamed
// files by their descriptors in this process. ERR_IO: fio failed.
int fio_run(const struct stream *stream, bool buffered, struct fio_result *out);

// Runs fio with these arguments, null at the end; the first is its name, and one asks for JSON. *bytes_per_ns: what its
// first job, or its group of jobs, read and wrote. ERR_IO: fio failed.
int fio_rate(char *const arguments[], double *bytes_per_ns);
