// SPDX-License-Identifier: Apache-2.0
// The baseline of storage: fio, run on files of our own with the same requests.
#ifndef ZG_FIO_H
#define ZG_FIO_H

#include "bench/storage/nvme_stream.h"

enum { FIO_VERSION_BYTES = 64, FIO_PERCENTILE_COUNT = 4 };

// 50, 95, 99 and 99.9.
extern const double fio_percentiles[FIO_PERCENTILE_COUNT];

// "fio-3.33"; ERR_USAGE where it is not installed.
int fio_version(char out[FIO_VERSION_BYTES]);

struct fio_result {
    double bytes_per_ns;
    double percentiles_us[FIO_PERCENTILE_COUNT];  // latency, of reads or else of writes
};

// What stream_run does, by fio, for the stream's seconds. The files have to have been written; what is written to them
// is fio's own. Its reading of files without names goes through this process, so they vanish with it.
int fio_run(const struct stream *stream, bool buffered, struct fio_result *out);

#endif
