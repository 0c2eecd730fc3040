// SPDX-License-Identifier: Apache-2.0
// `zerogauge validate`: the command line.
#include "validate/validate.h"

#include "bench/harness/bench_world.h"
#include "ref/executor/emulation.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "base/process/check_folder.h"
#include "base/slow.h"
#include "base/process/interrupt.h"
#include "base/process/launch.h"
#include "ref/comm/launcher.h"
#include "validate/fit.h"
#include "validate/validate_world.h"
#include "plan/planner/plan_model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INCOMPLETE_STATUS = 77, VALIDATE_WORLD_MAX = 64 };

struct options {
    char **nvme_paths, **ranges, **models;
    char *out, *save_ranges, *emulate, *pin, *engine, *text, *device_memory, *host_memory;
    int world;
    double time_limit_s;
    int quick;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

// Creates the given folder, which must be new or empty, or one named after the time.
static int make_folder(const struct options *a, char out[PATH_MAX])
{
    time_t now = time(NULL);
    struct tm at;
    if (a->out) {
        if (strlen(a->out) >= PATH_MAX)
            return err_set(ERR_USAGE, "--out: the path is too long");
        snprintf(out, PATH_MAX, "%s", a->out);
    } else {
        gmtime_r(&now, &at);
        strftime(out, PATH_MAX, "validate-%Y%m%dT%H%M%SZ", &at);
    }
    char absolute[PATH_MAX];
    return check_folder_new("--out", out, absolute);
}

static int read_ranges(const struct options *a, struct accepted_ranges *ranges)
{
    TRY(accepted_ranges_add("default", ranges));
    for (char **name = a->ranges; name && *name; name++)
        TRY(accepted_ranges_add(*name, ranges));
    return ERR_NONE;
}

// Only a complete run without faults may become the reference for other machines.
static int save_ranges(const struct options *a, const char *folder, const struct validate_result *result)
{
    char source[ACCEPTED_RANGE_SOURCE_BYTES];
    if (!a->save_ranges)
        return ERR_NONE;
    if (validate_verdict(result) != FINDING_VALID)
        return err_set(ERR_USAGE, "--save-ranges: nothing saved: only a VALID run writes accepted ranges");
    const json_t **records = malloc((result->line_count + 1) * sizeof *records);
    if (!records)
        return err_set(ERR_MEMORY, "no memory for accepted ranges");
    for (size_t i = 0; i < result->line_count; i++)
        records[i] = result->lines[i].record;
    snprintf(source, sizeof source, "zerogauge validate%s, %.300s/result.jsonl", a->quick ? " --quick" : "", folder);
    const struct accepted_range_run run = {a->quick ? "quick" : "full", records, result->line_count};
    int rc = accepted_ranges_save(a->save_ranges, source, &run, 1);
    free(records);
    return rc;
}

static int exit_status(const struct validate_result *result)
{
    static const int statuses[] = {
        [FINDING_VALID] = 0, [FINDING_INCOMPLETE] = INCOMPLETE_STATUS, [FINDING_INVALID] = 1};
    return result->interrupted ? INTERRUPTED_STATUS : statuses[validate_verdict(result)];
}

static const char *const *paths_of(const struct options *a)
{
    static const char *const here[] = {".", NULL};
    return a->nvme_paths ? (const char *const *)a->nvme_paths : here;
}

static int choose_fit(const struct options *a, struct fit_setting *fit)
{
    static const char *const models[] = {"gpt2-124m", "llama-8b", NULL};
    const struct model *model;
    fit->models = a->models ? (const char *const *)a->models : models;
    for (const char *const *name = fit->models; *name; name++)
        TRY(plan_model_find(*name, 1, &model));
    // The ranks of a host share its memory.
    int world = bench_world_comm() ? bench_world_size() : a->world > 0 ? a->world : 2;
    int here = bench_world_comm() ? bench_world_host_size() : world;
    int rc = fit_available(here, a->device_memory, a->host_memory, paths_of(a), fit);
    fit->world = world;
    return rc;
}

static int validate(const struct options *a, int argc, const char **argv, struct validate_plan *plan,
                    const struct accepted_ranges *ranges, int *status)
{
    char folder[PATH_MAX];
    struct fit_setting fit;
    const char *command[argc + 2];
    command[0] = "zerogauge";
    command[1] = "validate";
    for (int i = 1; i < argc; i++)
        command[i + 1] = argv[i];
    command[argc + 1] = NULL;
    TRY(choose_fit(a, &fit));
    TRY(make_folder(a, folder));
    const struct validate_setting setting = {
        .folder = folder,
        .program = "validate",
        .level = a->quick ? "quick" : "full",
        .argc = argc + 1,
        .argv = command,
        .paths = paths_of(a),
        .emulate = a->emulate,
        .plan = plan,
        .ranges = ranges,
        .fit = &fit,
        .interrupted = &interrupted,
    };
    struct validate_result result;
    slow_print();
    int rc = validate_run(&setting, &result);
    if (rc == ERR_NONE) {
        validate_table(&setting, &result);
        rc = validate_report(folder);
        if (rc == ERR_NONE)
            rc = save_ranges(a, folder, &result);
        *status = exit_status(&result);
    }
    validate_result_free(&result);
    return rc;
}

static int run_plan(const struct options *a, int argc, const char **argv, struct validate_plan *plan, int *status)
{
    struct accepted_ranges ranges = {0};
    if (bench_world_rank() > 0)
        return validate_world_follow(plan, paths_of(a), &interrupted);
    int rc = read_ranges(a, &ranges);
    if (rc == ERR_NONE)
        rc = validate(a, argc, argv, plan, &ranges, status);
    accepted_ranges_free(&ranges);
    return rc;
}

// Parts put their temporary files into a folder of this process: a part that is killed cannot remove its own.
static int run_in_folder(const struct options *a, int argc, const char **argv, struct validate_plan *plan, int *status)
{
    char folder[PATH_MAX];
    TRY(check_folder_temporary(false, folder));
    setenv("TMPDIR", folder, 1);
    int rc = run_plan(a, argc, argv, plan, status);
    check_folder_remove(folder);
    return rc;
}

static int run(int argc, const char **argv, const struct options *a, int *status)
{
    char own[PATH_MAX], world[16];
    struct emulation emulation = {0};
    struct validate_plan plan;
    TRY(bench_world_join());
    launcher_hide();
    if (a->emulate)
        TRY(emulation_parse_all(a->emulate, &emulation));
    if (!(a->time_limit_s >= 0))
        return err_set(ERR_USAGE, "--time-limit %g: expected seconds", a->time_limit_s);
    if (a->save_ranges && access(a->save_ranges, F_OK) == 0)
        return err_set(ERR_USAGE, "--save-ranges %s: exists; give a new file", a->save_ranges);
    if (bench_world_comm() && a->world > 0 && a->world != bench_world_size())
        return err_set(ERR_USAGE, "--world %d, but the launcher has started %d processes: omit --world", a->world,
                       bench_world_size());
    if (a->world < 0 || a->world > VALIDATE_WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d ranks", a->world, VALIDATE_WORLD_MAX);
    snprintf(world, sizeof world, "%d", a->world);
    // The first rank of each host looks.
    if (!bench_world_comm() || bench_world_rank_on_host() == 0)
        TRY(fit_check_paths(paths_of(a), a->quick));
    TRY(launch_own_path(own));
    const struct validate_choice choice = {
        .program = own,
        .quick = a->quick,
        .nvme_paths = (const char *const *)a->nvme_paths,
        .emulation = emulation,
        .has_gpu = fit_has_gpu(),
        .several_hosts = bench_world_host_count() > 1,
        .world = a->world > 0 && !bench_world_comm() ? world : NULL,
        .pin = a->pin,
        .engine = a->engine,
        .text = a->text,
        .time_limit_s = a->time_limit_s,
    };
    TRY(validate_plan_make(&choice, &plan));
    interrupt_watch(on_interrupt);
    return run_in_folder(a, argc, argv, &plan, status);
}

static const char *const examples[] = {
    "zerogauge validate --quick",
    "zerogauge validate --nvme-path /mnt/nvme --model llama-8b --out results",
    "zerogauge validate --ranges fleet.json --world 8",
    NULL,
};

static const struct help help = {
    .usage = "[OPTION...]",
    .text = "Checks that this machine computes correctly and reaches the performance its hardware allows. The verdict "
            "is VALID, INVALID with each reason, or INCOMPLETE with the tests that could not run; the evidence is left "
            "in a folder. Under a launcher such as mpirun the verdict covers all hosts: rank 0 writes one folder with "
            "the results of the first rank of each host and of all ranks together.\n"
            "Exit status: 0 VALID, 1 INVALID, 77 INCOMPLETE, 2 usage, 130 interrupted.",
    .examples = examples,
};

static int parse_and_run(int argc, const char **argv, struct options *a, int *status)
{
    const struct poptOption options[] = {
        {"quick", 'q', POPT_ARG_NONE, &a->quick, 0, "some two minutes, with fewer samples", NULL},
        {"nvme-path", '\0', POPT_ARG_ARGV, &a->nvme_paths, 0, "a folder on an NVMe drive (default: .); repeatable",
         "DIR"},
        {"out", 'o', POPT_ARG_STRING, &a->out, 0, "a new folder for all results (default: validate-TIME)", "DIR"},
        {"ranges", '\0', POPT_ARG_ARGV, &a->ranges, 0, "accepted ranges in addition to the default ones; repeatable",
         "FILE|NAME"},
        {"save-ranges", '\0', POPT_ARG_STRING, &a->save_ranges, 0,
         "after a VALID run write accepted ranges for machines like this one", "FILE"},
        {"world", '\0', POPT_ARG_INT, &a->world, 0, "ranks (default: each benchmark's own)", "N"},
        {"pin", '\0', POPT_ARG_STRING, &a->pin, 0, "processors of the ranks in turn (default: the first ones)", "0,1"},
        {"model", '\0', POPT_ARG_ARGV, &a->models, 0,
         "list the presets under which this model fits (default: gpt2-124m, llama-8b); repeatable", "MODEL|SHAPE|FILE"},
        {"device-memory", '\0', POPT_ARG_STRING, &a->device_memory, 0, "device memory of each rank, for --model",
         "SIZE"},
        {"host-memory", '\0', POPT_ARG_STRING, &a->host_memory, 0, "host memory of each rank, for --model", "SIZE"},
        {"engine", '\0', POPT_ARG_STRING, &a->engine, 0, "storage engine (default: libaio)", "libaio|io_uring"},
        {"text", '\0', POPT_ARG_STRING, &a->text, 0, "train on this file instead of the King James Bible", "FILE"},
        {"emulate", '\0', POPT_ARG_STRING, &a->emulate, 0, "throttle lanes to rates in GB/s; never VALID",
         "LANE=GB/S,..."},
        {"time-limit", '\0', POPT_ARG_DOUBLE, &a->time_limit_s, 0,
         "seconds for each part (default: 300, or 20 times the expected time)", "S"},
        // Earlier names of --ranges and --save-ranges.
        {"bands", '\0', POPT_ARG_ARGV | POPT_ARGFLAG_DOC_HIDDEN, &a->ranges, 0, NULL, NULL},
        {"save-bands", '\0', POPT_ARG_STRING | POPT_ARGFLAG_DOC_HIDDEN, &a->save_ranges, 0, NULL, NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = help_no_arguments(context, argv, poptGetNextOpt(context));
    if (rc == ERR_NONE)
        rc = run(argc, argv, a, status);
    help_release(options);
    poptFreeContext(context);
    return rc;
}

int validate_main(int argc, const char **argv)
{
    struct options a = {0};
    int status = 0;
    int rc = parse_and_run(argc, argv, &a, &status);
    if (rc != ERR_NONE && bench_world_comm())
        comm_abort(bench_world_comm(), err_message());
    if (rc != ERR_NONE && bench_world_prints_error(rc))
        text_error("zerogauge validate");
    bench_world_leave(rc != ERR_NONE || status == INTERRUPTED_STATUS ? ERR_PEER : ERR_NONE);
    return rc != ERR_NONE ? err_exit_status(rc) : status;
}
