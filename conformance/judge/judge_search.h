// SPDX-License-Identifier: Apache-2.0
// The search of the rules that explain the states of an answer.
#pragma once

#include "conformance/judge/judge_internal.h"

// The search over the steps of an answer.
struct search {
    struct trial *trial;
    struct rule_set alive;
    struct rule_set next;      // those of alive that explain the current step
    unsigned char *explained;  // by element of all compared parameters: IN_BODY, IN_TAIL, both, or 0
    size_t element_count;
    const struct check_case *head;  // the trial's case with the first elements of each parameter alone
    size_t head_count;              // elements of all its compared parameters
    int step;
    bool own_norm;       // clips by the norm that the answer reports, where that is right
    bool any_clip;       // tries both forms of clipping, whatever is claimed
    bool short_moments;  // tries the recipes whose moments are kept in blocks of 8 bits, and no others
    bool other_states;   // tries `states`, which are not the claimed ones
    struct rule_states states;
    bool updated;         // some step applied a gradient
    bool failed;          // no rule explains `step`, which is the last one searched
    bool frozen_changed;  // a frozen parameter changed in `step`, which is the last one searched
    // Of the current step: the rule that explains most elements, and the first difference from it.
    size_t best_count;
    struct rule best;
    enum unused_form best_unused;
    struct difference difference;
};

// Searches all steps, and stops at the first that no rule explains or in which a frozen parameter changes; that
// parameter's difference goes to out. The caller sets trial, explained, element_count, head, head_count, states, best,
// best_unused and own_norm; a search may be run again.
int search_steps(struct search *search, struct finding *out);

// After a search that failed: computes the state that the best rule expects, and fills in search->difference.
int search_nearest(struct search *search);
