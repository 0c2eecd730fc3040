// SPDX-License-Identifier: Apache-2.0
// The command line of a run, as a report quotes it.
#include "conformance/run/cmd_check.h"

#include "base/err.h"
#include "base/process/shell_word.h"

#include <inttypes.h>
#include <stdio.h>

static void describe_option(FILE *out, const char *name, const char *value)
{
    if (!value)
        return;
    fprintf(out, "%s--%s ", ftell(out) > 0 ? " " : "", name);
    shell_word(out, value);
}

int check_command_text(const struct check_options *a, const struct check_part *part, const char *const *rest,
                       char **out)
{
    size_t bytes;
    FILE *text = open_memstream(out, &bytes);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a line of the report");
    if (suite_version(&part->choice) != ZG_SUITE_VERSION)
        fprintf(text, "--suite-version %d", part->choice.version);
    if (part->choice.seed > 0)
        fprintf(text, "%s--seed %" PRIu64, ftell(text) > 0 ? " " : "", part->choice.seed);
    describe_option(text, "case-dir", a->case_dir);
    describe_option(text, "claims", a->claims);
    describe_option(text, "memory-limit", a->memory);
    describe_option(text, "output-limit", a->output);
    if (a->time_limit_s != CHECK_TIME_LIMIT_S)
        fprintf(text, "%s--time-limit %g", ftell(text) > 0 ? " " : "", a->time_limit_s);
    describe_option(text, "plugin", a->plugin);
    for (int i = 0; rest[i]; i++) {
        fprintf(text, "%s%s", ftell(text) > 0 ? " " : "", i ? "" : "-- ");
        shell_word(text, rest[i]);
    }
    if (part->world > 0)
        fprintf(text, "%s-- mpirun -n {world} zerogauge answer {cases} {answers} {world} {state}",
                ftell(text) > 0 ? " " : "");
    return fclose(text) == 0 ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a line of the report");
}

int check_part_text(const struct check_part *part, bool own, char **out)
{
    size_t bytes;
    *out = NULL;
    if (!part->case_patterns && !part->requirements && part->world == 0 && !own)
        return ERR_NONE;
    FILE *text = open_memstream(out, &bytes);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a line of the report");
    for (int i = 0; part->requirements && part->requirements[i]; i++)
        describe_option(text, "requirement", part->requirements[i]);
    for (int i = 0; part->case_patterns && part->case_patterns[i]; i++)
        describe_option(text, "case", part->case_patterns[i]);
    char of_world[32];
    snprintf(of_world, sizeof of_world, "*.w%d.*", part->world);
    if (!part->case_patterns && part->world > 0)
        describe_option(text, "case", of_world);
    return fclose(text) == 0 ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a line of the report");
}
