// SPDX-License-Identifier: Apache-2.0
// The time that the running benchmark may take; a process runs one at a time.
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"

#include "base/clock.h"

#include <assert.h>
#include <math.h>

static struct {
    bool given;
    double end_s, case_end_s;  // by clock_now_s
} budget;

void bench_budget_begin(double seconds)
{
    budget.given = seconds > 0;
    budget.end_s = budget.case_end_s = clock_now_s() + seconds;
}

// Ranks that measure together must all repeat equally often, and their clocks differ.
static bool is_limited(void)
{
    return budget.given && !bench_world_is_together();
}

double bench_budget_left_s(void)
{
    return is_limited() ? budget.end_s - clock_now_s() : INFINITY;
}

void bench_budget_case(size_t cases_left)
{
    assert(cases_left > 0);
    double now_s = clock_now_s();
    budget.case_end_s = now_s + fmax(budget.end_s - now_s, 0) / (double)cases_left;
}

static bool is_over(void)
{
    return is_limited() && clock_now_s() >= budget.case_end_s;
}

bool bench_tries(size_t most, size_t trials)
{
    return trials < (is_over() ? 1 : most);
}

bool bench_repeats(size_t warmup, size_t repeat, size_t round)
{
    size_t least = repeat < BENCH_REPEAT_LEAST ? repeat : BENCH_REPEAT_LEAST;
    return round < warmup + (is_over() ? least : repeat);
}
