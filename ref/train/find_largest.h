// SPDX-License-Identifier: Apache-2.0
// `zerogauge train --find-largest`: the largest GPT of a family (gpt_find.h) that a configuration trains under the
// budgets of the tiers. Nothing is estimated: each trial opens every rank and trains a step, or is refused.
#ifndef ZG_FIND_LARGEST_H
#define ZG_FIND_LARGEST_H

#include "ref/train/train.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { FIND_LARGEST_REFUSAL_BYTES = 1024 };

// One model of the family, tried.
struct find_largest_trial {
    const struct model *model;  // null: there is none
    uint64_t param_elements;
    bool fits;
    uint64_t held_bytes[TIER_COUNT];           // of rank 0, where it fits
    double seconds;                            // opening and closing included
    char refusal[FIND_LARGEST_REFUSAL_BYTES];  // "" where it fits
};

struct find_largest {
    struct find_largest_trial largest;
    struct find_largest_trial next;  // the one after it in the family, which does not fit; its model is null where the
                                     // family has no larger one
    int trial_count;
};

// Trials of a setting whose model and steps are not looked at. tried, which may be null, is called after each.
// ERR_BUDGET says that a model is too large; everything else that ends a trial is an error of this function, and so is
// a family of which not even the smallest fits (ERR_BUDGET).
int find_largest(const struct train_setting *setting, void (*tried)(const struct find_largest_trial *trial),
                 struct find_largest *out);

// The search as `train` runs it: a line for each trial on standard error, unless `json` is asked for and nobody looks
// on; at the end a table or a record on standard output.
int find_largest_run(const struct train_setting *setting, bool json);

#endif
