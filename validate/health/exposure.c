// SPDX-License-Identifier: Apache-2.0
#include "validate/health/exposure.h"

#include "base/err.h"

#include <math.h>

static void add_work(struct health_work *work, const struct health_work *more)
{
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++) {
        work->core_seconds[lane] += more->core_seconds[lane];
        work->moving_seconds[lane] += more->moving_seconds[lane];
        work->moved_bytes[lane] += more->moved_bytes[lane];
        work->compared_bits[lane] += more->compared_bits[lane];
        work->runs[lane] += more->runs[lane];
    }
}

void health_exposure_join(struct health_exposure *exposure, const struct health_exposure *other)
{
    add_work(&exposure->work, &other->work);
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++)
        exposure->events[lane] += other->events[lane];
}

void health_exposure_add(struct health_exposure *exposure, const struct health_round *round, double seconds)
{
    exposure->rounds++;
    exposure->seconds += seconds;
    add_work(&exposure->work, &round->work);
    for (size_t i = 0; i < round->mismatch_count; i++)
        exposure->events[round->mismatches[i].operation->lane]++;
}

// The probability of at most `events` events.
static double poisson_below(uint64_t events, double mean)
{
    double term = exp(-mean), sum = term;
    for (uint64_t k = 1; k <= events; k++)
        sum += term *= mean / (double)k;
    return sum;
}

double health_poisson_upper(uint64_t events, double confidence)
{
    // Beyond this many events exp(-mean) underflows; the normal approximation is good to 1 % there.
    enum { EXACT_MAX = 400 };
    if (events > EXACT_MAX)
        return (double)events + 1.645 * sqrt((double)events) + 2;
    double low = 0, high = (double)events + 10 * sqrt((double)events + 1) + 10;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (poisson_below(events, middle) > 1 - confidence)
            low = middle;
        else
            high = middle;
    }
    return high;
}

json_t *health_exposure_json(const struct health_exposure *exposure)
{
    json_t *lanes = json_object();
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++) {
        double hours = exposure->work.core_seconds[lane] / 3600;
        json_t *most = hours > 0 ? json_real(health_poisson_upper(exposure->events[lane], 0.95) / hours) : json_null();
        json_object_set_new(lanes, health_lane_name((enum health_lane)lane),
                            json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:o}", "core_seconds",
                                      exposure->work.core_seconds[lane], "moving_seconds",
                                      exposure->work.moving_seconds[lane], "runs",
                                      (json_int_t)exposure->work.runs[lane], "moved_bytes",
                                      (json_int_t)exposure->work.moved_bytes[lane], "compared_bits",
                                      (json_int_t)exposure->work.compared_bits[lane], "wrong_results",
                                      (json_int_t)exposure->events[lane], "wrong_results_per_core_hour_at_most", most));
    }
    return json_pack("{s:I, s:f, s:o}", "rounds", (json_int_t)exposure->rounds, "seconds", exposure->seconds, "lanes",
                     lanes);
}

int health_exposure_read(const json_t *object, struct health_exposure *out)
{
    json_int_t rounds;
    json_t *root = (json_t *)(uintptr_t)object, *lanes;
    json_error_t error;
    *out = (struct health_exposure){0};
    if (json_unpack_ex(root, &error, 0, "{s:I, s:F, s:o}", "rounds", &rounds, "seconds", &out->seconds, "lanes",
                       &lanes) != 0)
        return err_set(ERR_USAGE, "%s", error.text);
    out->rounds = (uint64_t)rounds;
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++) {
        json_int_t runs, moved, compared, events;
        const char *name = health_lane_name((enum health_lane)lane);
        if (json_unpack_ex(lanes, &error, 0, "{s:{s:F, s:F, s:I, s:I, s:I, s:I}}", name, "core_seconds",
                           &out->work.core_seconds[lane], "moving_seconds", &out->work.moving_seconds[lane], "runs",
                           &runs, "moved_bytes", &moved, "compared_bits", &compared, "wrong_results", &events) != 0)
            return err_set(ERR_USAGE, "lane %s: %s", name, error.text);
        if (runs < 0 || moved < 0 || compared < 0 || events < 0 || !(out->work.core_seconds[lane] >= 0))
            return err_set(ERR_USAGE, "lane %s: a count is negative", name);
        out->work.runs[lane] = (uint64_t)runs;
        out->work.moved_bytes[lane] = (uint64_t)moved;
        out->work.compared_bits[lane] = (uint64_t)compared;
        out->events[lane] = (uint64_t)events;
    }
    return rounds < 0 || !(out->seconds >= 0) ? err_set(ERR_USAGE, "a count is negative") : ERR_NONE;
}
