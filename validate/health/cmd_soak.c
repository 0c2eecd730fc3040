// SPDX-License-Identifier: Apache-2.0
// `zerogauge soak`: rounds of the same operations on every core, hour after hour, and a report of what was wrong and
// how much was looked at. Under a launcher the ranks also vote among each other, and exchange bytes.
#include "validate/health/health.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/process/interrupt.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "base/terminal.h"
#include "bench/harness/bench_world.h"
#include "validate/health/rank_vote.h"
#include "validate/health/soak.h"
#include "ref/arithmetic/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static void add_events(struct soak *soak, const struct health_round *round)
{
    for (size_t i = 0; i < round->mismatch_count; i++) {
        char text[2 * HEALTH_TEXT_MAX], placed[3 * HEALTH_TEXT_MAX];
        health_mismatch_text(&round->mismatches[i], text, sizeof text);
        if (bench_world_comm())
            snprintf(placed, sizeof placed, "host %s, rank %d: %s", soak->host, bench_world_rank(), text);
        if (!soak_add_event(soak, &round->mismatches[i], bench_world_comm() ? placed : text))
            continue;
        terminal_progress("%s", "");
        text_say("zerogauge soak: WRONG: %s", bench_world_comm() ? placed : text);
    }
}

static int run_round(struct soak *soak)
{
    struct health_round_setting *setting = &soak->machine.setting;
    struct comm *comm = bench_world_comm();
    struct health_round round;
    double begin = clock_now_s();
    setting->round = soak->exposure.rounds + 1;
    setting->seed = setting->round == 1 ? HEALTH_KNOWN_SEED : random_key((uint64_t)soak->seed, setting->round) >> 1;
    char text[HEALTH_TEXT_MAX];
    int code = health_round(setting, &round);
    if (code == ERR_NONE && comm)
        code = health_vote_ranks(setting, comm, &round);
    if (code == ERR_NONE && comm)
        code = health_exchange_ranks(setting, comm, bench_world_host, &round);
    // The first rank of a host has its GPUs. They are not voted on.
    if (code == ERR_NONE && soak->machine.device_count > 0 && (!comm || bench_world_rank_on_host() == 0))
        code = device_check(setting->seed, &soak->machine.device_flip, setting->round, &round, text);
    if (code == ERR_NONE) {
        health_exposure_add(&soak->exposure, &round, clock_now_s() - begin);
        add_events(soak, &round);
    }
    health_round_free(&round);
    return code;
}

// After a round all ranks do the largest of these that any rank asks for. Rank 0 looks at the clock.
enum { GO_ON, SAVE, STOP };

static int agree(uint8_t *what)
{
    uint8_t own = *what;
    return bench_world_comm() ? comm_all_reduce(bench_world_comm(), &own, what, 1, DTYPE_BYTE, COMM_MAX) : ERR_NONE;
}

static int run_rounds(struct soak *soak)
{
    const double save_every_s = 30;
    double begin = clock_now_s(), saved = begin, limit = soak->hours * 3600 - soak->earlier_seconds;
    for (uint8_t what = GO_ON; what != STOP;) {
        TRY(run_round(soak));
        double now = clock_now_s();
        if (bench_world_rank() == 0)
            terminal_progress("round %" PRIu64 ", %.1f of %.1f hours", soak->exposure.rounds,
                              (soak->earlier_seconds + now - begin) / 3600, soak->hours);
        bool is_over = bench_world_rank() == 0 && now - begin >= limit;
        what = *health_interrupted() || is_over ? STOP : now - saved > save_every_s ? SAVE : GO_ON;
        TRY(agree(&what));
        if (what != GO_ON)
            soak_add_sample(soak, soak->earlier_seconds + now - begin);
        if (what == SAVE) {
            TRY(soak_save(soak));
            saved = now;
        }
    }
    terminal_progress("%s", "");
    return soak_save(soak);
}

static int run(struct soak *soak, bool *sound)
{
    TRY(bench_world_join());
    gethostname(soak->host, sizeof soak->host - 1);
    TRY(health_machine_find(&soak->common, &soak->machine));
    TRY(soak_load(soak));
    health_watch_signals();
    health_counters_read(&soak->before);
    TRY(run_rounds(soak));
    TRY(soak_report(soak, sound));
    // Every rank ends with the status of all.
    return bench_world_comm() ? comm_broadcast(bench_world_comm(), sound, sizeof *sound, 0) : ERR_NONE;
}

static int parse_and_run(int argc, const char **argv, struct soak *soak, bool *sound)
{
    static const char *const examples[] = {
        "zerogauge soak --hours 24 --nvme-path /mnt/nvme --state soak.json",
        "zerogauge soak --hours 0.01 --inject 'Adam, scalar@1@3'",
        "srun --ntasks-per-node=1 --cpu-bind=none zerogauge soak --hours 12 --state soak.json",
        NULL,
    };
    static const struct help help = {
        .usage = "[OPTION...]",
        .text = "Looks for silent data corruption. Runs the same operations of training on all cores together, over "
                "and over: the optimizer's step in each instruction set, conversions, a transformer's rows, matrix "
                "products, memory, a disk, a collective between neighbouring cores, and a training of all tiers that "
                "is compared with unsharded Adam. The cores vote on each result; one that differs is named with the "
                "operation, the element, and how often it was wrong again. Under mpirun or srun each rank does so on "
                "the cores that it may use, then the ranks vote, and exchange bytes in pairs; a wrong result is named "
                "with host and rank. What the kernel, drives and GPUs count of errors must not grow meanwhile.\n"
                "Exit status: 0 nothing was wrong, 1 a result was or a count grew, 2 usage, 130 interrupted (with a "
                "report).",
        .examples = examples,
    };
    struct health_options *common = &soak->common;
    const struct poptOption options[] = {
        {"hours", '\0', POPT_ARG_DOUBLE, &soak->hours, 0, "how long, the time before an interruption included (1)",
         "H"},
        {"nvme-path", '\0', POPT_ARG_ARGV, &common->folders, 0, "also test the disk of this folder; may be repeated",
         "DIR"},
        {"state", '\0', POPT_ARG_STRING, &soak->state, 0,
         "keep the counts in this file, and go on from it if it exists", "FILE"},
        {"seed", '\0', POPT_ARG_LONGLONG, &soak->seed, 0, "seed of all values (1)", "N"},
        {"device", '\0', POPT_ARG_STRING, &common->device, 0, "also soak this host's GPUs", "cuda"},
        {"inject", '\0', POPT_ARG_STRING, &common->flip, 0,
         "flip a bit of this operation on this core, in this round or in all; or of gpu-products on a "
         "multiprocessor, of gpu-memory or gpu-copies on a device",
         "OPERATION@CORE[@ROUND]"},
        {"json", '\0', POPT_ARG_NONE, &common->json, 0, "print the report as one line of JSON", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int code = help_no_arguments(context, argv, poptGetNextOpt(context));
    if (code == ERR_NONE && !(soak->hours > 0 && soak->hours <= 24 * 366))
        code = err_set(ERR_USAGE, "--hours %g: expected more than 0, and at most a year", soak->hours);
    if (code == ERR_NONE && soak->seed < 0)
        code = err_set(ERR_USAGE, "--seed %lld: expected 0 or more", soak->seed);
    if (code == ERR_NONE)
        code = run(soak, sound);
    help_release(options);
    poptFreeContext(context);
    return code;
}

int soak_main(int argc, const char **argv)
{
    struct soak *soak = calloc(1, sizeof *soak);
    bool sound = true;
    if (!soak)
        return 2;
    *soak = (struct soak){.hours = 1, .seed = 1, .events = json_array(), .series = json_array(), .worse = json_array()};
    int code = parse_and_run(argc, argv, soak, &sound);
    int status = code != ERR_NONE ? 2 : !sound ? 1 : *health_interrupted() ? INTERRUPTED_STATUS : 0;
    if (code != ERR_NONE && bench_world_prints_error(code))
        text_error("zerogauge soak");
    bench_world_leave(code);
    json_decref(soak->events);
    json_decref(soak->series);
    json_decref(soak->worse);
    free(soak);
    return status;
}
