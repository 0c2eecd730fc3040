// SPDX-License-Identifier: Apache-2.0
// The launches of a run: writes each launch's cases, runs the command, and judges its answers.
#include "conformance/run/check_launch.h"
#include "conformance/run/check_select.h"

#include "base/clock.h"
#include "conformance/claims/claims.h"
#include "base/err.h"
#include "base/file.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_folders(const struct check_setting *setting, struct check_group *group)
{
    char base[PATH_MAX];
    snprintf(group->name, sizeof group->name, "w%d%s", group->world, group->resumes ? "-resume" : "");
    const struct {
        const char *folder;
        char *out;
    } rows[] = {{"cases", group->cases_folder}, {"answers", group->answers_folder}};
    for (int i = 0; i < 2; i++) {
        TRY(file_join(setting->folder, rows[i].folder, base));
        TRY(file_make_folder(base));
        TRY(file_join(base, group->name, rows[i].out));
        TRY(file_make_folder(rows[i].out));
    }
    TRY(file_join(setting->folder, "state", group->state_folder));
    return file_make_folder(group->state_folder);
}

// Writes the cases, and makes the folders in which both halves of a pair find one another's checkpoint.
static int write_cases(const struct check_setting *setting, const struct check_group *group)
{
    char name[CASE_NAME_BYTES], state[PATH_MAX];
    for (size_t i = 0; i < group->count; i++) {
        if (group->cases[i]->phase != PHASE_WHOLE) {
            check_whole_name(group->cases[i], name);
            TRY(file_join(group->state_folder, name, state));
            TRY(file_make_folder(state));
        }
        TRY(check_ask_case(setting->source, group->cases[i], group->cases_folder));
    }
    return check_write_order(group->cases_folder, group->cases, group->count);
}

static int run_group(const struct check_setting *setting, struct check_run *run, struct check_group *group)
{
    TRY(make_folders(setting, group));
    TRY(write_cases(setting, group));
    struct check_asked asked = {calloc(group->count, sizeof *asked.digest), calloc(group->count, sizeof *asked.why)};
    int rc = asked.digest && asked.why ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu cases", group->count);
    for (size_t i = 0; i < group->count && rc == ERR_NONE; i++)
        rc = check_digest_case(group->cases[i], group->cases_folder, asked.digest[i]);
    if (rc == ERR_NONE)
        rc = check_launch(setting, run, group, asked.why);
    if (rc == ERR_NONE)
        rc = check_judge(setting, run, group, &asked);
    free(asked.digest);
    free(asked.why);
    return rc;
}

// The cases of one world and half, in an order that the seed decides.
static int fill_group(const struct check_setting *setting, const struct check_run *run, struct check_group *group)
{
    group->cases = calloc(run->case_count + 1, sizeof(struct check_case *));
    if (!group->cases)
        return err_set(ERR_MEMORY, "no memory for %zu cases", run->case_count);
    for (size_t i = 0; i < run->case_count; i++)
        if (run->asked[i] && run->cases[i]->world == group->world &&
            (run->cases[i]->phase == PHASE_RESUME) == group->resumes)
            group->cases[group->count++] = run->cases[i];
    uint64_t key = random_key(random_key(setting->seed, 2), (uint64_t)group->world);
    for (size_t i = group->count; i > 1; i--) {
        size_t j = (size_t)random_below(random_at(key, i), i);
        struct check_case *swap = group->cases[i - 1];
        group->cases[i - 1] = group->cases[j];
        group->cases[j] = swap;
    }
    return ERR_NONE;
}

static int run_groups(const struct check_setting *setting, struct check_run *run)
{
    size_t done = 0;
    run->progress.begin_s = run->progress.shown_s = clock_now_s();
    for (size_t i = 0; i < run->case_count; i++)
        run->progress.all_count += run->asked[i];
    int rc = ERR_NONE;
    for (int resumes = 0; resumes < 2 && rc == ERR_NONE; resumes++)
        for (int world = 1; world <= CASE_WORLD_MAX && rc == ERR_NONE; world++) {
            struct check_group group = {.world = world, .resumes = resumes, .earlier_count = done};
            rc = fill_group(setting, run, &group);
            run->progress.done_count = done;
            run->progress.world = world;
            if (rc == ERR_NONE && group.count > 0 && setting->progress)
                check_progress_tick(&run->progress, 0);
            if (rc == ERR_NONE && group.count > 0)
                rc = run_group(setting, run, &group);
            done += group.count;
            free(group.cases);
        }
    if (setting->progress)
        check_progress_end();
    return rc;
}

static int check_placeholders(const char *const *command)
{
    bool cases = false, answers = false;
    for (int i = 0; command[i]; i++) {
        cases |= strstr(command[i], "{cases}") || strstr(command[i], "{case}");
        answers |= strstr(command[i], "{answers}") || strstr(command[i], "{answer}");
    }
    return cases && answers ? ERR_NONE
                            : err_set(ERR_USAGE, "the command needs the placeholders {cases} and {answers}, or {case} "
                                                 "and {answer}");
}

int check_run(const struct check_setting *setting, struct check_run *out)
{
    assert(setting->command && setting->folder && out);
    *out = (struct check_run){0};
    double begin = clock_now_s();
    TRY(check_placeholders(setting->command));
    struct judge_options options = {.scaler = SCALER_DEEPSPEED, .clip = -1, .unused = -1};
    if (setting->claims)
        options = (struct judge_options){
            .scaler = setting->claims->scaler,
            .clip = (int)setting->claims->clip - (int)CLAIMS_CLIP_TORCH,
            .unused = (int)setting->claims->unused - (int)CLAIMS_UNUSED_UNTOUCHED,
            .states = setting->claims->states,
        };
    TRY(judge_open(&options, &out->findings, &out->judge));
    TRY(check_select(setting, out));
    if (!setting->source)
        TRY(check_cover(setting, out));
    TRY(check_repeat(setting, out));
    TRY(run_groups(setting, out));
    TRY(judge_end(out->judge));
    out->seconds = clock_now_s() - begin;
    return ERR_NONE;
}

void check_run_free(struct check_run *run)
{
    judge_close(run->judge);
    findings_free(&run->findings);
    for (size_t i = 0; i < run->case_count; i++)
        free(run->cases[i]);
    free(run->cases);
    free(run->asked);
    *run = (struct check_run){0};
}
