// SPDX-License-Identifier: Apache-2.0
// The time since a fixed moment in the past, the same for all processes of a machine, monotonic; and dates as records
// have them.
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double clock_now_s(void)
{
    return (double)clock_now_ns() * 1e-9;
}

// Seconds since 1970 as "2026-11-29T02:00:00Z".
enum { CLOCK_UTC_BYTES = 32 };
static inline void clock_utc_text(time_t seconds, char text[CLOCK_UTC_BYTES])
{
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, CLOCK_UTC_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
