// SPDX-License-Identifier: Apache-2.0
// Emulated lanes: links and disks that are made as slow as those of another machine, so that its proportions can be
// studied here. In training only lanes that move bytes can be: what is computed is computed for real. A benchmark of
// the lanes themselves throttles what is computed, too.
#ifndef ZG_EMULATE_H
#define ZG_EMULATE_H

#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

struct emulation {
    double bytes_per_s[LANE_COUNT];  // 0: as fast as it is; of the lane compute: operations
};

// "h2d=12,nvme-read=3.2": lanes and GB/s, of 10^9 bytes. Lanes not named are 0. ERR_USAGE.
int emulation_parse(const char *text, struct emulation *out);

// The same with all lanes: "cpu=2,compute=5" are GB/s that updates read and write, and GFLOP/s.
int emulation_parse_all(const char *text, struct emulation *out);

// Whether any lane is throttled.
bool emulation_any(const struct emulation *emulation);

// Sleeps until then, in nanoseconds of CLOCK_MONOTONIC; a time that is over is no wait.
void emulation_sleep_until(uint64_t time_ns);

// The same form, in the order of the lanes; "" if none is throttled. Returns out.
enum { EMULATION_TEXT_BYTES = 192 };
const char *emulation_text(const struct emulation *emulation, char out[EMULATION_TEXT_BYTES]);

#endif
