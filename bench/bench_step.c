// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench step`: one training step of a small GPT at world 2, at every stage, against half the time that one
// process with one thread needs for both micro-batches: 1.0 would be communication, partitioning and sharing the
// machine for nothing. Two ranks that never speak to each other are measured beside them, for what the machine takes.
#include "bench.h"

#include "err.h"
#include "train.h"

#include <popt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 2, SKIPPED_STEPS = 2, CASE_COUNT = 6 };

// What is run in turn: the yardstick, two ranks alone, and the four stages.
struct step_case {
    const char *name;
    int stage, world, ranks_alone;
    size_t accumulation;
    struct bench_samples samples;  // one a repetition: the median step, in milliseconds
    char digest[33];
};

struct step_bench {
    const struct model *model;
    struct text *text;
    struct flow_schedule schedule;
    uint64_t steps;
    struct step_case cases[CASE_COUNT];
};

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int load(const struct step_case *c, struct config *config)
{
    char preset[16], accumulation[48];
    snprintf(preset, sizeof preset, "zero%d", c->stage);
    snprintf(accumulation, sizeof accumulation, "gradient_accumulation_steps=%zu", c->accumulation);
    const char *const set[] = {accumulation, "train_micro_batch_size_per_gpu=4"};
    const struct config_options options = {.world = c->world, .set = set, .set_count = 2};
    return config_load_preset(preset, &options, config, NULL);
}

static int train_once(const struct step_bench *bench, const struct step_case *c, bool verify, double *step_ns,
                      char digest[33])
{
    struct config config;
    TRY(load(c, &config));
    const struct train_setting setting = {
        .config = &config,
        .model = bench->model,
        .text = bench->text,
        .world = c->world,
        .steps = bench->steps,
        .seed = 1,
        .schedule = bench->schedule,
        .threads = 1,
        .verify = verify,
    };
    struct train_result result;
    int rc = train_run(&setting, &result);
    if (rc == ERR_NONE && (result.difference.found || !result.accounting_equal))
        rc = err_set(ERR_CHECK, "%s differs from unsharded Adam, or from the formulas", c->name);
    if (rc == ERR_NONE) {
        qsort(result.step_ns + SKIPPED_STEPS, bench->steps - SKIPPED_STEPS, sizeof *result.step_ns, compare_times);
        *step_ns = (double)result.step_ns[SKIPPED_STEPS + (bench->steps - SKIPPED_STEPS) / 2];
        memcpy(digest, result.digest, 33);
    }
    free(result.step_ns);
    return rc;
}

// One of several ranks that train alone at the same time.
struct alone {
    const struct step_bench *bench;
    const struct step_case *step_case;
    pthread_t thread;
    double step_ns;
    char digest[33], message[512];
    int rc;
};

static void *train_alone(void *context)
{
    struct alone *alone = context;
    alone->rc = train_once(alone->bench, alone->step_case, false, &alone->step_ns, alone->digest);
    snprintf(alone->message, sizeof alone->message, "%s", err_message());
    return NULL;
}

static int train_ranks_alone(const struct step_bench *bench, const struct step_case *c, double *step_ns,
                             char digest[33])
{
    struct alone ranks[WORLD] = {0};
    int started = 0;
    for (; started < c->ranks_alone; started++) {
        ranks[started].bench = bench;
        ranks[started].step_case = c;
        if (pthread_create(&ranks[started].thread, NULL, train_alone, &ranks[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(ranks[i].thread, NULL);
    if (started < c->ranks_alone)
        return err_set(ERR_MEMORY, "a thread could not be started");
    *step_ns = 0;
    for (int i = 0; i < started; i++) {
        if (ranks[i].rc != ERR_NONE)
            return err_set(ranks[i].rc, "%s", ranks[i].message);
        if (ranks[i].step_ns > *step_ns)
            *step_ns = ranks[i].step_ns;
    }
    memcpy(digest, ranks[0].digest, 33);
    return ERR_NONE;
}

static int measure(struct step_bench *bench, struct step_case *c, bool counted)
{
    double step_ns;
    char digest[33];
    TRY(c->ranks_alone ? train_ranks_alone(bench, c, &step_ns, digest) : train_once(bench, c, false, &step_ns, digest));
    if (strcmp(digest, c->digest) != 0)
        return err_set(ERR_CHECK, "%s: the timed run ended with digest %s, the verified one with %s", c->name, digest,
                       c->digest);
    if (counted)
        c->samples.values[c->samples.count++] = step_ns / (double)c->accumulation * 1e-6;
    return ERR_NONE;
}

// All cases take turns, so each of them lasts as long as all.
static int run(struct step_bench *bench, struct bench_options *options)
{
    bench_default_repeat(options, 7, 3, options->quick ? 0 : 1);
    size_t repeat = options->repeat, warmup = options->warmup;
    uint64_t begin_ns = bench_now_ns();
    for (int i = 0; i < CASE_COUNT; i++) {
        double ignored;
        bench_progress("verifying %s", bench->cases[i].name);
        TRY(train_once(bench, &bench->cases[i], true, &ignored, bench->cases[i].digest));
    }
    for (size_t round = 0; round < warmup + repeat; round++)
        for (int i = 0; i < CASE_COUNT; i++) {
            bench_progress("round %zu of %zu: %s", round + 1, warmup + repeat, bench->cases[i].name);
            TRY(measure(bench, &bench->cases[i], round >= warmup));
        }
    for (int i = 1; i < CASE_COUNT; i++) {
        struct step_case *c = &bench->cases[i];
        struct bench_record record = {
            .name = "step",
            .description = json_pack("{s:s,s:s,s:i,s:i,s:i}", "what", c->name, "model", bench->model->name, "world",
                                     WORLD, "sequences_a_rank", 4, "sequence_tokens",
                                     (int)bench->model->sequence_length),
            .unit = "ms_per_step",
            .lower_is_better = true,
            .verified = true,
            .items = 1,
            .begin_ns = begin_ns,
            .samples = &c->samples,
            .yardstick_name = "half of one process doing both micro-batches",
            .yardstick = &bench->cases[0].samples,
        };
        TRY(bench_print(options, &record));
    }
    return ERR_NONE;
}

static int step_main(int argc, const char **argv)
{
    static struct step_bench bench;
    bench = (struct step_bench){
        .cases = {{.name = "one process, both micro-batches", .stage = 0, .world = 1, .accumulation = WORLD},
                  {.name = "two ranks, no communication", .world = 1, .ranks_alone = WORLD, .accumulation = 1},
                  {.name = "DDP", .stage = 0, .world = WORLD, .accumulation = 1},
                  {.name = "ZeRO-1", .stage = 1, .world = WORLD, .accumulation = 1},
                  {.name = "ZeRO-2", .stage = 2, .world = WORLD, .accumulation = 1},
                  {.name = "ZeRO-3", .stage = 3, .world = WORLD, .accumulation = 1}},
    };
    char *model = NULL, *schedule = NULL, *text_path = NULL;
    const struct poptOption own[] = {
        {"model", '\0', POPT_ARG_STRING, &model, 0, "a model that trains on text (gpt-3m)", "NAME"},
        {"schedule", '\0', POPT_ARG_STRING, &schedule, 0, "serial or overlap (serial)", "HOW"},
        {"text", '\0', POPT_ARG_STRING, &text_path, 0, "train on this file instead of the King James Bible", "FILE"},
        POPT_TABLEEND,
    };
    struct bench_options options;
    int rc = bench_parse(argc, argv, BENCH_USES_NOTHING, own, &options);
    bench.steps = options.quick ? 4 : 13;
    if (rc == ERR_NONE && !options.help) {
        rc = model_find(model ? model : "gpt-3m", &bench.model);
        if (rc == ERR_NONE)
            rc = flow_schedule_parse(schedule ? schedule : "serial", &bench.schedule);
        if (rc == ERR_NONE && bench.model->wants_text)
            rc = text_open(text_path, &bench.text);
        if (rc == ERR_NONE)
            rc = run(&bench, &options);
    }
    text_close(bench.text);
    bench_release(&options);
    free(model);
    free(schedule);
    free(text_path);
    return rc;
}

int bench_step_main(int argc, const char **argv)
{
    return bench_exit("step", step_main(argc, argv));
}
