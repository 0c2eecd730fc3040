// SPDX-License-Identifier: Apache-2.0
// The judge: compares an answer with unsharded Adam, element by element and bit by bit, and answers with one another.
// Each step begins from the answer's own state before it, so that an error is one finding in the step where it happens;
// the first step begins from the case's state.
#pragma once

#include "conformance/contract/answer.h"
#include "conformance/unsharded/unsharded.h"
#include "conformance/spec/verdict.h"

// The claimed form where several are right (claims.h).
struct judge_options {
    enum scaler_form scaler;
    int clip;    // 0: a form of torch's kind, 1: of DeepSpeed's; -1: either
    int unused;  // 0: left alone, 1: a gradient of zero; -1: either
    struct claimed_states states;
};

struct judge;

// Opens a judge that adds findings to the caller's list, which must outlive it.
int judge_open(const struct judge_options *options, struct findings *findings, struct judge **out);
void judge_close(struct judge *judge);  // null-safe

// A judge of the same options, which knows what this one has learned, for answers that another thread judges; and the
// end of it, whose findings and answers this one takes over behind its own. The part is closed by the caller.
int judge_open_part(const struct judge *judge, struct findings *findings, struct judge **out);
int judge_join(struct judge *judge, struct judge *part);

// True if the judge is to learn from this case's answer how to judge others. A part judges no such case.
bool judge_learns(const struct judge *judge, const struct check_case *c);

// Judges an answer that answer_open accepted. saved: for a resuming case, the answer of its saving half (which knows
// its case); otherwise null. The cases must outlive the judge; the answers need not.
int judge_answer(struct judge *judge, const struct check_case *c, const struct case_values *values,
                 const struct answer *answer, const struct answer *saved);

// Gives every aspect of the case this verdict, FAIL or BROKEN: there is no answer that could be judged. Of a case that
// is to be refused only the refusal is missing.
int judge_without(struct judge *judge, const struct check_case *c, enum verdict verdict, const char *why);

// Every aspect of the case is UNSUPPORTED: it was not claimed, or was declined. lack: how much is not claimed, or 0.
int judge_absent(struct judge *judge, const struct check_case *c, enum absence absence, int lack, const char *why);

// After the last case: compares twins and cases given twice, and looks for one rule that explains everything.
int judge_end(struct judge *judge);

// Bytes of parameters, gradients, moments and masters that all ranks of a case hold together by ZeRO's formulas,
// without padding, with states as claimed.
uint64_t judge_held_bytes(const struct check_case *c, const struct claimed_states *states);

// The least bytes that all ranks together send in a case whose every step is applied, by the same formulas.
uint64_t judge_sent_bytes(const struct check_case *c);

// After judge_end: line `index` of the rules by placement, for people, such as "fp32, Adam on the device: torch-cpu";
// null past the end. Valid until the judge is closed.
const char *judge_rule(const struct judge *judge, int index);
