// SPDX-License-Identifier: Apache-2.0
// The reference as an implementation under test: it answers cases from their files alone, as any other does.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/unsharded/rule.h"
#include "ref/config/config.h"
#include "ref/executor/executor.h"

#include <signal.h>

struct reference_options {
    const char *recipe;  // null: torch-cpu, or deepspeed-cpu-clang where torch has no such option
    enum clip_form clip_form;
    struct claimed_states states;
    int reduction_group;  // ranks in a group of hierarchical sums, where the world is a multiple; 0: canonical order
    bool has_schedule;    // false: overlap where the case hints at it, otherwise serial
    struct executor_schedule schedule;
    const char *nvme_path;                     // null: the folder of states, or TMPDIR, or /tmp
    struct comm *comm;                         // of the processes that a launcher started; null: ranks are threads
    const volatile sig_atomic_t *interrupted;  // nonzero: stop before the next case; may be null
};

// Answers the case in case_folder; makes answer_folder if it is missing, which must be empty. world: the expected
// number of ranks; 0: any. state: {state}, or null. Declining or refusing a case is an answer, too. An error leaves the
// answer incomplete.
//
// Processes of a launcher all answer the same cases together; rank 0 writes everything that is not a rank's own.
int reference_answer(const struct reference_options *options, const char *case_folder, const char *answer_folder,
                     int world, const char *state);

// Answers the cases of `world` ranks in CASES/order.json, in that order, and skips the others. An error is printed with
// the case's name, and the next case follows; ERR_CHECK at the end counts the errors. ERR_USAGE: no case has `world`
// ranks. progress: to stderr.
int reference_answer_all(const struct reference_options *options, const char *cases, const char *answers, int world,
                         const char *state, bool progress);

// `zerogauge answer`
int answer_main(int argc, const char **argv);

// --- the parts ---

// True if tensor ranks, pipeline stages or experts cut the model: mesh_ranks.h answers it.
bool reference_cuts_model(const struct check_case *c);

// The reference's configuration for a case.
struct reference_config {
    struct config config;
    struct config_group groups[CASE_GROUP_MAX];
};

// The configuration of a case, through the text that a user of DeepSpeed would write, so that what is refused is what
// the program refuses. before_steps as in scripted_model.h. c must outlive *out. ERR_USAGE: it is refused, or, with
// *unsupported, nothing that the reference can do.
int reference_config(const struct check_case *c, const struct reference_options *options, const char *nvme_path,
                     int before_steps, struct reference_config *out, bool *unsupported);

// Writes an answer's files while the run goes on.
struct reference_report;
struct train_moment;
struct scripted;

// c and given outlive it. comm: as in reference_options; with it, the report's calls are collective.
int reference_report_open(const struct check_case *c, const struct scripted *scripted, const char *folder,
                          int before_steps, struct comm *comm, struct reference_report **out);
int reference_report_observe(struct reference_report *report, const struct train_moment *moment);  // train.h
int reference_report_usage(struct reference_report *report);   // after the last step
void reference_report_close(struct reference_report *report);  // null-safe
