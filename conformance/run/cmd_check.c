// SPDX-License-Identifier: Apache-2.0
// `zerogauge check`: the suite, on the reference or on somebody else's program.
#include "conformance/run/cmd_check.h"

#include "base/process/interrupt.h"
#include "conformance/run/check_ranks.h"
#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "ref/comm/launcher.h"

#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static int explain(const char *id)
{
    const struct requirement *requirement = requirement_find(id);
    if (!requirement)
        return err_set(ERR_USAGE, "there is no requirement %s; conformance/SPEC.md lists them", id);
    printf("%.*s\n", (int)requirement->text_bytes, requirement->text);
    return ERR_NONE;
}

// Checks the reference as a rank of a launcher's world: its processes answer the cases.
static int check_as_rank(const struct check_options *a, const struct launcher *launcher, struct check_part *part,
                         const char *const *rest, int *status)
{
    if (rest[0] || a->plugin)
        return err_set(ERR_USAGE,
                       "%s says that this is one of %d processes: start zerogauge check once, and put the "
                       "launcher into the command: zerogauge check -- mpirun -n {world} "
                       "PROGRAM {cases} {answers} {world} {state}",
                       launcher->name, launcher->world);
    if (a->limits_time || a->memory || a->output)
        return err_set(ERR_USAGE,
                       "--time-limit, --memory-limit and --output-limit bound a command that is launched; "
                       "under %s the launched processes answer, and the launcher sets limits",
                       launcher->name);
    if (a->observes)
        return err_set(ERR_USAGE,
                       "--observe measures processes that are launched; under %s the launched processes answer: "
                       "put the launcher into the command",
                       launcher->name);
    struct check_ranks ranks = {.interrupted = &interrupted};
    int rc = launcher_open(launcher, &ranks.comm);
    part->world = launcher->world;
    if (rc == ERR_NONE && launcher->rank > 0)
        rc = check_ranks_follow(&ranks);
    else if (rc == ERR_NONE)
        rc = check_and_report(a, part, rest, &ranks, &interrupted, status);
    if (rc == ERR_NONE && launcher->rank == 0)
        rc = check_ranks_end(&ranks);
    if (rc != ERR_NONE && ranks.comm)
        comm_abort(ranks.comm, err_message());
    if (rc != ERR_NONE && (launcher->rank == 0 || rc != ERR_PEER))
        launcher_tell("zerogauge check");
    launcher_close(ranks.comm, err_exit_status(rc));
    return rc;
}

// ERR_USAGE: options that exclude one another.
static int check_options_fit(const struct check_options *a)
{
    if (a->case_dir && (a->requirements || a->list || a->write_cases))
        return err_set(ERR_USAGE, "--case-dir gives the cases: it goes with no --requirement, --list or --write-cases");
    if (a->find_max && !a->hunts)
        return err_set(ERR_USAGE, "--finds ends a hunt: give --hunt MINUTES, too");
    if (a->update && !a->expect)
        return err_set(ERR_USAGE, "--update writes the file of --expect: give --expect FILE, too");
    if (a->expect && (a->hunts || a->list || a->write_cases || a->strict))
        return err_set(ERR_USAGE, "--expect compares a run's verdicts with a file's: it goes with no --hunt, --list, "
                                  "--write-cases or --strict");
    if (a->chooses_version && a->expected->suite_version > 0 && a->expected->suite_version != a->suite_version)
        return err_set(ERR_USAGE, "--suite-version %d: %s is of suite version %d", a->suite_version, a->expect,
                       a->expected->suite_version);
    if (!a->hunts)
        return ERR_NONE;
    if (a->case_dir || a->cases || a->requirements || a->list || a->write_cases || a->json || a->strict || a->observes)
        return err_set(ERR_USAGE, "--hunt draws its own cases and prints its own report: it goes with no --case, "
                                  "--case-dir, --requirement, --list, --write-cases, --json, --strict or --observe");
    if (!(a->hunt_minutes > 0 && a->hunt_minutes < 1e6))
        return err_set(ERR_USAGE, "--hunt %g: expected minutes, more than 0", a->hunt_minutes);
    if (a->find_max < 0)
        return err_set(ERR_USAGE, "--finds %d: expected at least 1", a->find_max);
    if (!a->out)
        return err_set(ERR_USAGE, "--hunt keeps what it finds: give --out DIR");
    return ERR_NONE;
}

// Reads the file of --expect, which chooses the suite version unless an option does.
static int read_expected(struct check_options *a)
{
    if (a->update)
        TRY(file_check_output(a->expect, FILE_REPLACED));
    TRY(expectations_read(a->expect, a->update, a->expected));
    if (!a->chooses_version && a->expected->suite_version > 0)
        a->suite_version = a->expected->suite_version;
    return ERR_NONE;
}

static int check(const struct check_options *a, const char *const *rest, int *status)
{
    if (a->explain)
        return explain(a->explain);
    TRY(check_options_fit(a));
    bool full = a->level && strcmp(a->level, "full") == 0;
    if (a->level && !full && strcmp(a->level, "quick") != 0)
        return err_set(ERR_USAGE, "--level %s: expected quick or full", a->level);
    if (a->suite_version < 1 || a->suite_version > ZG_SUITE_VERSION)
        return err_set(ERR_USAGE, "--suite-version %d: expected 1 to %d", a->suite_version, ZG_SUITE_VERSION);
    if (a->seed < 0)
        return err_set(ERR_USAGE, "--seed %lld: expected a positive number, or 0 for the frozen cases", a->seed);
    struct check_part part = {
        .choice = {.level = full ? LEVEL_FULL : LEVEL_QUICK, .version = a->suite_version, .seed = (uint64_t)a->seed},
        .case_patterns = (const char *const *)a->cases,
        .requirements = (const char *const *)a->requirements,
    };
    part.options = CASE_OPTIONS_ALL;
    if (a->list)
        return check_list_cases(&part);
    interrupt_watch(on_interrupt);
    if (a->write_cases)
        return check_write_cases(&part, a->write_cases, &interrupted);
    struct launcher launcher;
    TRY(launcher_find(&launcher));
    if (launcher.world > 1 && (a->hunts || a->case_dir))
        return err_set(ERR_USAGE,
                       "--hunt and --case-dir start a command: put the launcher into it: zerogauge check ... "
                       "-- mpirun -n {world} PROGRAM {cases} {answers} {world} {state}");
    if (launcher.world > 1)
        return check_as_rank(a, &launcher, &part, rest, status);
    return check_and_report(a, &part, rest, NULL, &interrupted, status);
}

static const char *const examples[] = {
    "zerogauge check",
    "zerogauge check --requirement R-OPT-01 --plugin ./example.so",
    "zerogauge check --claims claims.json --out report -- torchrun --nproc-per-node {world} mine.py {cases} {answers}",
    NULL,
};

static const struct help help = {
    .usage = "[OPTION...] [-- COMMAND ... {cases} {answers} {world} [{state}]]",
    .text = "Runs the conformance suite on the command after --, or on the reference if there is none. Verdicts of a "
            "requirement: PASS (equal bits), EQUIVALENT (equal bits under another known recipe or order), BOUNDED (no "
            "known recipe, but within the limits of rounding), FAIL, BROKEN (no usable answer), UNSUPPORTED.",
    .examples = examples,
};

enum { HUNT_OPTION = 1, TIME_LIMIT_OPTION, SUITE_OPTION };

static int run(int argc, const char **argv, struct check_options *a, const char *const *rest, int *status)
{
    const struct poptOption options[] = {
        {"level", 'l', POPT_ARG_STRING, &a->level, 0, "quick takes about a minute (default: quick)", "quick|full"},
        {"suite-version", '\0', POPT_ARG_INT | POPT_ARGFLAG_SHOW_DEFAULT, &a->suite_version, SUITE_OPTION,
         "the cases of an earlier version of the suite", "N"},
        {"case", 'c', POPT_ARG_ARGV, &a->cases, 0,
         "run only these cases: a name, or a shell pattern such as 'adam-*', '*.w2.s3.*' or '@(adam|clip)-*'; may be "
         "repeated",
         "CASE"},
        {"requirement", 'r', POPT_ARG_ARGV, &a->requirements, 0,
         "run only the cases of this requirement; may be repeated", "REQUIREMENT"},
        {"claims", '\0', POPT_ARG_STRING, &a->claims, 0, "JSON file of the features that the implementation supports",
         "FILE"},
        {"plugin", '\0', POPT_ARG_STRING, &a->plugin, 0, "check this shared object (contract.h) instead of a command",
         "FILE"},
        {"out", 'o', POPT_ARG_STRING, &a->out, 0, "keep cases, answers and reports in this new folder", "DIR"},
        {"keep", '\0', POPT_ARG_NONE, &a->keep, 0, "without --out: keep the temporary folder", NULL},
        {"json", '\0', POPT_ARG_NONE, &a->json, 0, "print JSON lines instead of a table", NULL},
        {"explain", '\0', POPT_ARG_STRING, &a->explain, 0, "print a requirement and exit", "REQUIREMENT"},
        {"list", '\0', POPT_ARG_NONE, &a->list, 0, "list the cases and exit", NULL},
        {"write-cases", '\0', POPT_ARG_STRING, &a->write_cases, 0,
         "write the cases and order.json to this new folder and exit", "DIR"},
        {"case-dir", '\0', POPT_ARG_STRING, &a->case_dir, 0,
         "judge the case in this folder, or the cases that its order.json lists, in place of the suite's", "DIR"},
        {"hunt", '\0', POPT_ARG_DOUBLE, &a->hunt_minutes, HUNT_OPTION,
         "draw random cases for so long, shrink those that fail, and keep them in the folder of --out", "MINUTES"},
        {"observe", '\0', POPT_ARG_NONE, &a->observes, 0,
         "also measure, of one large case at every claimed stage, whether processes hold less memory than at stage 0",
         NULL},
        {"finds", '\0', POPT_ARG_INT, &a->find_max, 0, "end the hunt after N finds that are shrunk", "N"},
        {"expect", '\0', POPT_ARG_STRING, &a->expect, 0,
         "compare the verdicts with those that this file expects: status 0 if they are these, 1 if one is worse or "
         "better",
         "FILE"},
        {"update", '\0', POPT_ARG_NONE, &a->update, 0, "write the file of --expect anew, after this run's verdicts",
         NULL},
        {"wrapper", '\0', POPT_ARG_STRING, &a->wrapper, 0,
         "words to start the command with, which reports leave out: a program that runs it", "WORDS"},
        {"strict", '\0', POPT_ARG_NONE, &a->strict, 0, "anything less than CONFORMS is a failure", NULL},
        {"seed", '\0', POPT_ARG_LONGLONG | POPT_ARGFLAG_SHOW_DEFAULT, &a->seed, 0,
         "draw names, gradients, combinations and order anew; 0: the frozen cases; with --hunt: of the hunt", "N"},
        {"time-limit", '\0', POPT_ARG_DOUBLE | POPT_ARGFLAG_SHOW_DEFAULT, &a->time_limit_s, TIME_LIMIT_OPTION,
         "seconds without a new file of answers after which a launch is ended, five times as many before the first "
         "one, however long it takes in all; 0: none",
         "S"},
        {"memory-limit", '\0', POPT_ARG_STRING, &a->memory, 0,
         "memory of all processes of a launch (default: 9/10 of the machine)", "SIZE"},
        {"output-limit", '\0', POPT_ARG_STRING, &a->output, 0,
         "bytes that a launch may print and write (default: 4 GiB)", "SIZE"},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = ERR_NONE, code;
    while ((code = poptGetNextOpt(context)) > 0) {
        a->hunts |= code == HUNT_OPTION;
        a->chooses_version |= code == SUITE_OPTION;
        a->limits_time |= code == TIME_LIMIT_OPTION;
    }
    rc = help_options_end(context, argv, code);
    if (rc == ERR_NONE && poptPeekArg(context))
        rc = err_set(ERR_USAGE, "%s: put the command to check after --", poptPeekArg(context));
    if (rc == ERR_NONE && a->expect)
        rc = read_expected(a);
    if (rc == ERR_NONE)
        rc = check(a, rest, status);
    help_release(options);
    poptFreeContext(context);
    return rc;
}

int check_main(int argc, const char **argv)
{
    static const char *const none[] = {NULL};
    struct expectations expected = {0};
    struct check_options a = {
        .expected = &expected, .suite_version = ZG_SUITE_VERSION, .time_limit_s = CHECK_TIME_LIMIT_S};
    const char *const *rest = none;
    const char *own[argc + 1];
    int own_count = 0, status = 0;
    for (int i = 0; i < argc && rest == none; i++) {
        if (strcmp(argv[i], "--") == 0)
            rest = argv + i + 1;
        else
            own[own_count++] = argv[i];
    }
    own[own_count] = NULL;
    int rc = run(own_count, own, &a, rest, &status);
    if (rc != ERR_NONE && *err_message() && rc != ERR_PEER)
        text_error("zerogauge check");
    expectations_free(&expected);
    return interrupted ? INTERRUPTED_STATUS : rc != ERR_NONE ? err_exit_status(rc) : status;
}
