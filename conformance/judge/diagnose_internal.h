// SPDX-License-Identifier: Apache-2.0
// What the diagnosis's parts share: the elements of a wrong step in one row.
#pragma once

#include "conformance/judge/judge_internal.h"

// All compared elements, in the model's order.
struct row {
    const struct trial *trial;
    const struct rule *rule;
    int step;           // whose gradient is applied
    float coefficient;  // of the clip
    bool is_short;      // guesses need be no nearer than sums in a 16-bit format are
    size_t count, wrong_count, wrong_moment_count;
    double *expected;  // the gradient that should have been used
    double *used;      // that the answer's m follows from
    double *guess;
    double *magnitude;     // where is_short: of the addends, also of the step before: roundings are relative to it
    unsigned char *wrong;  // any of the three states
    unsigned char *wrong_moment;  // m
    unsigned char *fits;          // room: what some guess explains
    size_t begin[CASE_PARAM_MAX + 1];
    char detail[DIAGNOSE_DETAIL_BYTES];  // of the hint: the groups and their settings, each with "; " behind it
};

// Near enough to be the same quantity, computed in another way.
bool value_near(double a, double b);

// Gradients of one step: bit R of `ranks` for rank R, bit K of `micros` for micro-step K, each times `weight`.
struct addends {
    int step;
    uint64_t ranks, micros;
    double weight;
};

// Adds those of one parameter, or of all, to row->guess, each to its owner's elements.
void row_add_use(struct row *row, int param, const struct addends *addends);
void row_add(struct row *row, const struct addends *addends);

// Sets row->is_short where gradients have gone through a 16-bit format on their way, and row->magnitude.
void row_allow_short(struct row *row);

// The ranks, as masks, that a reduction may have ended with instead of all: each alone, and on a mesh the groups of
// data ranks. Returns how many.
enum { RANK_MASK_MAX = 4 * CASE_WORLD_MAX };
int row_rank_masks(const struct row *row, uint64_t masks[RANK_MASK_MAX]);

// A guess that may hold in a different way for each element must explain at least this many.
enum { ROW_TELLING_COUNT = 8 };

// True if row->guess was used in every element whose m is wrong, and differs from the expected gradient.
bool row_guessed(const struct row *row);

// True if other elements' gradients were used.
bool diagnose_moved(struct row *row);

// True if a gradient that lacks one use of a tied parameter was used.
bool diagnose_use(struct row *row);

// True if ranks and micro-steps were added with other weights than equal ones.
bool diagnose_weights(struct row *row);

// True if the gradient that was used is the right one, rounded to the model's dtype before it was clipped.
bool diagnose_rounded_gradient(const struct row *row);

// Names the gradient that was used, where m is wrong.
enum hint diagnose_gradient(struct row *row);

// The same where the answer tells m alone: also without clipping, and with the roundings of 16 bits.
enum hint diagnose_used_gradient(struct row *row);

// The part of it that names other tokens than all of the step: NONE for other reasons, and in cases without tokens.
enum hint diagnose_tokens(struct row *row);

// The part of it that tries constant factors: NONE if there is no common factor, or nothing to say of it.
enum hint diagnose_factor(const struct row *row);

// The norm that the answer reports of the gradient that is applied. False: it reports none.
bool diagnose_norm(const struct row *row, double *norm);

// Takes clipping off both gradients: the right coefficient, and the one that follows from the answer's own norm. Sums
// are recognised only without it. What is wrong by the coefficient alone is wrong no more. False: there is nothing to
// take off, or the answer does not tell.
bool diagnose_unclip(struct row *row);

// Which other t, learning rate, group, eps or decay the update was made with, or whether it was made twice. Sets
// row->detail.
enum hint diagnose_update(struct row *row, const struct unsharded_decision *decision);

// Guesses of one kind: row->fits says which elements are explained by one of them.
struct suspicion {
    const struct row *row;
    struct check_case *c;       // the case with other values
    struct unsharded_state to;  // after the step with them
    bool tells;                 // they differ from the right one
};

// Begins a kind of guesses, with the case as it is. False: there is no memory. Close it in every case.
bool suspicion_open(struct suspicion *s, const struct row *row);
void suspicion_close(struct suspicion *s);

// Makes the step and notes which elements it explains. twice: a second time, on top of the first.
void suspicion_guess(struct suspicion *s, uint64_t t, int lr_step, bool twice);

// True if the guesses of this kind explain every wrong element.
bool suspicion_explains(const struct suspicion *s);

// Hyper-parameters that an update may have had in place of the case's.
enum setting { SETTING_BETA1, SETTING_BETA2, SETTING_LR, SETTING_EPS, SETTING_DECAY };

// True if the update was made with other values of the settings from first to last, in some groups. Sets row->detail.
bool diagnose_setting(struct row *row, uint64_t t, enum setting first, enum setting last);

// True if decoupled decay scales the updated parameter, and not the one before.
bool diagnose_decay_order(struct row *row, uint64_t t);

// True if it takes the rate from the parameters that are rounded to the model's dtype, and not from the masters.
bool diagnose_decay_of_copy(struct row *row);

// The first kind of setting that it was made with; NONE: none alone.
enum hint diagnose_settings(struct row *row, uint64_t t);

// The wrong elements that this holds for; and whether it does for every one, and there is one.
size_t row_count_wrong(const struct row *row, bool (*is)(const struct trial *, int param, size_t i));
bool row_all_wrong(const struct row *row, bool (*is)(const struct trial *, int param, size_t i));

// True if both moments of an element are right.
bool diagnose_is_parameter_alone(const struct trial *trial, int param, size_t i);

// True if states that may be of 16 bits are off by no more than a rounding to them.
bool diagnose_short_states(const struct row *row);

// True if moments are kept in less than fp32, swapped, not as the update used them, or without those of earlier steps.
bool diagnose_moments(const struct row *row);

// True if nearly all wrong first moments were the states of other elements, or other states.
bool diagnose_states(const struct row *row);

// True if the moments are right, and every wrong parameter is at one distance from an element that has its value,
// updated or not.
bool diagnose_shifted_params(const struct row *row);

// The hint of the wrong elements' positions: the ends of tensors only; whole tensors; a range that cuts a few tensors.
// NONE: nearly everywhere, or scattered.
enum hint diagnose_places(const struct row *row);
