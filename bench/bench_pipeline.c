// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench pipeline`: which lanes of training disturb each other. Every lane works alone, then beside every
// other one, then beside all of them, each time for a while; the yardstick is its rate alone, in turn. The timeline of
// a whole step is in the record of `bench overlap`.
#include "bench.h"

#include "err.h"
#include "lane_load.h"

#include <popt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ALL = LANE_COUNT, BESIDE_COUNT = LANE_COUNT + 1 };  // beside one lane, or beside all

// What one lane did in a run of some of them.
struct part {
    struct lane_load *load;
    double seconds;
    uint64_t begin_ns;  // when all of them begin
    pthread_t thread;
    bool started;
    struct lane_done done;
    int code;
    char message[512];
};

struct pipeline {
    struct bench_options options;
    double seconds;  // of each run
    struct lane_load *loads[LANE_COUNT];
    uint64_t begin_ns;
    // By what a lane works beside; [lane][lane]: alone.
    struct bench_samples samples[LANE_COUNT][BESIDE_COUNT];  // rates
    double least_items[LANE_COUNT][BESIDE_COUNT];            // of a run
};

static void *part_run(void *context)
{
    struct part *part = context;
    const struct timespec begin = {(time_t)(part->begin_ns / 1000000000), (long)(part->begin_ns % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL);
    part->code = lane_load_run(part->load, part->seconds, &part->done);
    snprintf(part->message, sizeof part->message, "%s", err_message());
    return NULL;
}

// Runs the lanes of `wanted` at once, each by a thread, and verifies what they did.
static int run_together(struct pipeline *pipeline, const bool wanted[LANE_COUNT], struct lane_done done[LANE_COUNT])
{
    enum { START_NS = 3000000 };  // in which the threads start
    struct part parts[LANE_COUNT] = {0};
    int code = ERR_NONE;
    uint64_t begin_ns = bench_now_ns() + START_NS;
    for (int lane = 0; lane < LANE_COUNT && code == ERR_NONE; lane++) {
        if (!wanted[lane])
            continue;
        parts[lane] = (struct part){.load = pipeline->loads[lane], .seconds = pipeline->seconds, .begin_ns = begin_ns};
        parts[lane].started = pthread_create(&parts[lane].thread, NULL, part_run, &parts[lane]) == 0;
        if (!parts[lane].started)
            code = err_set(ERR_MEMORY, "a thread could not be started");
    }
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (!parts[lane].started)
            continue;
        pthread_join(parts[lane].thread, NULL);
        if (code == ERR_NONE && parts[lane].code != ERR_NONE)
            code = err_set(parts[lane].code, "%s: %s", ledger_lane_name((enum lane)lane), parts[lane].message);
        done[lane] = parts[lane].done;
    }
    for (int lane = 0; lane < LANE_COUNT && code == ERR_NONE; lane++)
        if (wanted[lane])
            code = lane_load_check(pipeline->loads[lane]);
    return code;
}

static void note(struct pipeline *pipeline, int lane, int beside, const struct lane_done *done)
{
    struct bench_samples *samples = &pipeline->samples[lane][beside];
    double *least = &pipeline->least_items[lane][beside];
    samples->values[samples->count++] = done->items / (double)done->ns;
    *least = samples->count == 1 || done->items < *least ? done->items : *least;
}

// Each lane alone, each pair, and all together.
static int run_round(struct pipeline *pipeline, size_t round, bool counted)
{
    size_t rounds = pipeline->options.warmup + pipeline->options.repeat;
    for (int a = 0; a < LANE_COUNT; a++)
        for (int b = a; b < LANE_COUNT; b++) {
            bool wanted[LANE_COUNT] = {false};
            struct lane_done done[LANE_COUNT];
            wanted[a] = wanted[b] = true;
            bench_progress("pipeline: %s and %s, round %zu of %zu", ledger_lane_name((enum lane)a),
                           a == b ? "nothing else" : ledger_lane_name((enum lane)b), round + 1, rounds);
            TRY(run_together(pipeline, wanted, done));
            if (counted)
                note(pipeline, a, b, &done[a]);
            if (counted && a != b)
                note(pipeline, b, a, &done[b]);
        }
    bool all[LANE_COUNT];
    struct lane_done done[LANE_COUNT];
    for (int lane = 0; lane < LANE_COUNT; lane++)
        all[lane] = true;
    TRY(run_together(pipeline, all, done));
    for (int lane = 0; lane < LANE_COUNT && counted; lane++)
        note(pipeline, lane, ALL, &done[lane]);
    return ERR_NONE;
}

// A lane beside another, beside all (ALL), or alone (itself).
static int print_case(const struct pipeline *pipeline, int lane, int beside)
{
    bool alone = beside == lane;
    struct bench_record record = {
        .name = "pipeline",
        .description = json_pack("{s:s, s:s, s:f, s:b}", "lane", ledger_lane_name((enum lane)lane), "beside",
                                 alone            ? "nothing"
                                 : beside == ALL ? "all"
                                                 : ledger_lane_name((enum lane)beside),
                                 "seconds", pipeline->seconds, "buffered", pipeline->options.storage.buffered),
        .unit = lane_load_unit((enum lane)lane),
        .verified = true,
        .items = pipeline->least_items[lane][beside],
        .yardstick_items = pipeline->least_items[lane][lane],
        .begin_ns = pipeline->begin_ns,
        .samples = &pipeline->samples[lane][beside],
        .yardstick_name = "the lane alone",
        .yardstick = alone ? NULL : &pipeline->samples[lane][lane],
        .tabled = true};
    return bench_print(&pipeline->options, &record);
}

// A row a lane: its rate alone, and what is left of it beside each other lane and beside all.
static void print_matrix(const struct pipeline *pipeline)
{
    printf("%-11s %17s  what is left of it, in %%, beside\n%-11s %17s", "lane", "alone", "", "");
    for (int beside = 0; beside < LANE_COUNT; beside++)
        printf(" %10s", ledger_lane_name((enum lane)beside));
    printf(" %10s\n", "all");
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        const struct bench_samples *alone = &pipeline->samples[lane][lane];
        printf("%-11s %9.2f %-7s", ledger_lane_name((enum lane)lane), bench_median(alone),
               lane_load_unit((enum lane)lane));
        for (int beside = 0; beside < BESIDE_COUNT; beside++) {
            double left = 100 * bench_median(&pipeline->samples[lane][beside]) / bench_median(alone);
            if (beside == lane)
                printf(" %10s", "-");
            else
                printf(" %10.1f", left);
        }
        printf("\n");
    }
}

static int measure(struct pipeline *pipeline)
{
    const struct bench_options *options = &pipeline->options;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        bench_progress("pipeline: preparing %s", ledger_lane_name((enum lane)lane));
        TRY(lane_load_open((enum lane)lane, &options->storage, &pipeline->loads[lane]));
    }
    pipeline->begin_ns = bench_now_ns();
    for (size_t round = 0; round < options->warmup + options->repeat; round++)
        TRY(run_round(pipeline, round, round >= options->warmup));
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int beside = 0; beside < BESIDE_COUNT; beside++)
            TRY(print_case(pipeline, lane, beside));
    bench_progress("%s", "");
    if (!options->json)
        print_matrix(pipeline);
    return ERR_NONE;
}

static int pipeline_run(struct pipeline *pipeline)
{
    struct bench_options *options = &pipeline->options;
    if (options->size_count > 0 || options->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no meaning here: each lane works as one of training");
    if (pipeline->seconds < 0 || pipeline->seconds > 60)
        return err_set(ERR_USAGE, "--seconds %g: up to 60", pipeline->seconds);
    if (options->storage.engine)
        return err_set(ERR_USAGE, "--engine: storage is read and written by libaio here");
    if (pipeline->seconds == 0)
        pipeline->seconds = options->quick ? 0.05 : 0.3;
    bench_default_repeat(options, 7, 3, options->quick ? 0 : 1);
    int code = measure(pipeline);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        lane_load_close(pipeline->loads[lane]);
    return code;
}

int bench_pipeline_main(int argc, const char **argv)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return bench_exit("pipeline", err_set(ERR_MEMORY, "no memory for samples"));
    const struct poptOption own[] = {
        {"seconds", '\0', POPT_ARG_DOUBLE, &pipeline->seconds, 0, "of each run (0.3; quickly 0.05)", "S"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, BENCH_USES_STORAGE, own, &pipeline->options);
    if (code == ERR_NONE && !pipeline->options.help)
        code = pipeline_run(pipeline);
    bench_release(&pipeline->options);
    free(pipeline);
    return bench_exit("pipeline", code);
}
