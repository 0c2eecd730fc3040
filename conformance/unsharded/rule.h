// SPDX-License-Identifier: Apache-2.0
// A rule: one choice of everything in which right implementations may differ: the optimizer's exact sequence of
// operations, the place of the mean's division, the order of the sums over ranks and micro-steps, and the rounding of
// the clip coefficient. The canonical rule is the definition that the reference follows; the others have names, so that
// a verdict can say which one an implementation follows.
#pragma once

#include "conformance/unsharded/muon.h"
#include "ref/arithmetic/dtype.h"

#include <stdbool.h>
#include <stddef.h>

// An optimizer's step for one element, and the scalars that it takes: one row of a table (recipe_row.c). It shares no
// arithmetic with ref/: the two check each other.
struct adam_recipe;

// null: past the end; 0 is torch's CPU form, the canonical one.
const struct adam_recipe *adam_recipe_at(int index);
const char *adam_recipe_name(const struct adam_recipe *recipe);  // "torch-cpu", "deepspeed-cpu-gcc", ...

// True if the recipe has this kind of decay, and this processor has the instructions for it.
bool adam_recipe_does(const struct adam_recipe *recipe, bool decoupled);

// True if an element may follow one of two sequences: the vector body's, or the scalar tail's.
bool adam_recipe_has_tail(const struct adam_recipe *recipe);

// True if it leaves the dtype of states to struct rule_states; false: its moments are kept in blocks of 8 bits.
bool adam_recipe_keeps_fp32(const struct adam_recipe *recipe);

// True if it rounds the result of every operation to the one 16-bit dtype of moments and parameter.
bool adam_recipe_rounds_each(const struct adam_recipe *recipe);

// True if its powers of beta are running products.
bool adam_recipe_runs_powers(const struct adam_recipe *recipe);

// In which order one sum over ranks is added; every addition is in fp32, or each is rounded to the communication dtype.
enum rule_order {
    ORDER_FOLD,    // canonical: ((g0 + g1) + g2) + ...
    ORDER_CYCLIC,  // from any rank on, upwards or downwards, by element: rings, whatever their chunks
    ORDER_TREE,    // neighbours in pairs, then pairs of pairs
    ORDER_GROUPS,  // ranks in a row folded in groups of one size, then the groups: hosts
    ORDER_COUNT
};

// How many sizes groups of ranks can have, between one rank and all of them; and the size with this index, from 0.
int rule_group_count(int world);
int rule_group_size(int world, int index);

// Where the mean over ranks divides.
enum rule_division {
    DIVIDE_LAST,              // canonical: the sum, by ranks x micro-steps x loss scale in one division
    DIVIDE_SUM,               // the sum over ranks, by ranks; these all round to the communication dtype
    DIVIDE_SUM_RECIPROCAL,    // the sum times 1/ranks, rounded to fp32
    DIVIDE_FIRST,             // each rank's, by ranks
    DIVIDE_FIRST_RECIPROCAL,  // each rank's, times 1/ranks, rounded to fp32
    DIVIDE_FIRST_IN_MODEL,    // each rank's, by ranks, rounded to the model's dtype before the communication dtype
    DIVIDE_SPLIT,             // each rank's by FSDP's first factor, the sum by its second
    DIVIDE_COUNT
};

// Where the mean over micro-steps divides, unless DIVIDE_LAST has done so.
enum rule_micro {
    MICRO_LAST,              // the sum over both, by the number of micro-steps
    MICRO_FIRST,             // each gradient by it, rounded to the model's dtype
    MICRO_FIRST_RECIPROCAL,  // each gradient times 1/it, rounded to fp32, then to the model's: a loss that was divided
    MICRO_COUNT
};

// Where the sum of a case with tokens (case_tokens.h) is divided by all of a step's, T; n is the rank's own count in
// the micro-step. All but TOKENS_MEAN divide by nothing else: their division and micro are the canonical ones.
enum rule_tokens {
    TOKENS_LAST,             // canonical: the sum, by T x loss scale in one division
    TOKENS_LAST_RECIPROCAL,  // the sum times 1/T, rounded to fp32
    TOKENS_FIRST,            // each gradient times 1/T, rounded to fp32, then to the model's dtype: a loss over T
    TOKENS_FIRST_DIVIDED,    // each gradient by T, rounded to the model's dtype
    TOKENS_LOCAL,            // as TOKENS_FIRST, with the quotient of n/T and n: a mean loss times the rank's share
    TOKENS_SHARE,            // each gradient times 1/n, rounded, then times n/T: gradients of a mean times the share
    TOKENS_MEAN,             // each gradient times ranks x micro-steps / T; then the mean, as the rule says
    TOKENS_COUNT
};

// How the coefficient is rounded; e is 1e-6. In fp32, but for the two in double, which are rounded at the end.
enum rule_clip {
    CLIP_BY_QUOTIENT,              // torch's: 1 / (norm + e) x max_norm
    CLIP_BY_RECIPROCAL,            // DeepSpeed's: 1 / ((norm + e) / max_norm)
    CLIP_BY_TRUE_QUOTIENT,         // max_norm / (norm + e)
    CLIP_BY_QUOTIENT_IN_DOUBLE,    // the same in double: Megatron-LM's
    CLIP_BY_RECIPROCAL_IN_DOUBLE,  // DeepSpeed's stage 3
    CLIP_FORM_COUNT
};
bool rule_clip_is_deepspeed(enum rule_clip clip);  // false: of torch's kind

// Where a recipe's powers of beta are running products in fp32 (DeepSpeed's on a CPU), and of what.
enum rule_powers {
    POWERS_RUNNING,   // canonical: from 1 on, or from a pow in the first step after a checkpoint
    POWERS_UNBROKEN,  // from 1 on, in spite of a checkpoint: the optimizer of the process that wrote it goes on
    POWERS_ANEW,      // a pow in every step: groups of different betas take turns in one optimizer
    POWERS_COUNT
};

// The dtypes in which states are kept from step to step, as claimed. An update reads them widened, computes in fp32 and
// rounds what is kept, to nearest, ties to even: the parameter moves by the moments before they are rounded, but in
// recipes that round each operation. Canonical: fp32.
struct rule_states {
    enum dtype moments, master;
    bool rounds_gradient;  // the mean gradient is kept in the master's dtype, and so is the clipped one
};

// A claim about a state's dtype: one of enum dtype for all cases, or each case's precision.
enum claimed_dtype { CLAIMED_FP32, CLAIMED_BF16, CLAIMED_FP16, CLAIMED_PRECISION };
struct claimed_states {
    enum claimed_dtype moments, master;
};

struct rule {
    int recipe;  // index
    struct rule_states states;
    enum rule_order order;
    bool rounds_each;              // every addition over ranks is rounded to the communication dtype, not the sum alone
    bool reduces_each_micro_step;  // ranks first, then micro-steps (stages 2 and 3); false: micro-steps first
    enum rule_division division;
    enum rule_micro micro;
    enum rule_tokens tokens;
    enum rule_clip clip;
    enum rule_powers powers;
    enum muon_momentum momentum;  // of Muon's matrices
};

struct check_case;

// The definition: what the reference does at this case's stage.
struct rule rule_canonical(const struct check_case *c);

// The rules that can differ at this case, each once, with states in fp32: [0] is the canonical one. Those with the same
// gradient are neighbours, as many for each, and the first of them all have the canonical gradient. In exact cases no
// rule has another, but for TOKENS_SHARE where a rank's tokens are no power of two.
int rule_count(const struct check_case *c);
int rule_per_gradient(const struct check_case *c);
int rule_list(const struct check_case *c, struct rule **out, int *count);  // all of them; the caller frees *out
struct rule_states rule_states_of(const struct check_case *c, const struct claimed_states *claimed);
bool rule_states_are_short(const struct rule_states *states);  // false: both in fp32
bool rule_same_gradient(const struct rule *a, const struct rule *b);

// "torch-cpu, ranks folded in order, sum divided once"; out of `bytes` bytes. Returns out.
const char *rule_text(const struct rule *rule, char *out, size_t bytes);
