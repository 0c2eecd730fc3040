// SPDX-License-Identifier: Apache-2.0
// The requirements of SPEC.md, which is compiled in: the one list of what is demanded, of the check that tests each,
// and of the mutants that break it.
#ifndef ZG_REQUIREMENT_H
#define ZG_REQUIREMENT_H

#include "conformance/cases/case.h"

// What a check looks at in an answer.
enum aspect {
    ASPECT_ANSWER,    // it is there and well-formed
    ASPECT_STATE,     // param, exp_avg, exp_avg_sq and t, against unsharded Adam
    ASPECT_GRADIENT,  // grad, against unsharded Adam
    ASPECT_NORM,
    ASPECT_DECISION,  // skipped, loss_scale, t
    ASPECT_SEEN,      // the parameter as each forward used it, on every rank
    ASPECT_SAME,      // its twins end every step in the same bits
    ASPECT_REPEAT,    // a case given twice is answered twice alike
    ASPECT_RULE,      // one rule explains all answers
    ASPECT_MEMORY,    // model states held, by kind
    ASPECT_PADDING,   // what is held beyond them
    ASPECT_TRAFFIC,   // bytes sent, by purpose
    ASPECT_CALLS,     // collectives
    ASPECT_REFUSAL,
    ASPECT_COUNT
};

const char *aspect_name(enum aspect aspect);  // "state"

enum { REQUIREMENT_PATTERN_MAX = 8, REQUIREMENT_MUTANT_MAX = 16 };

// How many a SPEC.md may have.
enum { REQUIREMENT_MAX = 128 };

struct requirement {
    char id[CASE_REQUIREMENT_BYTES];  // "R-RED-04"
    const char *title;
    bool must;          // false: SHOULD
    const char *group;  // the chapter's title
    const char *text;   // the whole block, as in SPEC.md; text_bytes of it
    size_t text_bytes;
    unsigned aspects;  // bits 1 << enum aspect
    int pattern_count, mutant_count;
    char patterns[REQUIREMENT_PATTERN_MAX][CASE_NAME_BYTES];  // of case names, as a shell's
    char mutants[REQUIREMENT_MUTANT_MAX][CASE_NAME_BYTES];
};

// In the order of SPEC.md; null past the end. The list is made once, on first use, from any thread. A SPEC.md that
// cannot be parsed is a broken build: the first call says so and ends in ERR_INTERNAL from requirement_check.
const struct requirement *requirement_at(int index);
const struct requirement *requirement_find(const char *id);
int requirement_check(void);

// Whether a requirement's check looks at a case, by the part of its name before the first '.' or '~'.
bool requirement_covers(const struct requirement *requirement, const char *case_name);

// Fills in a case's list of requirements.
void requirement_list(struct check_case *c);

#endif
