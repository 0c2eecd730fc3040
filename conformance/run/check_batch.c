// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_batch.h"

#include "base/err.h"
#include "base/process/check_folder.h"
#include "conformance/hunt/hunt_mesh.h"
#include "conformance/report/report_part.h"
#include "conformance/run/check_own.h"

#include <stdio.h>

static void describe(const struct finding *finding, struct check_failure *out)
{
    out->failed = true;
    out->aspect = finding->aspect;
    out->verdict = finding->verdict;
    out->hint = finding->hint;
    snprintf(out->why, sizeof out->why, "%s", finding->text);
    out->where[0] = out->bits[0] = '\0';
    char text[DIFFERENCE_TEXT_BYTES];
    if (!finding->has_difference)
        return;
    snprintf(out->where, sizeof out->where, "%.255s", difference_location(finding, text));
    difference_values(finding, out->bits);
}

// The number in a name that hunt_case_name made; -1: none.
static int number_of(const struct finding *finding)
{
    int number = -1;
    return finding->c && sscanf(finding->c->name, HUNT_TOPIC ".%d.", &number) == 1 ? number : -1;
}

static void collect(const struct check_run *run, int count, const struct check_failure *like,
                    struct check_failure failures[])
{
    for (size_t i = 0; i < run->findings.count; i++) {
        const struct finding *finding = &run->findings.list[i];
        int number = number_of(finding);
        if (number < 0 || number >= count || finding->verdict == VERDICT_UNSUPPORTED)
            continue;
        struct check_failure *failure = &failures[number];
        failure->judged = true;
        failure->broken |= finding->verdict == VERDICT_BROKEN;
        bool counts = finding->verdict == VERDICT_FAIL || finding->verdict == VERDICT_BROKEN;
        counts &= !like || (finding->aspect == like->aspect && finding->verdict == like->verdict);
        if (counts && (!failure->failed || finding->aspect < failure->aspect))
            describe(finding, failure);
    }
}

static int run_once(struct check_batch *batch, struct hunt_cases cases, const struct check_failure *like,
                    struct check_failure failures[], bool *broke_down)
{
    for (int i = 0; i < cases.count; i++) {
        hunt_case_name(&cases.list[i], i);
        for (int part = 0; part < cases.list[i].part_count; part++)
            requirement_list(cases.list[i].parts[part]);
        failures[i] = (struct check_failure){0};
    }
    struct check_source source = check_own_source(&cases);
    struct check_setting setting = *batch->setting;
    struct check_run run;
    setting.source = &source;
    setting.folder = batch->folder;
    setting.once = true;
    setting.progress = false;
    int rc = check_run(&setting, &run);
    if (rc == ERR_NONE)
        collect(&run, cases.count, like, failures);
    *broke_down = run.command_failed;
    batch->launch_count += run.launch_count;
    check_run_free(&run);
    check_folder_clear(batch->folder);
    return rc;
}

int check_batch(struct check_batch *batch, struct hunt_cases cases, const struct check_failure *like,
                struct check_failure failures[])
{
    bool broke_down;
    if (cases.count == 0)
        return ERR_NONE;
    TRY(run_once(batch, cases, like, failures, &broke_down));
    for (int i = 0; i < cases.count && broke_down && cases.count > 1; i++) {
        bool ignored;
        if (failures[i].broken)
            TRY(run_once(batch, (struct hunt_cases){.list = &cases.list[i], .count = 1}, like, &failures[i], &ignored));
    }
    return ERR_NONE;
}
