// SPDX-License-Identifier: Apache-2.0
// The launches of a run: writes each launch's cases, runs the command, and judges its answers while the next one runs.
#include "conformance/run/check_launch.h"
#include "conformance/run/check_select.h"

#include "base/clock.h"
#include "conformance/claims/claims.h"
#include "base/err.h"
#include "base/file.h"
#include "base/processor.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <jansson.h>
#include <pthread.h>
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

// A group on its way. It is written while the one before it is launched, is launched by the run's thread, and is judged
// after the one before it, while others are launched.
struct turn {
    const struct check_setting *setting;
    struct check_run *run;
    struct check_group group;
    struct check_asked asked;
    char change[FINDING_TEXT_BYTES];  // of check_judge
    struct turn *before;              // null: the first
    pthread_t writer, judge;
    bool is_written, is_judged;  // or being: there is a thread to join
    int rc;
    char message[ERR_MESSAGE_BYTES];
};

// Writes the cases, and makes the folders in which both halves of a pair find one another's checkpoint.
static int write_cases(struct turn *turn)
{
    char name[CASE_NAME_BYTES], state[PATH_MAX];
    struct check_group *group = &turn->group;
    TRY(make_folders(turn->setting, group));
    turn->asked =
        (struct check_asked){calloc(group->count, sizeof *turn->asked.digest), calloc(group->count, CHECK_WHY_BYTES)};
    if (!turn->asked.digest || !turn->asked.why)
        return err_set(ERR_MEMORY, "no memory for %zu cases", group->count);
    for (size_t i = 0; i < group->count; i++) {
        check_give_way(turn->run);
        if (group->cases[i]->phase != PHASE_WHOLE) {
            check_whole_name(group->cases[i], name);
            TRY(file_join(group->state_folder, name, state));
            TRY(file_make_folder(state));
        }
        TRY(check_ask_case(turn->setting->source, group->cases[i], group->cases_folder));
        TRY(check_digest_case(group->cases[i], group->cases_folder, turn->asked.digest[i]));
    }
    return check_write_order(group->cases_folder, group->cases, group->count);
}

static void *write_turn(void *context)
{
    struct turn *turn = context;
    processor_short_slices();
    turn->rc = write_cases(turn);
    snprintf(turn->message, sizeof turn->message, "%s", err_message());
    return NULL;
}

static void *judge_turn(void *context)
{
    struct turn *turn = context;
    processor_short_slices();
    if (turn->before)
        pthread_join(turn->before->judge, NULL);
    turn->rc = check_judge(turn->setting, turn->run, &turn->group, &turn->asked, turn->change);
    snprintf(turn->message, sizeof turn->message, "%s", err_message());
    return NULL;
}

static int begin(struct turn *turn, void *work(void *turn), pthread_t *thread, bool *begun)
{
    *begun = pthread_create(thread, NULL, work, turn) == 0;
    return *begun ? ERR_NONE
                  : err_set(ERR_MEMORY, "no thread for a launch's cases: raise the limit of processes "
                                        "(ulimit -u)");
}

static int await_written(struct turn *turn)
{
    if (turn->is_written)
        pthread_join(turn->writer, NULL);
    turn->is_written = false;
    return turn->rc == ERR_NONE ? ERR_NONE : err_set(turn->rc, "%s", turn->message);
}

static int launch_turn(struct turn *turn)
{
    struct check_run *run = turn->run;
    run->progress.done_count = turn->group.earlier_count;
    run->progress.world = turn->group.world;
    if (turn->setting->progress)
        check_progress_tick(&run->progress, 0);
    check_set_aside(turn->setting, run, &turn->group, &turn->asked);
    run->launching = true;
    int rc = check_launch(turn->setting, run, &turn->group, turn->asked.why);
    check_end_launching(run);
    return rc;
}

static int take_turns(struct turn turns[], int count)
{
    TRY(begin(&turns[0], write_turn, &turns[0].writer, &turns[0].is_written));
    for (int i = 0; i < count; i++) {
        struct turn *turn = &turns[i], *next = i + 1 < count ? turn + 1 : NULL;
        TRY(await_written(turn));
        if (next)
            TRY(begin(next, write_turn, &next->writer, &next->is_written));
        TRY(launch_turn(turn));
        TRY(begin(turn, judge_turn, &turn->judge, &turn->is_judged));
    }
    return ERR_NONE;
}

// Waits for what is still written and judged. rc: of the launches; the first error stays.
static int end_turns(struct turn turns[], int count, int rc)
{
    struct turn *last = NULL;
    for (int i = 0; i < count; i++) {
        if (turns[i].is_written)
            pthread_join(turns[i].writer, NULL);
        if (turns[i].is_judged)
            last = &turns[i];
    }
    if (last)
        pthread_join(last->judge, NULL);
    for (int i = 0; i < count; i++) {
        struct turn *turn = &turns[i];
        if (turn->change[0])
            check_note_failure(turn->run, turn->change);
        if (rc == ERR_NONE && turn->rc != ERR_NONE)
            rc = err_set(turn->rc, "%s", turn->message);
        free(turn->asked.digest);
        free(turn->asked.why);
        free(turn->group.cases);
    }
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
    enum { TURN_MAX = 2 * CASE_WORLD_MAX };
    struct turn *turns = calloc(TURN_MAX, sizeof *turns);
    if (!turns)
        return err_set(ERR_MEMORY, "no memory for %d launches", TURN_MAX);
    size_t done = 0;
    int count = 0, rc = ERR_NONE;
    run->progress.begin_s = run->progress.shown_s = clock_now_s();
    for (size_t i = 0; i < run->case_count; i++)
        run->progress.all_count += run->asked[i];
    run->gives_way = check_can_give_way();
    for (int resumes = 0; resumes < 2; resumes++)
        for (int world = 1; world <= CASE_WORLD_MAX && rc == ERR_NONE; world++) {
            struct turn *turn = &turns[count];
            *turn = (struct turn){
                .setting = setting,
                .run = run,
                .group = {.world = world, .resumes = resumes, .earlier_count = done},
                .before = count > 0 ? turn - 1 : NULL,
            };
            rc = fill_group(setting, run, &turn->group);
            done += turn->group.count;
            if (turn->group.count > 0)
                count++;
            else
                free(turn->group.cases);
        }
    if (rc == ERR_NONE && count > 0)
        rc = take_turns(turns, count);
    rc = end_turns(turns, count, rc);
    free(turns);
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
