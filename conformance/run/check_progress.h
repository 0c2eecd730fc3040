// SPDX-License-Identifier: Apache-2.0
// How far a run is, on standard error: a bar on a terminal, elsewhere a line every ten seconds; each with the time left
// at the pace of the run so far.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct check_progress {
    size_t all_count, done_count;  // the run's cases, and those of them that earlier launches have answered
    double begin_s, shown_s;       // on clock_now_s: of the run, and of the last line
    int world;                     // of the launch
    const char *answers;           // its folder of answers; null: none yet
};

enum { CHECK_PROGRESS_BYTES = 128 };

// "412 of 1491 cases, 2 ranks, 25 s left", with a bar before it; the time only where it can be told. Returns out.
const char *check_progress_text(const struct check_progress *progress, size_t answered, double seconds, bool bar,
                                char out[CHECK_PROGRESS_BYTES]);

// Tells how far the run is, if it is time to. A launch's tick; context: a struct check_progress.
void check_progress_tick(void *context, double seconds);

// Takes the bar from the terminal.
void check_progress_end(void);
