// SPDX-License-Identifier: Apache-2.0
// The results of judging: a finding for each aspect of each case, from the findings a verdict for each requirement, and
// from the verdicts one for the run.
#pragma once

#include "conformance/spec/observation.h"
#include "conformance/spec/requirement.h"

#include <stdbool.h>
#include <stdint.h>

// From best to worst: the worst of several is the verdict of all; UNSUPPORTED counts only where there is nothing else.
// PARTLY is of requirements and not of findings.
enum verdict {
    VERDICT_UNSUPPORTED,  // not claimed, declined, or the answer lacks the data of the check
    VERDICT_PASS,         // every bit equals the canonical rule
    VERDICT_EQUIVALENT,   // every bit equals another rule of the table, which is named
    VERDICT_BOUNDED,      // no rule of the table, but every relation is within its limit of roundings
    VERDICT_PARTLY,       // one of these, but some cases were not claimed or declined
    VERDICT_FAIL,
    VERDICT_BROKEN,  // no answer that could be judged: crashed, timed out, malformed
    VERDICT_COUNT
};

const char *verdict_name(enum verdict verdict);  // "PASS"

// The likeliest kind of bug, where a finding is FAIL. Names and sentences are in a table (hint.c).
enum hint {
    HINT_NONE,
    HINT_FACTOR_WORLD,         // the gradient is off by the number of ranks
    HINT_FACTOR_ACCUMULATION,  // ... of micro-steps
    HINT_FACTOR_SCALE,         // ... by the loss scale
    HINT_FACTOR_OTHER,         // ... by some other constant
    HINT_ONE_RANK,             // the gradient of one rank or of some ranks alone
    HINT_ONE_MICRO_STEP,       // micro-steps are missing
    HINT_WEIGHTS,              // ranks or micro-steps count unequally
    HINT_ONE_USE,              // a use of a tied parameter is missing
    HINT_LEFT_OVER,            // the gradient of an earlier step is added
    HINT_STALE_GRADIENT,       // it is the gradient of an earlier step
    HINT_SHIFTED,              // the values of other elements: an offset or padding is wrong
    HINT_TAIL,                 // only the last elements of tensors, or of vectors
    HINT_BUCKET,               // only some whole tensors: a bucket, a group, a layer
    HINT_SHARD,                // only one rank's shard
    HINT_NOT_UPDATED,          // elements keep their old state
    HINT_UPDATED_TWICE,
    HINT_STEP_COUNT,       // bias correction with another t
    HINT_CORRECTION,       // bias correction is missing, or made where there should be none
    HINT_LR,               // the learning rate of another step, or group
    HINT_BETAS,            // other betas
    HINT_EPS,              // another eps
    HINT_DECAY,            // weight decay: missing, of the other kind, of another group
    HINT_DECAY_ORDER,      // decoupled decay scales the updated parameter
    HINT_GROUP,            // all settings are another group's
    HINT_CLIP,             // the clip coefficient is missing, of another norm, or applied where it should not be
    HINT_OVERFLOW,         // a step is skipped that should not be, or the other way about
    HINT_LOSS_SCALE,       // the scale's growth, shrinking or hysteresis
    HINT_MOMENTS,          // moments are lost, swapped or of low precision
    HINT_OVERWRITTEN,      // some elements met other states than the step before left
    HINT_MASTER,           // the master parameters went through a 16-bit format, or FP8
    HINT_ROUNDING,         // the 16-bit copy is not rounded to nearest even
    HINT_STALE_COPY,       // forward used parameters of another step
    HINT_TORN_COPY,        // forward used parameters of several steps
    HINT_FOREIGN_COPY,     // forward used what was no step's parameters
    HINT_QUANTIZED,        // a gather in E4M3 has another scale than that of the whole tensor, or none
    HINT_RESUME,           // right until the checkpoint, wrong from there on
    HINT_SETTING,          // right by itself, but the bits depend on a setting that must not matter
    HINT_UNSET,            // some elements are no numbers: what no step has written
    HINT_GRADIENT,         // both moments follow from another gradient, of no known kind; the update from them is right
    HINT_TOKENS_MEANS,     // each rank or micro-step divides by its own tokens, and counts as much as the others
    HINT_TOKENS_OWN_RANK,  // each rank divides by its own tokens
    HINT_TOKENS_MICRO_STEP,  // divided by the tokens of one micro-step
    HINT_TOKENS_PADDING,     // padding is counted
    HINT_TOKENS_BEFORE,      // the tokens of the step before
    HINT_TOKENS_COPIES,      // those of ranks with the same batch are counted again
    HINT_TOKENS_ROUNDED,     // counted in a format that does not hold their number
    HINT_REPORTED,           // the report is not of the step that was applied
    HINT_ORTHOGONAL,         // a matrix's update is not its momentum's, orthogonal as a whole
    HINT_RECIPE,             // right by another recipe than all other answers
    HINT_OTHER,              // different everywhere: other arithmetic
    HINT_COUNT
};

const char *hint_name(enum hint hint);  // "factor-world"
const char *hint_text(enum hint hint);  // sentences: the error, and the first thing to check; "" for none

// How much a hint tells: 0 for none; 1: only that something is wrong; 2: where or when; 3: by numbers that nothing else
// explains.
int hint_strength(enum hint hint);

struct difference {
    int step, rank, micro;  // rank, micro: -1 where it has none
    int param;              // index; -1: of a scalar
    const char *what;       // "exp_avg", "t", "seen"
    size_t element;
    uint64_t expected_bits, actual_bits;
    int bits;          // how wide they are: 16 (the case's precision), 32 (fp32), 64 (a double where what is
                       // "norm" or "loss_scale", otherwise an integer)
    double roundings;  // their distance, in roundings; NaN where that has no meaning
    uint64_t differing_count, compared_count;  // elements, of this step and kind
};

enum { FINDING_TEXT_BYTES = 512 };

// Why a case has no answer that could be judged.
enum absence {
    ABSENT_NOT,
    ABSENT_UNCLAIMED,  // the command was not asked
    ABSENT_DECLINED    // it answered that it does not support the case
};

struct finding {
    const struct check_case *c;     // null: of all cases together
    const struct check_case *twin;  // the case that it was compared with; null: none
    enum aspect aspect;
    enum verdict verdict;
    char text[FINDING_TEXT_BYTES];  // the rule's name; the limit that is exceeded; why it is broken or unsupported
    bool has_difference;
    struct difference difference;  // the first one
    enum hint hint;
    enum absence absence;
    int lack;  // of ABSENT_UNCLAIMED: how much that the case needs is not claimed
};

// All findings of a run.
struct findings {
    struct finding *list;
    size_t count, room;
};

// Adds a copy. ERR_MEMORY.
int findings_add(struct findings *findings, const struct finding *finding);
void findings_free(struct findings *findings);

// True if a requirement's check made a finding: it covers this aspect of this case. What is right or absent counts only
// if the case, or the twin that it was compared with, has what the requirement needs.
bool finding_serves(const struct finding *finding, const struct requirement *requirement);

struct requirement_verdict {
    const struct requirement *requirement;
    enum verdict verdict;
    size_t counts[VERDICT_COUNT];  // of findings
    // In findings->list: of the worst verdict the one whose hint tells most, the first of several; of FAIL and BROKEN
    // one that is FAIL; of PARTLY the first absent one; of UNSUPPORTED, if there is one, that of a case that was
    // claimed, or even answered. Of cases that are not claimed the one that lacks least. Null: no finding.
    const struct finding *worst;
};

// Without any finding it is UNSUPPORTED.
struct requirement_verdict verdict_of(const struct findings *findings, const struct requirement *requirement);

// The first of the verdicts that are FAIL or BROKEN by the cause that this one of them has: by its finding; by a
// finding whose hint, told by numbers, is the same; by the same hint in the same case; without a hint by the same
// reason.
const struct requirement_verdict *verdict_first_of_cause(const struct requirement_verdict verdicts[],
                                                         const struct requirement_verdict *verdict);

// [returns how many] one for each requirement of SPEC.md, in its order.
int verdicts_of(const struct findings *findings, struct requirement_verdict out[REQUIREMENT_MAX]);

// How many of the cases, those given twice not counted again, were answered.
struct case_share {
    size_t all, unclaimed, declined;
};

struct case_share case_share_of(const struct findings *findings);

enum run_verdict {
    RUN_CONFORMS,         // every MUST is PASS, EQUIVALENT or BOUNDED
    RUN_CONFORMS_PARTLY,  // every answer that was judged is right; at least one MUST is PARTLY or UNSUPPORTED
    RUN_FAILS,            // a MUST is FAIL or BROKEN, or the command failed
    RUN_NOTHING           // no MUST could be judged
};

// Of the requirements that were asked for. A SHOULD decides nothing, unless there is no MUST among them.
enum run_verdict run_verdict_of(const struct requirement_verdict verdicts[], int count, bool command_failed);
const char *run_verdict_name(enum run_verdict verdict);  // "CONFORMS"
const char *run_verdict_text(enum run_verdict verdict);  // a sentence

// 0, 0, 1, 77. Strict: 0 for CONFORMS, and 1 for anything less.
int run_verdict_exit_status(enum run_verdict verdict, bool strict);

// The facts of the run as a whole, for its reports.
struct run_facts {
    const char *implementation, *version, *level;  // version: "" where it is not known
    // The options that chose a part of the level, for a shell: "--case NAME". Null: all of it; "": all cases of a
    // folder.
    const char *part;
    const char *command;  // the options and the command that were judged, for a shell: "-- torchrun ... {cases} ..."
    struct observations observations;  // of memory; none where nobody asked for them
    const char *const *rules;          // the rule of each placement (judge_rule), NULL at the end; may be null
    uint64_t seed;
    double seconds;
    size_t case_count, repeat_count, launch_count;  // case_count: with the cases asked again, which are repeat_count
    int requirement_count;
    int suite_version;  // whose cases were run
    bool command_failed;
    bool strict;                            // less than CONFORMS is a failure
    char command_text[FINDING_TEXT_BYTES];  // why
};
