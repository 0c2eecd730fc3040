// SPDX-License-Identifier: Apache-2.0
// The reference behind the suite's door: it answers cases as any other implementation does, from a case's files alone.
#ifndef ZG_REFERENCE_H
#define ZG_REFERENCE_H

#include "conformance/cases/case.h"
#include "ref/config/config.h"
#include "ref/executor/executor.h"

#include <signal.h>

struct reference_options {
    const char *recipe;  // null: torch-cpu, or deepspeed-cpu-clang for what torch has not
    enum clip_form clip_form;
    int reduction_group;  // ranks in a group of hierarchical sums, where the world is a multiple; 0: canonical order
    bool has_schedule;    // false: overlap where the case hints at it, otherwise serial
    struct executor_schedule schedule;
    const char *nvme_path;  // null: the folder of states, or TMPDIR, or /tmp
    struct comm *comm;      // of the ranks that a launcher has started, of which this process is one; null: threads
    const volatile sig_atomic_t *interrupted;  // then no further case is answered; may be null
};

// Answers the case in the folder with a folder, which is made if need be and must be empty. world: the case's; 0:
// whatever that is. state: {state}; null where there is none. What the reference cannot do, or refuses, is an answer,
// too. An error leaves the answer incomplete.
int reference_answer(const struct reference_options *options, const char *case_folder, const char *answer_folder,
                     int world, const char *state);

// Of processes all answer the same cases together, and rank 0 writes what is not a rank's own.
//
// The same for all cases of the list in CASES/order.json, in that order. An error is printed with the case's name and
// ends nothing; at the end there is one that says how many there were. world: of every case. progress: to stderr.
int reference_answer_all(const struct reference_options *options, const char *cases, const char *answers, int world,
                         const char *state, bool progress);

// `zerogauge answer`
int answer_main(int argc, const char **argv);

// --- the parts ---

// A case as the reference is configured for it.
struct reference_config {
    struct config config;
    struct config_group groups[CASE_GROUP_MAX];
};

// The configuration of a case, through the text that a user of DeepSpeed would write, so that what is refused is what
// the program refuses. before_steps as in given.h. c must outlive *out. ERR_USAGE: it is refused, or, with
// *unsupported, nothing that the reference can do.
int reference_config(const struct check_case *c, const struct reference_options *options, const char *nvme_path,
                     int before_steps, struct reference_config *out, bool *unsupported);

// An answer's files, made as a run goes on.
struct reference_report;
struct train_moment;
struct scripted;

// c and given outlive it. comm: as in reference_options; with it, the report's calls are collective.
int reference_report_open(const struct check_case *c, const struct scripted *scripted, const char *folder,
                          int before_steps, struct comm *comm, struct reference_report **out);
int reference_report_observe(struct reference_report *report, const struct train_moment *moment);  // train.h
int reference_report_usage(struct reference_report *report);   // when the run is over
void reference_report_close(struct reference_report *report);  // null-safe

#endif
