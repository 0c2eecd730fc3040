// SPDX-License-Identifier: Apache-2.0
// `zerogauge train --find-largest`: the largest GPT of a family (gpt_find.h) that a configuration trains under the
// budgets of the tiers. Each trial opens a dry run, which accounts for the memory of a real run and takes none.
#ifndef ZG_FIND_LARGEST_H
#define ZG_FIND_LARGEST_H

#include "ref/train/train.h"

#include <stdbool.h>
#include <stdint.h>

enum { FIND_LARGEST_REFUSAL_BYTES = 1024 };

// One model of the family, tried.
struct find_largest_trial {
    const struct model *model;  // null: there is none
    uint64_t param_elements;
    bool fits;
    uint64_t held_bytes[TIER_COUNT];           // of rank 0, where it fits
    char refusal[FIND_LARGEST_REFUSAL_BYTES];  // "" where it fits
};

struct find_largest {
    struct find_largest_trial largest;
    struct find_largest_trial next;  // the next model of the family, which does not fit; its model is null if the
                                     // family has none
    int trial_count;
};

// Tries the family's models in their order; the setting's model and steps do not matter. ERR_BUDGET: not even the
// smallest fits. ERR_CHECK: bytes held differ from the formulas.
int find_largest(const struct train_setting *setting, struct find_largest *out);

// The search as `train` runs it: a table or a record on standard output.
int find_largest_run(const struct train_setting *setting, bool json);

#endif
