// SPDX-License-Identifier: Apache-2.0
// What the field's implementations may do differently and still be right: the optimizer's exact sequence of operations,
// where the mean is divided, in which order ranks and micro-steps are added, and how the clip coefficient is rounded.
// A rule is one choice of each. The canonical rule is the definition that the reference follows; every other one has a
// name, so that a verdict can say which one an implementation follows.
#ifndef ZG_RULE_H
#define ZG_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An optimizer's step for one element, and the scalars that it takes: one row of a table (recipe_row.c). It shares no
// arithmetic with ref/: the two check each other.
struct adam_recipe;

// null: past the end; 0 is torch's CPU form, the canonical one.
const struct adam_recipe *adam_recipe_at(int index);
const char *adam_recipe_name(const struct adam_recipe *recipe);    // "torch-cpu", "deepspeed-cpu-gcc", ...
const char *adam_recipe_source(const struct adam_recipe *recipe);  // what computes so

// In which order one sum over ranks is added; every addition is in fp32, or each is rounded to the communication dtype.
enum rule_order {
    ORDER_FOLD,    // canonical: ((g0 + g1) + g2) + ...
    ORDER_CYCLIC,  // from any rank on, upwards or downwards, by element: rings, whatever their chunks
    ORDER_TREE,    // neighbours in pairs, then pairs of pairs
    ORDER_COUNT
};

// Where the mean over ranks divides.
enum rule_division {
    DIVIDE_LAST,        // canonical: the sum, by ranks x micro-steps x loss scale at once
    DIVIDE_SUM,         // the sum over ranks, by ranks
    DIVIDE_SUM_RECIPROCAL,   // the sum times 1/ranks, rounded
    DIVIDE_FIRST,            // each rank's, by ranks
    DIVIDE_FIRST_RECIPROCAL, // each rank's, times 1/ranks, rounded
    DIVIDE_SPLIT,            // each rank's by FSDP's first factor, the sum by its second
    DIVIDE_COUNT
};

// Where the mean over micro-steps divides, unless DIVIDE_LAST has done so.
enum rule_micro {
    MICRO_LAST,   // the sum over micro-steps, by their number
    MICRO_FIRST,  // each gradient by their number, rounded to the model's dtype: a loss that was divided
    MICRO_COUNT
};

enum rule_clip { CLIP_BY_QUOTIENT, CLIP_BY_RECIPROCAL, CLIP_FORM_COUNT };  // torch's form, DeepSpeed's

struct rule {
    int recipe;  // index
    enum rule_order order;
    bool rounds_each;  // every addition over ranks is rounded to the communication dtype, not the sum alone
    bool reduces_each_micro_step;  // ranks first, then micro-steps (stages 2 and 3); false: micro-steps first
    enum rule_division division;
    enum rule_micro micro;
    enum rule_clip clip;
};

// "torch-cpu, ranks folded in order, sum divided once"; out of `bytes` bytes. Returns out.
const char *rule_text(const struct rule *rule, char *out, size_t bytes);

#endif
