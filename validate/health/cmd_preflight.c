// SPDX-License-Identifier: Apache-2.0
// `zerogauge preflight`: half a minute before a job, on each of its nodes: is this machine's arithmetic right on every
// core, and do memory, disk and links carry bytes unchanged, at the rate that the operator asks for? One line a check.
#include "validate/health/health.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/process/interrupt.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "bench/harness/bench_world.h"
#include "validate/health/preflight.h"
#include "ref/arithmetic/random.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEED = 20260101 };
static const double NOT_GIVEN = -DBL_MAX;

static bool lane_failed(const struct preflight *p, enum health_lane lane)
{
    return p->exposure.events[lane] > 0;
}

// Rounds until the time is over, at least one; ends at the first that finds something.
static int run_rounds(struct preflight *p)
{
    struct health_round_setting *setting = &p->machine.setting;
    double begin = clock_now_s();
    bool wrong = false;
    do {
        struct health_round round;
        double round_begin = clock_now_s();
        setting->round = p->exposure.rounds + 1;
        // The same on every node: their digests are compared.
        setting->seed = setting->round == 1 ? HEALTH_KNOWN_SEED : random_key(SEED, setting->round) >> 1;
        int code = health_round(setting, &round);
        if (code == ERR_NONE && p->machine.device_count > 0)
            code = device_check(setting->seed, &p->machine.device_flip, setting->round, &round, p->device_text);
        if (code == ERR_NONE)
            health_exposure_add(&p->exposure, &round, clock_now_s() - round_begin);
        if (code == ERR_NONE && setting->round == 1)
            memcpy(p->digests, round.digests, sizeof p->digests);
        for (size_t i = 0; i < round.mismatch_count && code == ERR_NONE; i++) {
            char text[2 * HEALTH_TEXT_MAX];
            health_mismatch_text(&round.mismatches[i], text, sizeof text);
            preflight_add(p, health_lane_name(round.mismatches[i].operation->lane), "FAIL", text);
            wrong = true;
        }
        health_round_free(&round);
        TRY(code);
    } while (!wrong && !*health_interrupted() && clock_now_s() - begin < p->seconds);
    return *health_interrupted() ? err_set(ERR_USAGE, "interrupted") : ERR_NONE;
}

static double rate_of(const struct preflight *p, enum health_lane lane)
{
    const struct health_work *work = &p->exposure.work;
    double seconds = work->moving_seconds[lane] / (double)p->machine.setting.core_count;
    return seconds > 0 ? (double)work->moved_bytes[lane] * 1e-9 / seconds : 0;
}

// Measures lanes that are slower than asked for again, in place of what they were. After wrong bits nothing is.
static int run_again(struct preflight *p)
{
    const enum health_lane lanes[] = {HEALTH_MEMORY, HEALTH_DISK};
    const double least_gbs[] = {p->memory_gbs, p->machine.setting.folders ? p->disk_gbs : 0};
    for (int i = 0; i < p->repeat_failed && !p->failed; i++) {
        bool slow = false;
        for (size_t k = 0; k < 2; k++)
            if (!lane_failed(p, lanes[k]) && rate_of(p, lanes[k]) < least_gbs[k]) {
                p->exposure.work.moved_bytes[lanes[k]] = 0;
                p->exposure.work.moving_seconds[lanes[k]] = 0;
                slow = true;
            }
        if (!slow)
            return ERR_NONE;
        TRY(run_rounds(p));
    }
    return ERR_NONE;
}

static void judge_rate(struct preflight *p, enum health_lane lane, double least_gbs)
{
    char text[160];
    const char *name = health_lane_name(lane);
    const struct health_work *work = &p->exposure.work;
    if (lane_failed(p, lane))
        return;
    double gbs = rate_of(p, lane);
    if (gbs < least_gbs) {
        snprintf(text, sizeof text, "%.2f GB/s, less than the %.2f asked for by --at-least", gbs, least_gbs);
        preflight_add(p, name, "FAIL", text);
        return;
    }
    snprintf(text, sizeof text, "%.2f GB came back unchanged, %.2f GB/s with all cores together",
             (double)work->moved_bytes[lane] * 1e-9, gbs);
    preflight_add(p, name, "ok", text);
}

static void judge_counters(struct preflight *p)
{
    char text[160];
    bool worse = false;
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (health_counter_worse((enum health_counter)i, &p->before, &p->after, text, sizeof text)) {
            preflight_add(p, "counters", "FAIL", text);
            worse = true;
        }
    if (!worse)
        preflight_add(p, "counters", "ok", "no error was counted by the kernel meanwhile");
}

static void judge(struct preflight *p)
{
    char text[320];
    const struct health_round_setting *setting = &p->machine.setting;
    if (!lane_failed(p, HEALTH_COMPUTE)) {
        snprintf(text, sizeof text, "%zu cores have the same bits in %zu operations, %llu rounds", setting->core_count,
                 setting->operation_count, (unsigned long long)p->exposure.rounds);
        preflight_add(p, "compute", "ok", text);
    }
    if (*p->device_text)
        preflight_add(p, "gpu", "ok", p->device_text);
    judge_rate(p, HEALTH_MEMORY, p->memory_gbs);
    if (setting->folders)
        judge_rate(p, HEALTH_DISK, p->disk_gbs);
    else
        preflight_add(p, "disk", "skip", "no --nvme-path");
    judge_rate(p, HEALTH_COLLECTIVE, 0);
    judge_counters(p);
}

// "memory=20,disk=0.5,link=1"
static int read_at_least(struct preflight *p)
{
    const struct {
        const char *name;
        double *value;
    } names[] = {{"memory", &p->memory_gbs}, {"disk", &p->disk_gbs}, {"link", &p->link_gbs}};
    for (const char *at = p->at_least; at && *at;) {
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof names[0] && !known; i++) {
            size_t length = strlen(names[i].name);
            char *end;
            if (strncmp(at, names[i].name, length) != 0 || at[length] != '=')
                continue;
            *names[i].value = strtod(at + length + 1, &end);
            known =
                end > at + length + 1 && (*end == ',' || *end == '\0') && *names[i].value > 0 && *names[i].value < 1e9;
            at = *end == ',' ? end + 1 : end;
        }
        if (!known)
            return err_set(ERR_USAGE, "--at-least %s: expected memory=GB/s, disk=GB/s, link=GB/s, separated by commas",
                           p->at_least);
    }
    return ERR_NONE;
}

// Checks this host; of its ranks the first does, on all cores: a launcher binds each rank to a few.
static int check_host(struct preflight *p)
{
    bool first = !bench_world_comm() || bench_world_rank_on_host() == 0;
    TRY(health_machine_find(&p->common, &p->machine));
    health_watch_signals();
    health_counters_read(&p->before);
    if (p->since)
        TRY(preflight_since(p));
    if (p->after_repair)
        TRY(preflight_before_repair(p));
    if (first)
        TRY(run_rounds(p));
    if (first)
        TRY(run_again(p));
    health_counters_read(&p->after);
    if (first)
        judge(p);
    return ERR_NONE;
}

static int run(struct preflight *p, bool *healthy)
{
    TRY(bench_world_join());
    if (p->save)
        TRY(file_check_output(p->save, FILE_REPLACED));
    if (p->history)
        TRY(file_check_output(p->history, FILE_REPLACED));
    // Before the run, so that a wrong file costs no minutes.
    if (p->history && (!bench_world_comm() || comm_rank(bench_world_comm()) == 0))
        TRY(preflight_history(p, NULL, 0));
    if (bench_world_comm())
        bench_world_take_host(bench_world_rank_on_host() == 0);
    int code = check_host(p);
    if (*health_interrupted())
        return code;
    if (!bench_world_comm()) {
        TRY(code);
        return preflight_gather(p, healthy);
    }
    code = preflight_without_some(p, bench_world_comm(), code);
    if (code == ERR_NONE)
        code = preflight_place(p, bench_world_comm());
    if (code == ERR_NONE)
        code = preflight_link(p, bench_world_comm());
    if (code == ERR_NONE)
        code = preflight_gather(p, healthy);
    if (code == ERR_PEER)
        preflight_report_alone(p);
    return code;
}

static int parse_and_run(int argc, const char **argv, struct preflight *p, bool *healthy)
{
    static const char *const examples[] = {
        "zerogauge preflight --nvme-path /mnt/nvme",
        "zerogauge preflight --at-least memory=100,disk=2 --json",
        "srun --ntasks-per-node=1 zerogauge preflight --seconds 10",
        NULL,
    };
    static const struct help help = {
        .usage = "[OPTION...]",
        .text = "Checks a node before a job: every core computes the same bits; memory, a disk and a collective carry "
                "bytes unchanged; the kernel counts no hardware error meanwhile. Under mpirun or srun each node checks "
                "itself, then the links between them are used and their bits compared; give one rank a node. One line "
                "for each check, of several nodes for each that failed, and a line of counts.\n"
                "Exit status: 0 healthy, 1 not, 2 usage or it could not be found out, 130 interrupted.",
        .examples = examples,
    };
    struct health_options *common = &p->common;
    const struct poptOption options[] = {
        {"seconds", '\0', POPT_ARG_DOUBLE, &p->seconds, 0,
         "time for rounds of operations (20; 300 after a repair); one round at least", "S"},
        {"nvme-path", '\0', POPT_ARG_ARGV, &common->folders, 0, "also check the disk of this folder; may be repeated",
         "DIR"},
        {"at-least", '\0', POPT_ARG_STRING, &p->at_least, 0,
         "fail below these rates, in GB/s: memory=100,disk=2,link=10", "LIST"},
        {"device", '\0', POPT_ARG_STRING, &common->device, 0, "also check this host's GPUs", "cuda"},
        {"inject", '\0', POPT_ARG_STRING, &common->flip, 0,
         "flip a bit of this operation on this core, in this round or in all; or of gpu-products on a "
         "multiprocessor, of gpu-memory or gpu-copies on a device",
         "OPERATION@CORE[@ROUND]"},
        {"save", '\0', POPT_ARG_STRING, &p->save, 0, "also write the line of JSON for each node to this file", "FILE"},
        {"since", '\0', POPT_ARG_STRING, &p->since, 0,
         "judge the kernel's counters since the preflight that wrote this file with --save", "FILE"},
        {"repeat-failed", '\0', POPT_ARG_INT, &p->repeat_failed, 0,
         "measure what is below --at-least up to N times more before it fails; wrong bits fail immediately", "N"},
        {"history", '\0', POPT_ARG_STRING, &p->history, 0,
         "add this run to the history of nodes in this file, and fail nodes that failed three times in 30 days",
         "FILE"},
        {"after-repair", '\0', POPT_ARG_STRING, &p->after_repair, 0,
         "a longer run, with what the preflight that wrote this file with --save said; the history begins anew",
         "FILE"},
        {"json", '\0', POPT_ARG_NONE, &common->json, 0, "print one line of JSON for each node", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int code = help_no_arguments(context, argv, poptGetNextOpt(context));
    if (p->seconds == NOT_GIVEN)
        p->seconds = p->after_repair ? 300 : 20;
    if (code == ERR_NONE && !(p->seconds >= 0 && p->seconds <= 3600))
        code = err_set(ERR_USAGE, "--seconds %g: expected 0 to 3600", p->seconds);
    if (code == ERR_NONE && !(p->repeat_failed >= 0 && p->repeat_failed <= 100))
        code = err_set(ERR_USAGE, "--repeat-failed %d: expected 0 to 100", p->repeat_failed);
    if (code == ERR_NONE)
        code = read_at_least(p);
    if (code == ERR_NONE)
        code = run(p, healthy);
    help_release(options);
    poptFreeContext(context);
    return code;
}

int preflight_main(int argc, const char **argv)
{
    struct preflight *p = calloc(1, sizeof *p);
    if (!p)
        return 2;
    *p = (struct preflight){.seconds = NOT_GIVEN, .started_s = time(NULL), .checks = json_array()};
    bool healthy = true;
    int code = parse_and_run(argc, argv, p, &healthy);
    if (code != ERR_NONE)
        text_error("zerogauge preflight");
    bench_world_leave(code);
    json_decref(p->checks);
    free(p);
    return *health_interrupted() ? INTERRUPTED_STATUS : code != ERR_NONE ? 2 : healthy ? 0 : 1;
}
