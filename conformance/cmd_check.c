// SPDX-License-Identifier: Apache-2.0
// `zerogauge check`: the suite, on the reference or on somebody else's program.
#include "check.h"

#include "claims.h"
#include "err.h"
#include "file.h"
#include "report.h"
#include "size.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    char *level, *cases, *requirement, *claims, *out, *plugin, *explain, *memory, *output;
    int list, json, keep;
    long long seed;
    double time_limit_s;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    remove(path);
    return 0;
}

static void remove_tree(const char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int explain(const char *id)
{
    const struct requirement *requirement = requirement_find(id);
    if (!requirement)
        return err_set(ERR_USAGE, "there is no requirement %s; conformance/SPEC.md lists them", id);
    printf("%.*s\n", (int)requirement->text_bytes, requirement->text);
    return ERR_NONE;
}

static int print_case(void *context, const struct check_case *c)
{
    char text[1024] = "";
    size_t used = 0;
    (void)context;
    for (int i = 0; i < c->requirement_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %s", c->requirements[i]);
    printf("%-40s%s\n", c->name, text);
    return ERR_NONE;
}

// The folder for everything: the one given, which must be empty, or one that is removed afterwards.
static int open_folder(const struct options *a, char out[PATH_MAX], bool *temporary)
{
    *temporary = !a->out;
    if (a->out) {
        if (mkdir(a->out, 0777) != 0 && errno != EEXIST)
            return err_set(ERR_USAGE, "--out %s: cannot be made: %s", a->out, strerror(errno));
        if (!realpath(a->out, out))
            return err_set(ERR_USAGE, "--out %s: %s", a->out, strerror(errno));
        if (rmdir(out) != 0)
            return err_set(ERR_USAGE, "--out %s: is not an empty folder; remove it, or give another", a->out);
        return mkdir(out, 0777) == 0 ? ERR_NONE : err_set(ERR_IO, "%s: %s", out, strerror(errno));
    }
    const char *base = getenv("TMPDIR");
    snprintf(out, PATH_MAX, "%s/zerogauge-check-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(out) ? ERR_NONE : err_set(ERR_IO, "%s: cannot be made: %s", out, strerror(errno));
}

// The reference, or a plug-in, through the same door as everybody.
static int own_command(const struct options *a, const char *plugin, char own[PATH_MAX], const char *command[16])
{
    ssize_t length = readlink("/proc/self/exe", own, PATH_MAX - 1);
    if (length < 0)
        return err_set(ERR_IO, "/proc/self/exe: %s", strerror(errno));
    own[length] = '\0';
    int count = 0;
    command[count++] = own;
    command[count++] = "answer";
    if (a->plugin) {
        command[count++] = "--plugin";
        command[count++] = plugin;
    }
    command[count++] = "{cases}";
    command[count++] = "{answers}";
    command[count++] = "{world}";
    command[count++] = "{state}";
    command[count] = NULL;
    return ERR_NONE;
}

typedef int report_form(const struct run_facts *facts, const struct findings *findings,
                        const struct requirement_verdict verdicts[], int count, FILE *out);

static int write_report(const char *folder, const char *name, report_form *form, const struct run_facts *facts,
                        const struct check_run *run, const struct requirement_verdict verdicts[], int count)
{
    char path[PATH_MAX];
    TRY(file_join(folder, name, path));
    FILE *out = fopen(path, "w");
    if (!out)
        return err_set(ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    int rc = form(facts, &run->findings, verdicts, count, out);
    if (fclose(out) != 0 && rc == ERR_NONE)
        rc = err_set(ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    return rc;
}

static int report(const struct options *a, const char *folder, bool temporary, struct run_facts *facts,
                  struct check_run *run, int *status)
{
    enum { RULE_MAX = 32 };
    static const struct {
        const char *name;
        report_form *form;
    } files[] = {{"report.jsonl", report_json}, {"junit.xml", report_junit}, {"report.html", report_html}};
    struct requirement_verdict verdicts[REQUIREMENT_MAX];
    const char *rules[RULE_MAX + 1] = {0};
    int count = verdicts_of(&run->findings, verdicts);
    for (int i = 0; i < RULE_MAX && judge_rule(run->judge, i); i++)
        rules[i] = judge_rule(run->judge, i);
    facts->rules = rules;
    facts->requirement_count = count;
    enum run_verdict verdict = run_verdict_of(verdicts, count, run->command_failed);
    *status = run_verdict_exit_status(verdict);
    TRY((a->json ? report_json : report_table)(facts, &run->findings, verdicts, count, stdout));
    for (int i = 0; !temporary && i < 3; i++)
        TRY(write_report(folder, files[i].name, files[i].form, facts, run, verdicts, count));
    if (!temporary && !a->json)
        printf("cases, answers and reports are in %s\n", a->out);
    return fflush(stdout) == 0 ? ERR_NONE : err_set(ERR_IO, "the report cannot be written: %s", strerror(errno));
}

// How somebody says it again.
static void describe_command(const struct options *a, const char *const *rest, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    if (a->plugin)
        snprintf(out, bytes, "--plugin %s", a->plugin);
    for (int i = 0; rest[i] && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? " " : "-- ", rest[i]);
}

static int limits(const struct options *a, struct check_setting *setting)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    setting->memory_limit_bytes = (uint64_t)pages * (uint64_t)page_bytes / 10 * 9;
    setting->output_limit_bytes = (uint64_t)4 << 30;
    if (a->memory)
        TRY(size_parse(a->memory, &setting->memory_limit_bytes));
    if (a->output)
        TRY(size_parse(a->output, &setting->output_limit_bytes));
    if (!(a->time_limit_s >= 0))
        return err_set(ERR_USAGE, "--time-limit %g: expected seconds, or 0 for none", a->time_limit_s);
    setting->time_limit_s = a->time_limit_s;
    return ERR_NONE;
}

static int check_with(const struct options *a, const struct claims *claims, const char *const *rest,
                      const char *const *command, int *status)
{
    char folder[PATH_MAX], line[2048];
    bool temporary;
    struct check_setting setting = {
        .level = a->level && strcmp(a->level, "full") == 0 ? LEVEL_FULL : LEVEL_QUICK,
        .case_pattern = a->cases,
        .requirement = a->requirement,
        .claims = claims,
        .command = command,
        .folder = folder,
        .seed = (uint64_t)a->seed,
        .progress = isatty(STDERR_FILENO) && !a->json,
        .interrupted = &interrupted,
    };
    TRY(limits(a, &setting));
    TRY(open_folder(a, folder, &temporary));
    struct check_run run;
    int rc = check_run(&setting, &run);
    describe_command(a, rest, line, sizeof line);
    struct run_facts facts = {
        .implementation = claims ? claims->name : a->plugin ? a->plugin : rest[0] ? rest[0] : "zerogauge answer",
        .version = claims ? claims->version : "",
        .level = setting.level == LEVEL_FULL ? "full" : "quick",
        .command = line,
        .seed = setting.seed,
        .seconds = run.seconds,
        .case_count = run.case_count,
        .launch_count = run.launch_count,
        .command_failed = run.command_failed,
    };
    snprintf(facts.command_text, sizeof facts.command_text, "%s", run.command_text);
    if (rc == ERR_NONE)
        rc = report(a, folder, temporary, &facts, &run, status);
    check_run_free(&run);
    if (temporary && !a->keep)
        remove_tree(folder);
    else if (temporary)
        fprintf(stderr, "zerogauge check: kept in %s\n", folder);
    return rc;
}

static int check(const struct options *a, const char *const *rest, int *status)
{
    char own[PATH_MAX], plugin[PATH_MAX] = "";
    const char *command[16];
    if (a->explain)
        return explain(a->explain);
    bool full = a->level && strcmp(a->level, "full") == 0;
    if (a->level && !full && strcmp(a->level, "quick") != 0)
        return err_set(ERR_USAGE, "--level %s: expected quick or full", a->level);
    if (a->list)
        return edition_cases(full ? LEVEL_FULL : LEVEL_QUICK, print_case, NULL);
    if (a->plugin && rest[0])
        return err_set(ERR_USAGE, "give a plug-in or a command, not both");
    if (a->plugin && !realpath(a->plugin, plugin))
        return err_set(ERR_USAGE, "--plugin %s: %s", a->plugin, strerror(errno));
    if (!rest[0])
        TRY(own_command(a, plugin, own, command));
    struct claims claims;
    if (a->claims)
        TRY(claims_read(a->claims, &claims));
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return check_with(a, a->claims ? &claims : NULL, rest, rest[0] ? rest : command, status);
}

static int run(int argc, const char **argv, struct options *a, const char *const *rest, int *status)
{
    const struct poptOption options[] = {
        {"level", 'l', POPT_ARG_STRING, &a->level, 0, "quick, unless given: at most a minute; full", "NAME"},
        {"case", 'c', POPT_ARG_STRING, &a->cases, 0, "only these cases: a name, or a pattern as a shell's", "NAME"},
        {"requirement", 'r', POPT_ARG_STRING, &a->requirement, 0, "only cases that serve this requirement", "ID"},
        {"claims", '\0', POPT_ARG_STRING, &a->claims, 0, "what the implementation supports", "FILE"},
        {"plugin", '\0', POPT_ARG_STRING, &a->plugin, 0, "a shared object in place of a command", "FILE"},
        {"out", 'o', POPT_ARG_STRING, &a->out, 0, "keep cases, answers and reports in this new folder", "DIR"},
        {"keep", '\0', POPT_ARG_NONE, &a->keep, 0, "without --out: do not remove the temporary folder", NULL},
        {"json", '\0', POPT_ARG_NONE, &a->json, 0, "print JSON lines instead of a table", NULL},
        {"explain", '\0', POPT_ARG_STRING, &a->explain, 0, "print a requirement and stop", "ID"},
        {"list", '\0', POPT_ARG_NONE, &a->list, 0, "list the cases of the level and stop", NULL},
        {"seed", '\0', POPT_ARG_LONGLONG | POPT_ARGFLAG_SHOW_DEFAULT, &a->seed, 0, "of the cases' order", "N"},
        {"time-limit", '\0', POPT_ARG_DOUBLE | POPT_ARGFLAG_SHOW_DEFAULT, &a->time_limit_s, 0,
         "seconds that a launch may take", "S"},
        {"memory-limit", '\0', POPT_ARG_STRING, &a->memory, 0, "of all its processes (9/10 of the machine)", "SIZE"},
        {"output-limit", '\0', POPT_ARG_STRING, &a->output, 0, "of what it prints and writes (4 GiB)", "SIZE"},
        POPT_AUTOHELP POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    poptSetOtherOptionHelp(context, "[OPTION...] [-- COMMAND ... {cases} {answers} {world} [{state}]]");
    int rc = ERR_NONE, code = poptGetNextOpt(context);
    if (code < -1)
        rc = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(code));
    else if (poptPeekArg(context))
        rc = err_set(ERR_USAGE, "%s: the command to check stands behind --", poptPeekArg(context));
    if (rc == ERR_NONE)
        rc = check(a, rest, status);
    poptFreeContext(context);
    return rc;
}

int check_main(int argc, const char **argv)
{
    static const char *const none[] = {NULL};
    struct options a = {.seed = 1, .time_limit_s = 600};
    const char *const *rest = none;
    const char *own[argc + 1];
    int own_count = 0, status = 0;
    for (int i = 0; i < argc && rest == none; i++) {
        if (strcmp(argv[i], "--") == 0)
            rest = argv + i + 1;
        else
            own[own_count++] = i ? argv[i] : "zerogauge check";
    }
    own[own_count] = NULL;
    int rc = run(own_count, own, &a, rest, &status);
    if (rc != ERR_NONE)
        fprintf(stderr, "zerogauge check: %s\n", err_message());
    char *texts[] = {a.level, a.cases, a.requirement, a.claims, a.out, a.plugin, a.explain, a.memory, a.output};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    return rc != ERR_NONE ? err_exit_status(rc) : status;
}
