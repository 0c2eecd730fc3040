// SPDX-License-Identifier: Apache-2.0
// The launches of a group of cases: the command is started again for the cases that a crash has left without an answer.
#pragma once

#include "conformance/run/check.h"

// The cases of one world, which are put to the command together or one by one.
struct check_group {
    int world;
    bool resumes;                 // resuming halves, which need the state of the saving ones
    struct check_case **cases;    // in the order in which they are asked
    size_t count, earlier_count;  // its cases, and those of the groups before it
    size_t asked_count;           // the first cases, which are put to the command (check_set_aside)
    char name[64];                // of its folders: "w2", "w2-resume"
    char cases_folder[PATH_MAX], answers_folder[PATH_MAX], state_folder[PATH_MAX];
    bool changed_order;  // a launch has changed the list of its cases
};

enum { CHECK_WHY_BYTES = FINDING_TEXT_BYTES };

// Launches the command for the cases of a group that are asked, whose folders exist. why: [count], for each case how
// the launch ended that should have answered it; "": well, or with another case. ERR_USAGE: the command cannot be
// started, or was interrupted.
int check_launch(const struct check_setting *setting, struct check_run *run, struct check_group *group,
                 char (*why)[CHECK_WHY_BYTES]);

// The digest of each case's files before a launch, and the reason why it has no answer after it: [count] of the group.
struct check_asked {
    char (*digest)[FILE_DIGEST_BYTES];
    char (*why)[CHECK_WHY_BYTES];
};

// Before the launches of a group: puts the resuming halves whose saving half has no answer behind the others, and notes
// that as the reason why these have none. They are not asked.
void check_set_aside(const struct check_setting *setting, const struct check_run *run, struct check_group *group,
                     struct check_asked *asked);

// Judges what the launches of a group left, on all processors where there are cases enough; the findings are in the
// order of the cases. Of the run it uses its cases and its judge, so that other groups may be launched meanwhile.
// change: the first that the command made in the cases; "": none.
int check_judge(const struct check_setting *setting, const struct check_run *run, const struct check_group *group,
                const struct check_asked *asked, char change[FINDING_TEXT_BYTES]);

// A check does not slow what it checks. The ranks of a launch yield to each other, and would wait for the slice of a
// thread that writes or judges each time; so these take short slices, and are SCHED_IDLE while a launch is under way if
// the system lets threads leave that again (RLIMIT_NICE, CAP_SYS_NICE).
bool check_can_give_way(void);
void check_give_way(const struct check_run *run);  // for such a thread, before each case
void check_end_launching(struct check_run *run);   // `launching` is over: none waits for a processor any more

// Writes CASES/order.json of the cases in a list.
int check_write_order(const char *cases_folder, struct check_case *const cases[], size_t count);

// The run fails, whatever is judged; the first text stays.
void check_note_failure(struct check_run *run, const char *text);
