// SPDX-License-Identifier: Apache-2.0
// What the judge's parts share.
#ifndef ZG_JUDGE_INTERNAL_H
#define ZG_JUDGE_INTERNAL_H

#include "conformance/judge/judge.h"

// One answer under judgement.
struct trial {
    const struct check_case *c;
    const struct case_values *values;
    const struct answer *answer;
    const struct answer *saved;  // null: the answer begins with the case's own state
    const struct judge_options *options;
    struct unsharded_decision *decisions;  // of step K: [K - 1]
    struct unsharded_state start;          // before the first step that the answer speaks of
    struct unsharded_state before, after;  // of the step being judged: the answer's own
    struct unsharded_state expected;       // room
    float *gradient[CASE_PARAM_MAX];       // [count], as trial_gradient left it
    int gradient_step;                     // of which it is; 0: of none
    struct rule gradient_rule;
    struct unsharded_choice gradient_choice;
    struct answer_step step;  // what the answer says of it
};

// Sets before and after, and reads the step; the steps are asked for in order.
int trial_step(struct trial *trial, int step);

// Fills in the mean gradient of a step under a rule, unless it is there.
int trial_gradient(struct trial *trial, const struct rule *rule, const struct unsharded_choice *choice, int step);

// Bits that are the same value: of equal bits, zeros of either sign, or NaN both.
bool value_same(float a, float b);

// Whether a parameter's state is compared with Adam's: trained, and used or not.
static inline bool trial_compares(const struct trial *trial, int param)
{
    return case_is_trained(trial->c, param);
}

// Which of a recipe's two sequences an element has followed. It is a matter of where the element lies, so that it is
// the same in every step.
enum { IN_BODY = 1, IN_TAIL = 2 };

// The rules that explain an answer; kept by the judge to see whether one explains all.
struct rule_set {
    struct rule *rules;
    unsigned char *leaves_unused;  // by rule: whether it leaves unused parameters alone
    unsigned char **sequences;     // by rule: by compared element IN_BODY, IN_TAIL, or 0 where no step has told; null
                                   // for a recipe without a tail, and before the first update
    size_t count;
};

// Adds a copy of a rule; takes over `sequences`, which may be null, also in case of an error.
int rule_set_add(struct rule_set *set, const struct rule *rule, bool leaves_unused, unsigned char *sequences);
void rule_set_clear(struct rule_set *set);  // forgets the rules and keeps the memory for them
void rule_set_free(struct rule_set *set);

// What is kept of a judged answer, to compare it with its twins: a digest of the state after each step.
struct kept {
    const struct check_case *c;
    uint64_t digests[CASE_STEP_MAX][2];  // by step, [step - 1]
    struct rule_set explained;
    bool follows_no_rule;  // it is BOUNDED; one that FAILs is wrong, and tells nothing about the rule
};

struct judge {
    struct judge_options options;
    struct findings *findings;
    struct kept *kept;
    size_t kept_count;
    char (*rules)[512];  // by placement, for people
    int rule_count;
};

// Compares each case given twice with its first answer, and each case with the first of its twins that answers the same
// steps. After all answers are kept.
int judge_twins(struct judge *judge);

// Adds a finding for each answer that follows a rule of the table, or none: one rule must explain all. After all
// answers are kept.
int judge_rules(struct judge *judge);

// State: sets *out to the finding, and `explained` to the rules that explain every step (none where the verdict is
// BOUNDED or worse, or nothing was ever updated).
int judge_state(struct trial *trial, struct finding *out, struct rule_set *explained);

// The answer follows no rule: is every link of every step within its limit all the same? Sets the verdict to BOUNDED or
// FAIL, and adds the worst of each link to the text.
int judge_by_links(struct trial *trial, struct finding *out);

// Gradient and norm, where the answer has them; `explained` as judge_state found it.
int judge_gradient(struct trial *trial, const struct rule_set *explained, struct finding *out);
int judge_norm(struct trial *trial, struct finding *out);

int judge_decision(struct trial *trial, struct finding *out);
int judge_seen(struct trial *trial, struct finding *out);

// aspect: memory, padding, traffic or calls.
void judge_usage(const struct trial *trial, enum aspect aspect, struct finding *out);

// The likeliest kind of bug behind a difference of states: trial->before, after and expected are those of its step, and
// gradient the expected one, times the clip coefficient.
enum hint diagnose_state(const struct trial *trial, const struct rule *rule, const struct difference *difference);

// The same where an answer's state is right and the gradient that it tells is not: trial->step is of the difference's
// step, and trial->gradient the right one.
enum hint diagnose_reported_gradient(const struct trial *trial, const struct rule *rule,
                                     const struct difference *difference);

#endif
