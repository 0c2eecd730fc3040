// SPDX-License-Identifier: Apache-2.0
// A run of the suite: writes the cases, launches a command for each world, which answers them, and judges the answers.
#pragma once

#include "conformance/suite/covering.h"
#include "conformance/suite/suite.h"
#include "base/file.h"
#include "conformance/judge/judge.h"
#include "conformance/run/check_progress.h"

#include <signal.h>
#include <stdatomic.h>

struct claims;

// A selection of the suite.
struct check_part {
    struct suite_choice choice;
    // Shell patterns of whole names, such as "@(adam|off)-*", and requirements, NULL at the end: only cases that match
    // one of the patterns and serve one of the requirements. Null: all.
    const char *const *case_patterns, *const *requirements;
    unsigned options;  // 1 << enum case_option: cases that need others are left out
    int world;         // check_run alone: only cases, and pairs, of this many ranks; 0: all
};

// A case's name without the ending of its half, ".save" or ".resume".
void check_whole_name(const struct check_case *c, char out[CASE_NAME_BYTES]);

// Calls visit for every case of a part, as suite_cases does. ERR_USAGE: the requirement does not exist, or no case
// matches.
int check_cases(const struct check_part *part, int (*visit)(void *context, const struct check_case *c), void *context);

// Cases that do not come from the suite.
struct check_source {
    // Calls visit for each of them, as suite_cases does.
    int (*cases)(void *context, int (*visit)(void *visit_context, const struct check_case *c), void *visit_context);
    // Their numbers, which the caller closes. c: a copy of a case, or of one with "~2" behind its name.
    int (*values)(void *context, const struct check_case *c, struct case_values **out);
    void *context;
};

// The numbers of a case of the source; null: of the suite.
int check_values(const struct check_source *source, const struct check_case *c, struct case_values **out);

// Makes FOLDER/NAME with all files of a case; FOLDER exists, and NAME does not.
int check_write_case(const struct check_case *c, const char *folder);

// The same for a case of the source (null: of the suite), as the command under test sees it: case.json does not tell
// the right answer.
int check_ask_case(const struct check_source *source, const struct check_case *c, const char *folder);

// Digests all these files together. ERR_CHECK: one of them is missing.
int check_digest_case(const struct check_case *c, const char *folder, char digest[FILE_DIGEST_BYTES]);

// Digests FOLDER/order.json. ERR_CHECK: it is missing.
int check_digest_order(const char *folder, char digest[FILE_DIGEST_BYTES]);

struct check_words;

struct check_setting {
    struct check_part part;
    const struct check_source *source;  // null: the suite; otherwise `part` is ignored
    bool once;                          // no case is asked twice
    const struct claims *claims;        // null: everything is claimed
    const char *const *command;  // with {cases}, {answers}, {world}, {state}; or {case}, {answer}. NULL at the end
    bool is_plugin;  // the command is `zerogauge answer --plugin`, which cannot be judged if that does not load
    // Answers a launch's cases in place of the command, in this process; null: the command is started.
    int (*answer)(void *context, const struct check_words *words);
    void *answer_context;
    const char *folder;                               // an empty folder for cases, answers, state and output
    uint64_t seed;                                    // of the order
    double time_limit_s;                              // of a launch without a new file of answers (launch.h); 0: none
    uint64_t memory_limit_bytes, output_limit_bytes;  // of a launch; 0: none
    bool progress;                                    // on stderr
    bool counts_sent;                                 // over TCP, by the launched processes
    const volatile sig_atomic_t *interrupted;         // may be null
};

struct check_run {
    struct findings findings;
    struct judge *judge;
    struct check_case **cases;  // owned
    bool *asked;                // by case: false where it is not claimed
    size_t case_count, case_room;
    bool covers;               // the whole level is asked, so that coverage says something
    struct coverage coverage;  // of the factors, within the claims, by the cases that are asked
    struct check_progress progress;
    size_t launch_count;
    uint64_t sum_of_peaks_bytes;  // the largest of any launch (launch.h)
    bool sent_is_known;           // of a setting with counts_sent
    uint64_t sent_bytes;          // by all launches
    bool command_failed;          // a launch ended other than with status 0, or the cases were changed
    char command_text[FINDING_TEXT_BYTES];
    char start_failure[256];  // the reason of the last launch that began no case
    bool gives_way;           // check_can_give_way
    atomic_bool launching;    // a launch is under way
    double seconds;
};

// ERR_USAGE: no case matches, the command has no {cases} or cannot be started, the plug-in cannot be loaded, or the run
// was interrupted. A mistake of the command is a finding, not an error. Call check_run_free in every case.
int check_run(const struct check_setting *setting, struct check_run *out);
void check_run_free(struct check_run *run);

// Values for {cases}, {answers} and the other placeholders of a command.
struct check_words {
    const char *cases, *answers, *state, *one_case, *one_answer;
    int world;
};

// The command with its placeholders replaced: [count + 1] strings, NULL at the end, in one allocation.
int check_command(const char *const *command, const struct check_words *words, char ***out);

// The words of a text, which quotes them as a shell does, before a command's; null: none. In one allocation.
int check_command_wrap(const char *text, const char *const *command, char ***out);

// `zerogauge check`
int check_main(int argc, const char **argv);
