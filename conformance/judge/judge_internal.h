// SPDX-License-Identifier: Apache-2.0
// The judge: types and functions that its parts share.
#pragma once

#include "conformance/judge/judge.h"

#include <math.h>

struct rule_set;

// The mean gradient of a step under a rule and one choice of the order of its sums.
struct trial_gradient {
    bool is_made;
    float *of[CASE_PARAM_MAX];  // [count]; null: no memory yet, or not trained
    double norm;
};

// One answer, and the state of judging it.
struct trial {
    const struct check_case *c;  // as its data ranks see it: what is judged is unsharded. answer->c has the mesh
    const struct case_values *values;
    const struct answer *answer;
    const struct answer *saved;  // null: the answer begins with the case's own state
    const struct judge_options *options;
    struct rule_states states;             // as claimed
    struct unsharded_decision *decisions;  // of step K: [K - 1]
    struct unsharded_state start;          // before the answer's first step
    struct unsharded_state before, after;  // the answer's own states around the current step
    struct unsharded_state expected;       // scratch
    float **gradient;                      // by parameter, [count]: the result of trial_gradient
    double gradient_norm;                  // of it
    struct trial_gradient *gradients;      // by the choice of order: of gradient_step under gradient_rule
    int gradient_step;                     // 0: none
    struct rule gradient_rule;
    struct answer_step *steps;         // the answer's data: [K - 1] of step K, once it is read
    uint64_t read;                     // bit K - 1: it is
    struct answer_step step;           // those of the current step
    const struct rule_set *explained;  // after the states are judged
};

// The caller sets c, values, answer, saved and options, and closes the trial, also after an error.
int trial_open(struct trial *trial);
void trial_close(struct trial *trial);

// The answer's data of a step, which live as long as the trial.
int trial_read(struct trial *trial, int step, const struct answer_step **out);

// Sets step, before and after. Called with the steps in order, from the first.
int trial_step(struct trial *trial, int step);

// Points trial->gradient to the mean gradient of a step under a rule, which is made if it is not the last rule's.
int trial_gradient(struct trial *trial, const struct rule *rule, const struct unsharded_choice *choice, int step);

// A difference in an element of a parameter, or of its moments or gradient, that no rank or micro-step has to itself.
struct difference difference_at(int step, const char *what, int param, size_t element, float expected, float actual);

// Finds the first element of a frozen parameter that changed in the current step.
bool trial_frozen_changed(const struct trial *trial, int step, struct difference *out);

// Fails a finding by a number that the answer reports of a whole step.
void finding_differ(struct finding *out, int step, const char *what, double expected, double actual, enum hint hint);

// True if two numbers are equal or both NaN; zeros of either sign are equal.
static inline bool value_same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

// True if a parameter's state is compared with Adam's: it is trained, used or not.
static inline bool trial_compares(const struct trial *trial, int param)
{
    return case_is_trained(trial->c, param);
}

// The sequence of a recipe that an element follows. It depends on the element's position alone, so that it is the same
// in every step.
enum { IN_BODY = 1, IN_TAIL = 2 };

// A step gives a parameter without a gradient one of zero, or leaves it alone. The t of one that was left alone counts
// all updates, or its own.
enum unused_form { UNUSED_ZERO_GRADIENT, UNUSED_LEFT_ALONE, UNUSED_OWN_T };

// The rules that explain an answer; the judge keeps them to find one that explains all.
struct rule_set {
    struct rule *rules;
    unsigned char *unused;      // by rule: enum unused_form
    unsigned char **sequences;  // by rule, by compared element: IN_BODY, IN_TAIL, or 0 if no step decides; null for a
                                // recipe without a tail, and before the first update
    size_t count;
};

// Adds a copy of a rule; takes over `sequences`, which may be null, also in case of an error.
int rule_set_add(struct rule_set *set, const struct rule *rule, enum unused_form unused, unsigned char *sequences);
void rule_set_clear(struct rule_set *set);  // forgets the rules and keeps the memory for them
void rule_set_free(struct rule_set *set);

// A judged answer: digests of its states, to compare it with its twins, and the rules that explain it.
struct kept {
    const struct check_case *c;
    unsigned aspects;                    // that some requirement checks in the case
    uint64_t twin_digest;                // of the twin's name, for judge_twins; 0: none
    int placement;                       // for judge_rules
    uint64_t digests[CASE_STEP_MAX][2];  // by step, [step - 1]
    struct rule_set explained;
    bool follows_no_rule;  // BOUNDED; a FAIL is no evidence about the rule
    bool is_convicted;     // some aspect of this answer alone is a FAIL
    uint64_t gathered;     // bytes sent to gather parameters, over all ranks; UINT64_MAX: the answer does not say
};

// A step without tokens is an update by gradients of zero, or none: the same in all cases.
enum empty_steps { EMPTY_STEPS_UNKNOWN, EMPTY_STEPS_APPLIED, EMPTY_STEPS_SKIPPED };

struct judge {
    struct judge_options options;
    enum empty_steps empty_steps;
    struct findings *findings;
    struct kept *kept;
    size_t kept_count, kept_room;
    char (*rules)[512];  // by placement, for people
    int rule_count;
};

// The aspects that some requirement checks in a case.
unsigned judge_aspects_of(const struct check_case *c);

// Compares each case given twice with its first answer, and each case with one of its twins that answers the same
// steps, if there is one that no other finding convicts. After all answers are kept.
int judge_twins(struct judge *judge);

// Adds a finding for each answer that follows a rule of the table, or none: one rule must explain all. After all
// answers are kept.
int judge_rules(struct judge *judge);

// Judges the states: fills in *out, and sets `explained` to the rules that explain every step (none where the verdict
// is BOUNDED or worse, or no step updates).
int judge_state(struct trial *trial, struct finding *out, struct rule_set *explained);

// Convicts moments by the rules that judge_state set, if they keep them in less than fp32. False: there is no finding.
bool judge_moments(const struct rule_set *explained, struct finding *out);

// Judges the updates of Muon's matrices.
int judge_update(struct trial *trial, struct finding *out);

// Judge the gradient and the norm, if the answer reports them; `explained` as judge_state set it.
int judge_gradient(struct trial *trial, const struct rule_set *explained, struct finding *out);
int judge_norm(struct trial *trial, struct finding *out);

int judge_decision(struct trial *trial, struct finding *out);
int judge_seen(struct trial *trial, struct finding *out);
int judge_loss(struct trial *trial, struct finding *out);

// Learns from the first answer that has a step without tokens what the implementation does in it; decisions of others
// follow.
bool case_settles_empty_steps(const struct check_case *c);
int trial_settle_empty_steps(struct trial *trial, enum empty_steps *known);

// aspect: memory, padding, traffic or calls.
void judge_usage(const struct trial *trial, enum aspect aspect, struct finding *out);

// Judges what a case with gathers in E4M3 sent by what its twin without them did: a quarter of it, and the scales.
void judge_quarter(const struct kept *kept, const struct kept *plain, struct finding *out);
uint64_t judge_gathered(const struct trial *trial);

// Names the likeliest kind of bug behind a difference of states. trial->before, after and expected belong to the
// difference's step; trial->gradient is the expected gradient before clipping. detail: the groups and settings that the
// hint is about, each with "; " behind it, or "".
enum { DIAGNOSE_DETAIL_BYTES = 240 };
enum hint diagnose_state(const struct trial *trial, const struct rule *rule, const struct difference *difference,
                         char detail[DIAGNOSE_DETAIL_BYTES]);

// The same for a right state with a wrong reported gradient: trial->step is the difference's step, and trial->gradient
// the expected gradient.
enum hint diagnose_reported_gradient(const struct trial *trial, const struct rule *rule,
                                     const struct difference *difference);

// Names it where trial->step is skipped and must not be, or the other way round. What no answer tells apart has one
// name: a step that is skipped after another may still have that one's gradient, or the decision about it.
enum hint diagnose_decision(const struct trial *trial, int step);
