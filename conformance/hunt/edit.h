// SPDX-License-Identifier: Apache-2.0
// The ways in which a case can be made smaller or plainer. Each edit gives a case that is strictly simpler, or none, so
// that applying them one after the other ends.
#pragma once

#include "conformance/hunt/hunt_case.h"

enum edit_kind {
    EDIT_WHOLE,         // one run without a checkpoint, on the ranks of half a
    EDIT_FEATURE,       // a: a feature is left out or takes its plainest value (edit_feature.c)
    EDIT_GROUP,         // the parameters of group a join the first group
    EDIT_GROUP_FIELD,   // of group a; b: enum edit_group_field
    EDIT_STEPS,         // only the first a steps
    EDIT_STEP,          // without step a
    EDIT_WORLD,         // only the first a micro-batches; b: of this part
    EDIT_RANK,          // without micro-batch a; b: of this part
    EDIT_ACCUMULATION,  // only the first a micro-steps
    EDIT_MICRO,         // without micro-step a
    EDIT_PARAMS,        // only the parameters from a on, b of them
    EDIT_PARAM,         // without parameter a and those that are tied to it
    EDIT_PLAIN_PARAM,   // parameter a; b: enum edit_plain
    EDIT_ELEMENTS,  // of parameter a and those that are tied to it only one piece (b: enum edit_piece), or one of the
                    // rows of a matrix of Muon's
    EDIT_NUMBERS,   // of parameter a, which Muon does not update; b: enum edit_numbers
    EDIT_ZERO,      // the gradients of step b of such a parameter a are zero
    EDIT_KIND_COUNT
};

enum edit_piece { PIECE_FIRST_ONE, PIECE_FIRST_HALF, PIECE_SECOND_HALF, PIECE_NOT_LAST, PIECE_NOT_FIRST, PIECE_COUNT };
enum edit_group_field {
    GROUP_MUON,
    GROUP_LR,
    GROUP_DECAY,
    GROUP_OPTIMIZER,
    GROUP_BETAS,
    GROUP_EPS,
    GROUP_CORRECTION,
    GROUP_MUON_FORM,
    GROUP_FIELD_COUNT
};
enum edit_plain { PLAIN_UNTIED, PLAIN_TRAINED, PLAIN_USED, PLAIN_FLAT, PLAIN_COUNT };
enum edit_numbers { NUMBERS_POWERS, NUMBERS_ONES, NUMBERS_INITIAL_ZERO, NUMBERS_INITIAL_ONE, NUMBERS_COUNT };

struct edit {
    enum edit_kind kind;
    int a, b;
};

// The edits of a kind that a case offers, the greatest first, but at most `room`; those of one kind can be applied one
// after the other in this order. Returns how many.
int edit_list(const struct hunt_case *h, enum edit_kind kind, struct edit list[], int room);

// True if one edit of the kind takes the place of another, as with a number of steps; false if they add up.
bool edit_is_choice(enum edit_kind kind);

// Applies an edit. *done: false where it changes nothing or the result is not legal; *out is empty then.
int edit_apply(const struct hunt_case *from, struct edit edit, struct hunt_case *out, bool *done);

// edit_feature.c. Leaves out feature `index` of a case's halves, and says whether that changes anything.
int edit_feature_count(void);
bool edit_feature(int index, struct check_case parts[], int part_count);
bool edit_group_field(int field, struct case_group *group);

// Which steps and micro-steps use the parameters, where step or micro-step `at`, from 0, is removed; that every one
// uses a parameter, and whether that changes anything; that one which none uses any more has no gradient.
void edit_use_without_step(struct check_case *c, int at);
void edit_use_without_micro(struct check_case *c, int at);
bool edit_use_always(struct check_case *c, int param);
void edit_use_settle(struct check_case *c);

// edit_numbers.c. Replaces numbers of parameter a, or its gradients of one step, and says whether that changes any.
bool edit_numbers(struct hunt_case *h, int param, enum edit_numbers numbers);
bool edit_zero(struct hunt_case *h, int param, int step);
