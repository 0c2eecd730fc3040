// SPDX-License-Identifier: Apache-2.0
// A launch that ends badly has crashed in one case: the last that it began or, if that is answered, the next. That case
// alone has no answer; those behind it are launched again, in folders of their own, and their files are moved back.
#include "conformance/run/check_launch.h"

#include "base/err.h"
#include "base/file.h"
#include "base/process/check_folder.h"
#include "base/process/launch.h"
#include "conformance/cases/case_folders.h"
#include "conformance/run/crash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A command does not work if IDLE_MAX launches in a row give no answer, or OVERTIME_MAX in all reach the time limit:
// each of these takes as long as a launch may. No group has more than LAUNCH_MAX.
enum { IDLE_MAX = 3, OVERTIME_MAX = 2, LAUNCH_MAX = 64 };

// One launch: the cases from `first` on, or one alone.
struct attempt {
    struct check_group *group;
    size_t first;
    const struct check_case *alone;  // null: all from `first` on
    int number;                      // of the group's launches, from 1
    int overtime_count;              // of these, those that reached the time limit
    bool timed_out;                  // the last one did
    bool ended_in_usage;             // it ended with status 2, as this program does after bad input
    char reason[256];                // how the last one ended, without the name of its output
    char cases[PATH_MAX], answers[PATH_MAX], output[PATH_MAX], log[CASE_NAME_BYTES + 16];
};

void check_note_failure(struct check_run *run, const char *text)
{
    if (!run->command_failed)
        snprintf(run->command_text, sizeof run->command_text, "%s", text);
    run->command_failed = true;
}

int check_write_order(const char *cases_folder, struct check_case *const cases[], size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(cases[i]->name));
    int rc = case_order_write(cases_folder, list);
    json_decref(list);
    return rc;
}

// Starts the command once. why: how it ended; "": well.
static int start(const struct check_setting *setting, struct check_run *run, struct attempt *attempt,
                 char why[CHECK_WHY_BYTES])
{
    char one_case[PATH_MAX] = "", one_answer[PATH_MAX] = "", reason[256];
    if (attempt->alone) {
        TRY(file_join(attempt->cases, attempt->alone->name, one_case));
        TRY(file_join(attempt->answers, attempt->alone->name, one_answer));
    }
    const struct check_words words = {
        .cases = attempt->cases,
        .answers = attempt->answers,
        .state = attempt->group->state_folder,
        .one_case = attempt->alone ? one_case : NULL,
        .one_answer = attempt->alone ? one_answer : NULL,
        .world = attempt->group->world,
    };
    why[0] = '\0';
    run->launch_count++;
    if (setting->answer)
        return setting->answer(setting->answer_context, &words);
    char **argv;
    TRY(check_command(setting->command, &words, &argv));
    unlink(attempt->output);
    run->progress.done_count = attempt->group->earlier_count + attempt->first;
    run->progress.answers = attempt->answers;
    const struct launch_setting launch_setting = {
        .argv = (const char *const *)argv,
        .output_path = attempt->output,
        .watched_folder = attempt->answers,
        .time_limit_s = setting->time_limit_s,
        .memory_limit_bytes = setting->memory_limit_bytes,
        .output_limit_bytes = setting->output_limit_bytes,
        .counts_sent = setting->counts_sent,
        .interrupted = setting->interrupted,
        .tick = setting->progress ? check_progress_tick : NULL,
        .tick_context = &run->progress,
    };
    struct launch_result result;
    char order[2][FILE_DIGEST_BYTES];
    int rc = check_digest_order(attempt->cases, order[0]);
    if (rc == ERR_NONE)
        rc = launch(&launch_setting, &result);
    free(argv);
    run->progress.answers = NULL;
    TRY(rc);
    attempt->group->changed_order |=
        check_digest_order(attempt->cases, order[1]) != ERR_NONE || memcmp(order[0], order[1], FILE_DIGEST_BYTES) != 0;
    if (result.sum_of_peaks_bytes > run->sum_of_peaks_bytes)
        run->sum_of_peaks_bytes = result.sum_of_peaks_bytes;
    run->sent_is_known = result.sent_is_known;
    run->sent_bytes += result.sent_bytes;
    if (result.end == LAUNCH_INTERRUPTED)
        return err_set(ERR_USAGE, "interrupted");
    attempt->timed_out = result.end == LAUNCH_TIME;
    attempt->overtime_count += attempt->timed_out;
    attempt->ended_in_usage = result.end == LAUNCH_EXITED && result.status == 2;
    if (result.end != LAUNCH_EXITED || result.status != 0) {
        crash_text(attempt->output, reason, sizeof reason);
        snprintf(attempt->reason, sizeof attempt->reason, "%.100s: %.150s", result.text, reason);
        snprintf(why, CHECK_WHY_BYTES, "the command %.150s: %.220s (%.110s)", result.text,
                 reason[0] ? reason : "it printed nothing", attempt->log);
    }
    return ERR_NONE;
}

// The folders of a launch: those of the group for the first one.
static int name_folders(const struct check_setting *setting, struct attempt *attempt)
{
    char name[96], base[PATH_MAX];
    struct check_group *group = attempt->group;
    snprintf(name, sizeof name, attempt->number > 1 ? "%s-%d" : "%s", group->name, attempt->number);
    TRY(file_join(setting->folder, "cases", base));
    TRY(file_join(base, name, attempt->cases));
    TRY(file_join(setting->folder, "answers", base));
    TRY(file_join(base, name, attempt->answers));
    TRY(file_join(setting->folder, "output", base));
    TRY(file_make_folder(base));
    snprintf(attempt->log, sizeof attempt->log, "output/%.80s.txt", name);
    return file_join(setting->folder, attempt->log, attempt->output);
}

// Moves FROM/NAME to TO/NAME, if it is there.
static int move(const char *from, const char *to, const char *name)
{
    char source[PATH_MAX], target[PATH_MAX];
    TRY(file_join(from, name, source));
    TRY(file_join(to, name, target));
    if (rename(source, target) == 0 || errno == ENOENT)
        return ERR_NONE;
    return err_set(ERR_IO, "%s: cannot be moved: %s", source, strerror(errno));
}

static int remove_below(const char *folder, const char *name)
{
    char path[PATH_MAX];
    TRY(file_join(folder, name, path));
    check_folder_remove(path);
    return ERR_NONE;
}

// A saving half begins with an empty folder for its checkpoint.
static int empty_state(const struct attempt *attempt, const struct check_case *c)
{
    char name[CASE_NAME_BYTES], path[PATH_MAX];
    if (c->phase != PHASE_SAVE)
        return ERR_NONE;
    check_whole_name(c, name);
    TRY(file_join(attempt->group->state_folder, name, path));
    check_folder_clear(path);
    return ERR_NONE;
}

// Launches the cases from attempt->first on in folders of their own.
static int start_again(const struct check_setting *setting, struct check_run *run, struct attempt *attempt,
                       char why[CHECK_WHY_BYTES])
{
    struct check_group *group = attempt->group;
    TRY(file_make_folder(attempt->cases));
    TRY(file_make_folder(attempt->answers));
    for (size_t i = attempt->first; i < group->asked_count; i++) {
        TRY(remove_below(group->answers_folder, group->cases[i]->name));
        TRY(empty_state(attempt, group->cases[i]));
        TRY(move(group->cases_folder, attempt->cases, group->cases[i]->name));
    }
    TRY(check_write_order(attempt->cases, group->cases + attempt->first, group->asked_count - attempt->first));
    TRY(start(setting, run, attempt, why));
    for (size_t i = attempt->first; i < group->asked_count; i++) {
        TRY(move(attempt->cases, group->cases_folder, group->cases[i]->name));
        TRY(move(attempt->answers, group->answers_folder, group->cases[i]->name));
    }
    check_folder_remove(attempt->cases);
    check_folder_remove(attempt->answers);
    return ERR_NONE;
}

// begun: the answer's folder is there. refused: the answer is a refusal.
static bool has_answer(const struct check_group *group, const struct check_case *c, bool *begun, bool *refused)
{
    char path[PATH_MAX];
    struct stat status;
    struct answer answer = {0};
    *begun = file_join(group->answers_folder, c->name, path) == ERR_NONE && lstat(path, &status) == 0;
    bool has = *begun && answer_open(c, path, &answer) == ERR_NONE;
    *refused = has && answer.kind == ANSWER_REFUSED;
    answer_close(&answer);
    return has;
}

// The case in which a launch crashed; asked_count: behind the last one. A launch that hangs behind a refusal may hang
// in that case: one rank refuses it, and the others wait. idle: nothing is answered.
static size_t crashed_case(const struct attempt *attempt, bool *idle)
{
    const struct check_group *group = attempt->group;
    size_t crashed = attempt->first;
    *idle = true;
    for (size_t i = attempt->first; i < group->asked_count; i++) {
        bool begun, refused, has = has_answer(group, group->cases[i], &begun, &refused);
        *idle &= !has;
        if (begun)
            crashed = has && !(refused && attempt->timed_out) ? i + 1 : i;
    }
    return crashed;
}

static bool has_begun(const struct attempt *attempt)
{
    bool begun = false, refused;
    for (size_t i = attempt->first; i < attempt->group->asked_count && !begun; i++)
        has_answer(attempt->group, attempt->group->cases[i], &begun, &refused);
    return begun;
}

// True if a launch failed before its first case, as another one of the run did with the same words.
static bool fails_again(struct check_run *run, const struct attempt *attempt)
{
    bool begun = has_begun(attempt), again = !begun && strcmp(run->start_failure, attempt->reason) == 0;
    if (!begun)
        snprintf(run->start_failure, sizeof run->start_failure, "%s", attempt->reason);
    return again;
}

// Notes why the cases from `begin` to before `end` that have no answer have none.
static void note(const struct check_group *group, size_t begin, size_t end, const char *text,
                 char (*why)[CHECK_WHY_BYTES])
{
    bool begun, refused;
    for (size_t i = begin; i < end; i++)
        if (!has_answer(group, group->cases[i], &begun, &refused))
            memcpy(why[i], text, CHECK_WHY_BYTES);
}

static int launch_all(const struct check_setting *setting, struct check_run *run, struct check_group *group,
                      char (*why)[CHECK_WHY_BYTES])
{
    // Where some are set aside, already the first launch has folders of its own.
    struct attempt attempt = {.group = group, .number = group->asked_count < group->count};
    int idle_count = 0;
    while (attempt.first < group->asked_count) {
        char text[CHECK_WHY_BYTES] = "";
        bool idle;
        attempt.number++;
        TRY(name_folders(setting, &attempt));
        TRY(attempt.number > 1 ? start_again(setting, run, &attempt, text) : start(setting, run, &attempt, text));
        if (!text[0])
            return ERR_NONE;
        if (setting->is_plugin && run->launch_count == 1 && attempt.ended_in_usage && !has_begun(&attempt))
            return err_set(ERR_USAGE, "--plugin: %s", crash_text(attempt.output, text, sizeof text));
        size_t crashed = crashed_case(&attempt, &idle);
        idle_count = idle ? idle_count + 1 : 0;
        bool gives_up = fails_again(run, &attempt) || idle_count == IDLE_MAX ||
                        attempt.overtime_count == OVERTIME_MAX || attempt.number == LAUNCH_MAX;
        size_t end = gives_up ? group->asked_count : crashed + 1;
        note(group, crashed, end < group->asked_count ? end : group->asked_count, text, why);
        // A program that cannot stand nonsense has failed to refuse it, which is no failure of the run.
        if (crashed >= group->asked_count || !group->cases[crashed]->expects_refusal)
            check_note_failure(run, text);
        attempt.first = end;
    }
    return ERR_NONE;
}

static int launch_each(const struct check_setting *setting, struct check_run *run, struct check_group *group,
                       char (*why)[CHECK_WHY_BYTES])
{
    struct attempt attempt = {.group = group, .number = 1};
    TRY(name_folders(setting, &attempt));
    for (size_t i = 0; i < group->asked_count; i++) {
        attempt.alone = group->cases[i];
        snprintf(attempt.log, sizeof attempt.log, "output/%s.txt", group->cases[i]->name);
        TRY(file_join(setting->folder, attempt.log, attempt.output));
        TRY(start(setting, run, &attempt, why[i]));
        if (why[i][0] && !group->cases[i]->expects_refusal)
            check_note_failure(run, why[i]);
    }
    return ERR_NONE;
}

int check_launch(const struct check_setting *setting, struct check_run *run, struct check_group *group,
                 char (*why)[CHECK_WHY_BYTES])
{
    bool one_by_one = false;
    for (int i = 0; setting->command[i]; i++)
        one_by_one |= strstr(setting->command[i], "{case}") != NULL;
    return (one_by_one ? launch_each : launch_all)(setting, run, group, why);
}
