// SPDX-License-Identifier: Apache-2.0
// A run of the suite as the command line asks for it, and its reports.
#include "conformance/run/cmd_check.h"

#include "base/process/check_folder.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/run/check_select.h"
#include "conformance/run/check_observe.h"
#include "conformance/run/check_own.h"
#include "conformance/run/check_ranks.h"
#include "conformance/claims/claims.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "base/file.h"
#include "conformance/report/report.h"
#include "base/process/launch.h"
#include "base/resources.h"
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The command that answers by the reference or a plug-in: `zerogauge answer`, as a user would call it.
static int own_command(const struct check_options *a, const char *plugin, char own[PATH_MAX], const char *command[16])
{
    TRY(launch_own_path(own));
    const char *const words[] = {own, "answer", "--plugin", plugin, "{cases}", "{answers}", "{world}", "{state}", NULL};
    for (size_t i = 0, count = 0; i < sizeof words / sizeof *words; i++)
        if (a->plugin || (i != 2 && i != 3))
            command[count++] = words[i];
    return ERR_NONE;
}

typedef int report_form(const struct run_facts *facts, const struct findings *findings,
                        const struct requirement_verdict verdicts[], int count, FILE *out);

static int write_report(const char *folder, const char *name, report_form *form, const struct run_facts *facts,
                        const struct check_run *run, const struct requirement_verdict verdicts[], int count)
{
    char path[PATH_MAX];
    TRY(file_join(folder, name, path));
    struct file_output output;
    TRY(file_output_open(path, FILE_REPLACED, &output));
    return file_output_close(&output, form(facts, &run->findings, verdicts, count, output.out));
}

// True if a run of this part has a case for a requirement.
static bool is_asked(const struct check_part *part, bool own, const struct check_run *run,
                     const struct requirement *requirement)
{
    for (int i = 0; part->requirements && part->requirements[i]; i++)
        if (strcmp(part->requirements[i], requirement->id) == 0)
            return true;
    bool asked = !part->case_patterns && part->world == 0 && suite_version(&part->choice) == ZG_SUITE_VERSION && !own;
    if (part->requirements || requirement->options & ~part->options)
        return false;
    for (size_t i = 0; i < run->case_count && !asked; i++)
        asked = requirement_covers(requirement, run->cases[i]->name);
    return asked;
}

static int asked_verdicts(const struct check_part *part, bool own, const struct check_run *run,
                          struct requirement_verdict out[REQUIREMENT_MAX])
{
    int count = 0, all = verdicts_of(&run->findings, out);
    for (int i = 0; i < all; i++)
        if (is_asked(part, own, run, out[i].requirement))
            out[count++] = out[i];
    return count;
}

static int report(const struct check_options *a, const struct check_setting *setting, bool temporary,
                  struct run_facts *facts, struct check_run *run, int *status)
{
    enum { RULE_MAX = 32 };
    static const struct {
        const char *name;
        report_form *form;
    } files[] = {{"report.jsonl", report_json}, {"junit.xml", report_junit}, {"report.html", report_html}};
    struct requirement_verdict verdicts[REQUIREMENT_MAX];
    const char *rules[RULE_MAX + 1] = {0};
    char missing[ERR_MESSAGE_BYTES];
    int count = asked_verdicts(&setting->part, setting->source != NULL, run, verdicts);
    for (int i = 0; i < RULE_MAX && judge_rule(run->judge, i); i++)
        rules[i] = judge_rule(run->judge, i);
    facts->rules = rules;
    facts->requirement_count = count;
    enum run_verdict verdict = run_verdict_of(verdicts, count, run->command_failed);
    *status = run_verdict_exit_status(verdict, facts->strict);
    int code = ERR_NONE;
    // Before anything is printed: a reader that has enough ends the program.
    for (int i = 0; !temporary && code == ERR_NONE && i < 3; i++)
        code = write_report(setting->folder, files[i].name, files[i].form, facts, run, verdicts, count);
    if (!a->json)
        report_first(facts, verdicts, count, stdout);
    if (code == ERR_NONE && run->covers && !a->json)  // the table's last line is the verdict
        code = check_cover_print(&run->coverage);
    err_keep(missing);
    TRY((a->json ? report_json : report_table)(facts, &run->findings, verdicts, count, stdout));
    if (code != ERR_NONE)
        return err_restore(missing), code;
    if (!temporary && !a->json)
        printf("Cases, answers and reports: %s\n", a->out);
    if (a->expect)
        *status = !expectations_compare(a->expected, verdicts, count, &run->findings, verdict, facts,
                                        a->json ? stderr : stdout);
    if (a->update) {
        TRY(expectations_update(a->expected, verdicts, count, &run->findings, facts->suite_version));
        *status = 0;
    }
    return fflush(stdout) == 0 ? ERR_NONE : err_set(ERR_IO, "the report cannot be written: %s", strerror(errno));
}

static int limits(const struct check_options *a, struct check_setting *setting)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit = resources_memory_limit();
    setting->memory_limit_bytes = (limit > 0 && limit < memory ? limit : memory) / 10 * 9;
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

// The facts of the run for its reports, except part and command.
static struct run_facts facts_of(const struct check_options *a, const struct check_setting *setting,
                                 const struct check_run *run, const char *const *rest)
{
    const struct claims *claims = setting->claims;
    bool own = !claims && !a->plugin && !rest[0];
    struct run_facts facts = {
        .implementation = claims      ? claims->name
                          : a->plugin ? a->plugin
                          : rest[0]   ? rest[0]
                                      : "zerogauge answer",
        .version = claims ? claims->version
                   : own  ? ZG_VERSION
                          : "",
        .level = setting->part.choice.level == LEVEL_FULL ? "full" : "quick",
        .seed = setting->seed,
        .suite_version = suite_version(&setting->part.choice),
        .seconds = run->seconds,
        .case_count = run->case_count,
        .launch_count = run->launch_count,
        .command_failed = run->command_failed,
        .strict = a->strict,
    };
    for (size_t i = 0; i < run->case_count; i++)
        facts.repeat_count += strchr(run->cases[i]->name, '~') != NULL;
    snprintf(facts.command_text, sizeof facts.command_text, "%s", run->command_text);
    return facts;
}

static int run_and_report(const struct check_options *a, const struct check_setting *setting, bool temporary,
                          const char *const *rest, int *status)
{
    struct check_run run;
    struct observations observations = {0};
    char *part = NULL, *line = NULL;
    int rc = check_run(setting, &run);
    if (rc == ERR_NONE && a->observes)
        rc = check_observe(setting, &observations);
    if (rc == ERR_NONE)
        rc = check_part_text(&setting->part, setting->source != NULL, &part);
    if (rc == ERR_NONE)
        rc = check_command_text(a, &setting->part, rest, &line);
    if (rc == ERR_NONE) {
        struct run_facts facts = facts_of(a, setting, &run, rest);
        facts.part = part;
        facts.observations = observations;
        facts.command = line;
        rc = report(a, setting, temporary, &facts, &run, status);
    }
    free(part);
    free(line);
    check_run_free(&run);
    return rc;
}

// Hunts with a command; its control is the reference, unless it is what is judged.
static int hunt_with(const struct check_options *a, struct check_setting *setting, const char *const *rest, int *status)
{
    char own[PATH_MAX], *line;
    const char *reference[16];
    const struct check_options plain = {0};
    bool is_own = !rest[0] && !a->plugin;
    if (!is_own)
        TRY(own_command(&plain, NULL, own, reference));
    TRY(check_command_text(a, &setting->part, rest, &line));
    int rc = check_hunt_and_report(a, setting, line, is_own ? NULL : reference, status);
    free(line);
    return rc;
}

// Judges the suite's cases, or those of a folder.
static int judge_with(const struct check_options *a, struct check_setting *setting, const char *const *rest,
                      int *status)
{
    bool temporary = !a->out;
    char folder[PATH_MAX];
    struct hunt_cases own = {0};
    struct check_source source;
    if (a->case_dir) {
        TRY(check_own_open(a->case_dir, a->cases, &own));
        source = check_own_source(&own);
        setting->source = &source;
    }
    int rc = temporary ? check_folder_temporary(!a->keep, folder) : check_folder_new("--out", a->out, folder);
    if (rc == ERR_NONE) {
        setting->folder = folder;
        rc = run_and_report(a, setting, temporary, rest, status);
        if (temporary && !a->keep)
            check_folder_remove(folder);
        else if (temporary)
            text_say("zerogauge check: cases and answers: %s", folder);
    }
    hunt_cases_close(&own);
    return rc;
}

static int check_with(const struct check_options *a, const struct check_part *part, const struct claims *claims,
                      const char *const *rest, const char *const *command, struct check_ranks *ranks,
                      const volatile sig_atomic_t *interrupted, int *status)
{
    struct check_setting setting = {
        .part = *part,
        .claims = claims,
        .command = command,
        .is_plugin = a->plugin != NULL,
        .answer = ranks ? check_ranks_answer : NULL,
        .answer_context = ranks,
        .seed = (uint64_t)a->seed,
        .progress = !a->json,
        .interrupted = interrupted,
    };
    TRY(limits(a, &setting));
    return a->hunts ? hunt_with(a, &setting, rest, status) : judge_with(a, &setting, rest, status);
}

static int find_plugin(const char *name, char path[PATH_MAX])
{
    int fd;
    int rc = file_open(name, &fd);
    if (rc != ERR_NONE)
        return err_prefix(rc, "--plugin");
    close(fd);
    return realpath(name, path) ? ERR_NONE : err_set(ERR_USAGE, "--plugin %s: %s", name, strerror(errno));
}

// The options that are put to the program: those that it claims; all of them, if it is the reference, or if somebody
// asks for a requirement that is one.
static int choose_options(const struct check_options *a, const struct claims *claims, bool is_own,
                          struct check_part *part)
{
    part->options = claims ? claims->options : is_own ? CASE_OPTIONS_ALL : 0;
    for (int i = 0; a->requirements && a->requirements[i]; i++) {
        const struct requirement *requirement = requirement_find(a->requirements[i]);
        unsigned missing = requirement ? requirement->options & ~part->options : 0;
        if (missing && claims)
            return err_set(ERR_USAGE, "%s is optional: claims ask for it with \"%s\" in the list \"optional\"",
                           requirement->id, case_option_names[__builtin_ctz(missing)]);
        if (missing)
            part->options = CASE_OPTIONS_ALL;
    }
    return ERR_NONE;
}

int check_and_report(const struct check_options *a, const struct check_part *part, const char *const *rest,
                     struct check_ranks *ranks, const volatile sig_atomic_t *interrupted, int *status)
{
    char own[PATH_MAX], plugin[PATH_MAX] = "";
    const char *command[16];
    if (a->plugin && rest[0])
        return err_set(ERR_USAGE, "give a plug-in or a command, not both");
    if (a->plugin)
        TRY(find_plugin(a->plugin, plugin));
    if (!rest[0])
        TRY(own_command(a, plugin, own, command));
    struct claims claims;
    if (a->claims)
        TRY(claims_read(a->claims, &claims));
    struct check_part asked = *part;
    TRY(choose_options(a, a->claims ? &claims : NULL, !a->plugin && !rest[0], &asked));
    const char *const *whole = rest[0] ? rest : command;
    char **wrapped;
    TRY(check_command_wrap(a->wrapper, whole, &wrapped));
    int rc = check_with(a, &asked, a->claims ? &claims : NULL, rest, (const char *const *)wrapped, ranks, interrupted,
                        status);
    free(wrapped);
    return rc;
}
