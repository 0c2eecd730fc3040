// SPDX-License-Identifier: Apache-2.0
// `zerogauge soak`: rounds of the same operations on every core, hour after hour, and a report of what was wrong and
// how much was looked at.
#include "health/health.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/help.h"
#include "base/terminal.h"
#include "health/exposure.h"
#include "health/health_options.h"
#include "info/health_counters.h"
#include "ref/arithmetic/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INTERRUPTED_STATUS = 130, STATE_LIMIT_BYTES = 16 << 20, SHOWN_MAX = 100 };

struct soak {
    struct health_options common;
    double hours;
    long long seed;
    char *state;
    struct health_machine machine;
    struct health_exposure exposure;
    json_t *events;  // array of objects
    struct health_counters before;
    double earlier_seconds;  // of the runs before this one
};

static json_t *event_json(const struct health_mismatch *m)
{
    char text[2 * HEALTH_TEXT_MAX];
    health_mismatch_text(m, text, sizeof text);
    return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:s}", "core", m->core, "operation",
                     m->operation->name, "lane", health_lane_name(m->operation->lane), "round", (json_int_t)m->round,
                     "seed", (json_int_t)m->seed, "element", (json_int_t)m->element, "wrong_bytes",
                     (json_int_t)m->wrong_bytes, "wrong_again", m->again_wrong, "again", m->again, "text", text);
}

static json_t *state_json(const struct soak *soak)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    return json_pack("{s:s, s:i, s:s, s:I, s:I, s:o, s:O}", "record", "soak", "schema", 1, "host", host, "seed",
                     (json_int_t)soak->seed, "cores", (json_int_t)soak->machine.setting.core_count, "exposure",
                     health_exposure_json(&soak->exposure), "events", soak->events);
}

// The state replaces the earlier one only when it is complete.
static int save_state(const struct soak *soak)
{
    struct file_output file;
    if (!soak->state)
        return ERR_NONE;
    json_t *state = state_json(soak);
    if (!state)
        return err_set(ERR_MEMORY, "no memory for %s", soak->state);
    int code = file_output_open(soak->state, &file);
    if (code == ERR_NONE) {
        code = json_dumpf(state, file.out, JSON_INDENT(1)) == 0 && fputc('\n', file.out) != EOF
                   ? ERR_NONE
                   : err_set(ERR_IO, "%s: cannot be written", soak->state);
        code = file_output_close(&file, code);
    }
    json_decref(state);
    return code;
}

// A soak that was interrupted goes on where its state ends.
static int load_state(struct soak *soak)
{
    struct stat found;
    char *text;
    size_t bytes;
    json_error_t error;
    if (!soak->state || (stat(soak->state, &found) != 0))
        return ERR_NONE;
    TRY(file_read_text(soak->state, STATE_LIMIT_BYTES, &text, &bytes));
    json_t *state = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error), *exposure = NULL, *events = NULL;
    free(text);
    const char *record = "";
    json_int_t seed = 0;
    int code = ERR_NONE;
    if (!state)
        code = err_set(ERR_USAGE, "%s:%d: %s", soak->state, error.line, error.text);
    else if (json_unpack_ex(state, &error, 0, "{s:s, s:I, s:o, s:o}", "record", &record, "seed", &seed, "exposure",
                            &exposure, "events", &events) != 0 ||
             strcmp(record, "soak") != 0 || !json_is_array(events))
        code = err_set(ERR_USAGE, "%s: not the state of a soak: move it away, or give another --state", soak->state);
    else if (health_exposure_read(exposure, &soak->exposure) != ERR_NONE)
        code = err_prefix(ERR_USAGE, "%s", soak->state);
    if (code == ERR_NONE) {
        soak->seed = seed;
        soak->earlier_seconds = soak->exposure.seconds;
        json_array_extend(soak->events, events);
    }
    json_decref(state);
    return code;
}

static int run_round(struct soak *soak)
{
    struct health_round_setting *setting = &soak->machine.setting;
    struct health_round round;
    double begin = clock_now_s();
    setting->round = soak->exposure.rounds + 1;
    setting->seed = random_key((uint64_t)soak->seed, setting->round) >> 1;
    int code = health_round(setting, &round);
    if (code == ERR_NONE)
        health_exposure_add(&soak->exposure, &round, clock_now_s() - begin);
    for (size_t i = 0; i < round.mismatch_count && code == ERR_NONE; i++) {
        char text[2 * HEALTH_TEXT_MAX];
        health_mismatch_text(&round.mismatches[i], text, sizeof text);
        terminal_progress("%s", "");
        fprintf(stderr, "zerogauge soak: WRONG: %s\n", text);
        if (json_array_size(soak->events) < SHOWN_MAX)
            json_array_append_new(soak->events, event_json(&round.mismatches[i]));
    }
    health_round_free(&round);
    return code;
}

static uint64_t wrong_results(const struct health_exposure *exposure)
{
    uint64_t count = 0;
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++)
        count += exposure->events[lane];
    return count;
}

static int run_rounds(struct soak *soak)
{
    const double save_every_s = 30;
    double begin = clock_now_s(), saved = begin, limit = soak->hours * 3600 - soak->earlier_seconds;
    do {
        TRY(run_round(soak));
        double now = clock_now_s();
        terminal_progress("round %" PRIu64 ", %.1f of %.1f hours, %" PRIu64 " wrong results", soak->exposure.rounds,
                          soak->exposure.seconds / 3600, soak->hours, wrong_results(&soak->exposure));
        if (now - saved > save_every_s) {
            TRY(save_state(soak));
            saved = now;
        }
    } while (!*health_interrupted() && clock_now_s() - begin < limit);
    terminal_progress("%s", "");
    return save_state(soak);
}

static void print_text(const struct soak *soak)
{
    const struct health_exposure *e = &soak->exposure;
    struct health_counters after;
    printf("%zu cores, %zu operations, %" PRIu64 " rounds in %.2f hours, seed %lld\n", soak->machine.setting.core_count,
           soak->machine.setting.operation_count, e->rounds, e->seconds / 3600, soak->seed);
    printf("%-12s %12s %12s %14s %16s %6s  %s\n", "lane", "core hours", "runs", "GB moved", "Gbit compared", "wrong",
           "95 % sure: at most, per 1000 core hours");
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++) {
        double hours = e->work.core_seconds[lane] / 3600;
        printf("%-12s %12.3f %12" PRIu64 " %14.3f %16.3f %6" PRIu64, health_lane_name((enum health_lane)lane), hours,
               e->work.runs[lane], (double)e->work.moved_bytes[lane] * 1e-9, (double)e->work.compared_bits[lane] * 1e-9,
               e->events[lane]);
        if (hours > 0)
            printf("  %.3g", 1000 * health_poisson_upper(e->events[lane], 0.95) / hours);
        putchar('\n');
    }
    health_counters_read("", &after);
    health_counters_print(&soak->before, &after, stdout);
    size_t index;
    json_t *event;
    json_array_foreach (soak->events, index, event)
        printf("WRONG  %s\n", json_string_value(json_object_get(event, "text")));
    uint64_t wrong = wrong_results(e);
    if (wrong == 0)
        printf("every result was the same on every core\n");
    else
        printf("%" PRIu64 " wrong results\n", wrong);
}

static int report(const struct soak *soak)
{
    if (!soak->common.json) {
        print_text(soak);
        return file_flush(stdout, "the report");
    }
    json_t *state = state_json(soak);
    struct health_counters after;
    health_counters_read("", &after);
    json_object_set_new(state, "counters", health_counters_json(&soak->before, &after));
    json_dumpf(state, stdout, 0);
    putchar('\n');
    json_decref(state);
    return file_flush(stdout, "the report");
}

static int parse(int argc, const char **argv, struct soak *soak)
{
    static const char *const examples[] = {
        "zerogauge soak --hours 24 --nvme-path /mnt/nvme --state soak.json",
        "zerogauge soak --hours 0.01 --inject 'Adam, scalar@1@3'",
        NULL,
    };
    static const struct help help = {
        .usage = "[OPTION...]",
        .text = "Looks for silent data corruption. Runs the same operations of training on every core at once, over "
                "and over: the optimizer's step in each instruction set, conversions, a transformer's rows, matrix "
                "products, memory, a disk, a collective between neighbouring cores, and a training of all tiers that "
                "is compared with unsharded Adam. The cores vote on each result; one that differs is named with the "
                "operation, the element, and how often it was wrong again.\n"
                "Exit status: 0 nothing was wrong, 1 something was, 2 usage, 130 interrupted (with a report).",
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
        {"inject", '\0', POPT_ARG_STRING, &common->flip, 0,
         "flip a bit of this operation on this core, in this round or in all", "OPERATION@CORE[@ROUND]"},
        {"json", '\0', POPT_ARG_NONE, &common->json, 0, "print the report as one line of JSON", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int code = ERR_NONE, option = poptGetNextOpt(context);
    const char *extra = poptPeekArg(context);
    if (option < -1)
        code = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(option));
    else if (extra)
        code = err_set(ERR_USAGE, "\"%s\" is not an option; `zerogauge soak --help` lists them", extra);
    else if (!(soak->hours > 0 && soak->hours <= 24 * 366))
        code = err_set(ERR_USAGE, "--hours %g: expected more than 0, and at most a year", soak->hours);
    else if (soak->seed < 0)
        code = err_set(ERR_USAGE, "--seed %lld: expected 0 or more", soak->seed);
    poptFreeContext(context);
    return code;
}

int soak_main(int argc, const char **argv)
{
    struct soak *soak = calloc(1, sizeof *soak);
    if (!soak)
        return 2;
    *soak = (struct soak){.hours = 1, .seed = 1, .events = json_array()};
    int code = parse(argc, argv, soak);
    if (code == ERR_NONE)
        code = health_machine_find(&soak->common, &soak->machine);
    if (code == ERR_NONE)
        code = load_state(soak);
    if (code == ERR_NONE) {
        health_watch_signals();
        health_counters_read("", &soak->before);
        code = run_rounds(soak);
    }
    if (code == ERR_NONE)
        code = report(soak);
    int status = code != ERR_NONE                     ? 2
                 : wrong_results(&soak->exposure) > 0 ? 1
                 : *health_interrupted()              ? INTERRUPTED_STATUS
                                                      : 0;
    if (code != ERR_NONE)
        fprintf(stderr, "zerogauge soak: %s\n", err_message());
    json_decref(soak->events);
    free(soak->state);
    health_options_free(&soak->common);
    free(soak);
    return status;
}
