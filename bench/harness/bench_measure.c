// SPDX-License-Identifier: Apache-2.0
// Alternating repetitions of work and baseline, and the median and quantiles of their samples.
#include "bench/harness/bench.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/statistics.h"
#include "bench/harness/bench_world.h"

#include <assert.h>
#include <math.h>

double bench_quantile(const struct bench_samples *samples, double q)
{
    assert(samples->count > 0 && samples->count <= BENCH_REPEAT_MAX && q >= 0 && q <= 1);
    return statistics_quantile(samples->values, samples->count, q);
}

double bench_median(const struct bench_samples *samples)
{
    return bench_quantile(samples, 0.5);
}

int bench_time(const struct bench_work *work, uint64_t *ns)
{
    if (work->prepare)
        TRY(work->prepare(work->context));
    uint64_t start_ns = clock_now_ns();
    TRY(work->run(work->context));
    *ns = clock_now_ns() - start_ns;
    return ERR_NONE;
}

static int repetition(const struct bench_work *work, double items, struct bench_samples *samples)
{
    uint64_t ns;
    TRY(bench_time(work, &ns));
    if (samples)
        samples->values[samples->count++] = (double)ns / items;
    return ERR_NONE;
}

int bench_alternate(const struct bench_work *work, const struct bench_work *baseline, size_t warmup, size_t repeat,
                    double items, struct bench_samples *work_samples, struct bench_samples *baseline_samples)
{
    assert(work->run && baseline->run && repeat > 0 && repeat <= BENCH_REPEAT_MAX && items > 0);
    work_samples->count = baseline_samples->count = 0;
    for (size_t i = 0; bench_repeats(warmup, repeat, i); i++) {
        bool counted = i >= warmup;
        TRY(repetition(work, items, counted ? work_samples : NULL));
        TRY(repetition(baseline, items, counted ? baseline_samples : NULL));
    }
    return ERR_NONE;
}

int bench_choose_rounds(int (*run)(void *context, double *ms), void *context, uint64_t *rounds)
{
    double ms;
    *rounds = 1;
    TRY(run(context, &ms));
    TRY(run(context, &ms));
    while (ms * 1e6 < BENCH_SAMPLE_NS && *rounds < BENCH_ROUNDS_MAX) {
        *rounds *= 2;
        TRY(run(context, &ms));
    }
    return ERR_NONE;
}

int bench_take_turns(const struct bench_timed works[], size_t count, size_t warmup, size_t repeat)
{
    assert(count > 0 && repeat > 0 && repeat <= BENCH_REPEAT_MAX);
    for (size_t w = 0; w < count; w++)
        works[w].samples->count = 0;
    for (size_t i = 0; bench_repeats(warmup, repeat, i); i++) {
        for (size_t turn = 0; turn < count; turn++) {
            const struct bench_timed *work = &works[(i + turn) % count];
            double ms;
            TRY(work->run(work->context, &ms));
            if (i >= warmup)
                work->samples->values[work->samples->count++] = ms * 1e6 / work->items;
        }
    }
    return ERR_NONE;
}

void bench_rate(struct bench_samples *samples, double bytes)
{
    assert(bytes > 0);
    for (size_t i = 0; i < samples->count; i++)
        samples->values[i] = bytes / samples->values[i];
}

// The time that the running benchmark may take; a process runs one at a time.
static struct {
    bool given;
    double end_s, case_begin_s, case_end_s;  // by clock_now_s; case_begin_s: 0 before the first
} budget;

void bench_budget_begin(double seconds)
{
    budget.given = seconds > 0;
    budget.end_s = budget.case_end_s = clock_now_s() + seconds;
    budget.case_begin_s = 0;
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
    budget.case_begin_s = now_s;
    budget.case_end_s = now_s + fmax(budget.end_s - now_s, 0) / (double)cases_left;
}

bool bench_budget_fits(double late_s)
{
    double now_s = clock_now_s();
    return !is_limited() || budget.case_begin_s == 0 || 2 * now_s - budget.case_begin_s <= budget.end_s + late_s;
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
