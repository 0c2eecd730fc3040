// SPDX-License-Identifier: Apache-2.0
// What a step of Adam is compared with: its memory streams without arithmetic, in the way that is fastest here, or its
// divisions and square roots without memory, whichever takes longer.
#pragma once

#include "bench/adam/adam_case.h"
#include "bench/harness/streams.h"

struct adam_baseline {
    const struct adam_case *of;
    struct streams streams;
    uint64_t rounds;         // steps per repetition
    struct bench_work work;  // the chosen one
    bool is_streams;         // the chosen one moves the streams
    uint32_t sink;           // keeps the results of reading in use
    float divisions;         // keeps the results of dividing in use
};

// Chooses the baseline of a case by the shortest of a few trials of each; the case's arrays keep their state. The
// baseline must stay where it is while its work is used.
int adam_baseline_choose(const struct adam_case *of, const struct adam_arrays *arrays, bool in_cache, uint64_t rounds,
                         struct adam_baseline *out);
