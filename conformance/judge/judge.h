// SPDX-License-Identifier: Apache-2.0
// The judge: an answer against unsharded Adam, element by element and bit by bit, each step from the answer's own state
// before it; and answers against one another.
//
// From its own state, so that one error is one finding where it happens, and so that an implementation is held to one
// rule step by step: a state that was right before and follows by the rule is right. The first state is the case's.
#ifndef ZG_JUDGE_H
#define ZG_JUDGE_H

#include "conformance/contract/answer.h"
#include "conformance/judge/unsharded.h"
#include "conformance/spec/verdict.h"

// What an implementation says about choices that have no one right answer (claims.h).
struct judge_options {
    enum scaler_form scaler;
    int clip;    // 0: a form of torch's kind, 1: of DeepSpeed's; -1: either
    int unused;  // 0: left alone, 1: a gradient of zero; -1: either
};

struct judge;

// Findings are added to the caller's list, which must outlive the judge.
int judge_open(const struct judge_options *options, struct findings *findings, struct judge **out);
void judge_close(struct judge *judge);  // null-safe

// A complete answer. saved: for a resuming case, the answer of its saving half (which knows its case); otherwise null.
// The cases must outlive the judge; the answers need not.
int judge_answer(struct judge *judge, const struct check_case *c, const struct case_values *values,
                 const struct answer *answer, const struct answer *saved);

// There is no answer that could be judged: every check of the case gets this verdict.
int judge_without(struct judge *judge, const struct check_case *c, enum verdict verdict, const char *why);

// After the last case: twins, cases given twice, and whether one rule explains everything.
int judge_end(struct judge *judge);

// The rule that explains all answers of one placement, for people: "device, bf16: torch-cpu, ...". Line `index`; null
// past the end. Valid until the judge is closed; after judge_end.
const char *judge_rule(const struct judge *judge, int index);

#endif
