// SPDX-License-Identifier: Apache-2.0
// Emulated lanes: links and disks throttled to the rates of another machine, to study its proportions here. Training
// throttles only lanes that move bytes; a benchmark of the lanes also throttles those that compute.
#pragma once

#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

struct emulation {
    double bytes_per_s[LANE_COUNT];  // 0: not throttled; LANE_COMPUTE: floating-point operations per s
};

// Parses "h2d=12,nvme-read=3.2": lanes and GB/s (10^9 bytes). Other lanes are 0. ERR_USAGE.
int emulation_parse(const char *text, struct emulation *out);

// The same for all lanes: cpu takes the GB/s that updates read and write, compute takes GFLOP/s.
int emulation_parse_all(const char *text, struct emulation *out);

// True if any lane is throttled.
bool emulation_any(const struct emulation *emulation);

// Sleeps until a time of CLOCK_MONOTONIC, in ns; returns immediately if it is over.
void emulation_sleep_until(uint64_t time_ns);

// Formats the rates in the form that emulation_parse_all reads; "" if no lane is throttled. Returns out.
enum { EMULATION_TEXT_BYTES = 192 };
const char *emulation_text(const struct emulation *emulation, char out[EMULATION_TEXT_BYTES]);
