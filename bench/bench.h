// SPDX-License-Identifier: Apache-2.0
// What every benchmark shares: alternating repetitions of the thing measured and its yardstick in one process, medians
// with spread, raw samples kept, and one JSON line a case:
//   {"record":"bench","name":..,"case":{..},"samples":[..],"median":..,"unit":..,"verified":true,
//    "yardstick":{"name":..,"samples":[..],"median":..,"unit":..},"ratio":..}
// ratio is achieved over limit: 1.0 at the limit, higher is better. A number is printed only if its data was verified.
#ifndef ZG_BENCH_H
#define ZG_BENCH_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t bench_now_ns(void);

struct bench_work {
    const char *name;
    int (*run)(void *context);  // one repetition; the time it takes is the sample
    int (*prepare)(void *context);  // before each repetition, not timed; may be null
    void *context;
};

enum { BENCH_REPEAT_MAX = 1000 };

struct bench_samples {
    size_t count;
    double values[BENCH_REPEAT_MAX];  // in the case's unit
};

double bench_median(const struct bench_samples *samples);
double bench_quantile(const struct bench_samples *samples, double q);

// Runs work and yardstick in turn, `warmup` pairs uncounted and `repeat` counted; samples are nanoseconds divided by
// `per` (parameters, bytes, 1).
int bench_alternate(const struct bench_work *work, const struct bench_work *yardstick, size_t warmup, size_t repeat,
                    double per, struct bench_samples *work_samples, struct bench_samples *yardstick_samples);

// One case's result. lower_is_better: units of time; then ratio = yardstick / work, else work / yardstick.
struct bench_record {
    const char *name;
    json_t *description;  // the "case" object; taken over
    const char *unit;
    bool lower_is_better;
    bool verified;
    const struct bench_samples *samples;
    const char *yardstick_name;
    const struct bench_samples *yardstick;
};
double bench_ratio(const struct bench_record *record);

// Prints the JSON line. An unverified record is refused with ERR_CHECK.
int bench_print_json(struct bench_record *record);

// The subcommands: `zerogauge bench NAME ...`; each returns an exit status.
int bench_main(int argc, const char **argv);
int bench_adam_main(int argc, const char **argv);
int bench_comm_main(int argc, const char **argv);
int bench_step_main(int argc, const char **argv);

#endif
