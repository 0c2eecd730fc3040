// SPDX-License-Identifier: Apache-2.0
// The answers of a group are judged in parts, each by a thread and a judge of its own, which are joined in the order of
// the cases. What one answer teaches about others is learned before they are shared out.
#include "conformance/run/check_launch.h"
#include "conformance/run/check_select.h"

#include "base/err.h"
#include "base/file.h"
#include "base/processor.h"
#include "base/resources.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_MAX = 16, PART_CASES_LEAST = 8 };

static bool set_policy(pid_t thread, int policy)
{
    return sched_setscheduler(thread, policy, &(struct sched_param){0}) == 0;
}

static void *try_idle(void *could)
{
    *(bool *)could = set_policy(0, SCHED_IDLE) && set_policy(0, SCHED_OTHER);
    return NULL;
}

bool check_can_give_way(void)
{
    pthread_t thread;
    bool could = false;
    if (sched_getscheduler(0) == SCHED_OTHER && pthread_create(&thread, NULL, try_idle, &could) == 0)
        pthread_join(thread, NULL);
    return could;
}

void check_give_way(const struct check_run *run)
{
    bool launching;
    do {
        launching = run->launching;
        if (run->gives_way)
            set_policy(0, launching ? SCHED_IDLE : SCHED_OTHER);
    } while (launching != run->launching);
}

void check_end_launching(struct check_run *run)
{
    DIR *threads = run->gives_way ? opendir("/proc/self/task") : NULL;
    run->launching = false;
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (sched_getscheduler(atoi(entry->d_name)) == SCHED_IDLE)
            set_policy(atoi(entry->d_name), SCHED_OTHER);
    if (threads)
        closedir(threads);
}

static int open_answer(const struct check_setting *setting, const struct check_case *c, bool resumes,
                       struct answer *out)
{
    char path[PATH_MAX], rest[CASE_NAME_BYTES + 64];
    snprintf(rest, sizeof rest, "answers/w%d%s/%s", c->world, resumes ? "-resume" : "", c->name);
    TRY(file_join(setting->folder, rest, path));
    return answer_open(c, path, out);
}

void check_set_aside(const struct check_setting *setting, const struct check_run *run, struct check_group *group,
                     struct check_asked *asked)
{
    group->asked_count = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct check_case *c = group->cases[i];
        const struct check_case *first = group->resumes ? check_other_half(run, c) : NULL;
        struct answer saved = {0};
        bool is_asked = !first || open_answer(setting, first, false, &saved) == ERR_NONE;
        char digest[FILE_DIGEST_BYTES];
        answer_close(&saved);
        if (!is_asked)
            continue;
        size_t to = group->asked_count++;
        group->cases[i] = group->cases[to];
        group->cases[to] = c;
        memcpy(digest, asked->digest[i], sizeof digest);
        memcpy(asked->digest[i], asked->digest[to], sizeof digest);
        memcpy(asked->digest[to], digest, sizeof digest);
    }
    for (size_t i = group->asked_count; i < group->count; i++)
        snprintf(asked->why[i], sizeof asked->why[i], "the saving half of the case has no answer");
}

// Cases of a group, and who judges them.
struct part {
    const struct check_setting *setting;
    const struct check_run *run;
    const struct check_group *group;
    const struct check_asked *asked;
    size_t begin, end;
    struct judge *judge;
    struct findings findings;  // of the judge
    pthread_t thread;
    char change[FINDING_TEXT_BYTES];  // the first that the command made in the cases; "": none
    int rc;
    char message[ERR_MESSAGE_BYTES];
};

static int judge_one(const struct part *part, const struct check_case *c, const char *why)
{
    const struct check_setting *setting = part->setting;
    struct answer answer = {0}, saved = {0};
    struct case_values *values = NULL;
    bool resumes = part->group->resumes;
    int rc = open_answer(setting, c, resumes, &answer);
    if (rc != ERR_NONE) {
        char text[FINDING_TEXT_BYTES];
        snprintf(text, sizeof text, "%s", why[0] ? why : err_message());
        answer_close(&answer);
        return judge_without(part->judge, c, VERDICT_BROKEN, text);
    }
    const struct check_case *first = resumes ? check_other_half(part->run, c) : NULL;
    bool has_saved = first && open_answer(setting, first, false, &saved) == ERR_NONE && saved.kind == ANSWER_STATES;
    if (first && !has_saved && saved.kind == ANSWER_UNSUPPORTED) {
        rc = judge_absent(part->judge, c, ABSENT_DECLINED, 0, "the saving half of the case was declined");
    } else {
        rc = check_values(setting->source, c, &values);
        if (rc == ERR_NONE)
            rc = judge_answer(part->judge, c, values, &answer, has_saved ? &saved : NULL);
    }
    case_values_close(values);
    answer_close(&saved);
    answer_close(&answer);
    return rc;
}

// "" if the command left a case as it was; otherwise what it changed.
static void find_change(const struct part *part, size_t i, char out[FINDING_TEXT_BYTES])
{
    const struct check_group *group = part->group;
    char digest[FILE_DIGEST_BYTES];
    out[0] = '\0';
    if (check_digest_case(group->cases[i], group->cases_folder, digest) != ERR_NONE ||
        memcmp(digest, part->asked->digest[i], sizeof digest) != 0)
        snprintf(out, FINDING_TEXT_BYTES, "the command changed the case %s", group->cases[i]->name);
    else if (group->changed_order)
        snprintf(out, FINDING_TEXT_BYTES, "the command changed {cases}/order.json");
}

static int judge_cases(struct part *part)
{
    for (size_t i = part->begin; i < part->end; i++) {
        char change[FINDING_TEXT_BYTES];
        if (part->setting->interrupted && *part->setting->interrupted)
            return err_set(ERR_USAGE, "interrupted");
        check_give_way(part->run);
        find_change(part, i, change);
        if (!part->change[0])
            memcpy(part->change, change, sizeof change);
        TRY(change[0] ? judge_without(part->judge, part->group->cases[i], VERDICT_BROKEN, change)
                      : judge_one(part, part->group->cases[i], part->asked->why[i]));
    }
    return ERR_NONE;
}

static void *judge_part(void *context)
{
    struct part *part = context;
    processor_short_slices();
    part->rc = judge_cases(part);
    snprintf(part->message, sizeof part->message, "%s", err_message());
    return NULL;
}

// Judges cases of which none teaches about another.
static int judge_shared(struct part *whole)
{
    struct part parts[PART_MAX];
    size_t cases = whole->end - whole->begin, most = cases / PART_CASES_LEAST;
    int processors = resources_processor_count(), count = processors < PART_MAX ? processors : PART_MAX, made = 0;
    int rc = ERR_NONE;
    count = (size_t)count > most ? (int)most : count;
    if (count < 2)
        return judge_cases(whole);
    for (; made < count; made++) {
        struct part *part = &parts[made];
        *part = *whole;
        part->findings = (struct findings){0};
        part->begin = whole->begin + cases * (size_t)made / (size_t)count;
        part->end = whole->begin + cases * (size_t)(made + 1) / (size_t)count;
        rc = judge_open_part(whole->judge, &part->findings, &part->judge);
        if (rc == ERR_NONE && pthread_create(&part->thread, NULL, judge_part, part) != 0)
            rc = err_set(ERR_MEMORY, "no thread to judge answers: raise the limit of processes (ulimit -u)");
        if (rc != ERR_NONE) {
            judge_close(part->judge);
            break;
        }
    }
    for (int i = 0; i < made; i++) {
        struct part *part = &parts[i];
        pthread_join(part->thread, NULL);
        if (rc == ERR_NONE && part->rc != ERR_NONE)
            rc = err_set(part->rc, "%s", part->message);
        if (rc == ERR_NONE)
            rc = judge_join(whole->judge, part->judge);
        if (!whole->change[0])
            memcpy(whole->change, part->change, sizeof part->change);
        judge_close(part->judge);
        findings_free(&part->findings);
    }
    return rc;
}

int check_judge(const struct check_setting *setting, const struct check_run *run, const struct check_group *group,
                const struct check_asked *asked, char change[FINDING_TEXT_BYTES])
{
    struct part part = {.setting = setting, .run = run, .group = group, .asked = asked, .judge = run->judge};
    int rc = ERR_NONE;
    while (rc == ERR_NONE && part.end < group->count) {
        part.begin = part.end;
        if (judge_learns(run->judge, group->cases[part.end])) {
            part.end++;
            rc = judge_cases(&part);
            continue;
        }
        while (part.end < group->count && !judge_learns(run->judge, group->cases[part.end]))
            part.end++;
        rc = judge_shared(&part);
    }
    memcpy(change, part.change, sizeof part.change);
    return rc;
}
