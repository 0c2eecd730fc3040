// SPDX-License-Identifier: Apache-2.0
// A rule in words.
#include "conformance/unsharded/rule.h"

#include <stdio.h>

static const char *const order_text[ORDER_COUNT] = {"ranks folded in order", "ranks folded around a ring",
                                                    "ranks added in pairs", "ranks folded in groups"};
static const char *const division_text[DIVIDE_COUNT] = {
    "sum divided once",
    "sum over ranks divided",
    "sum over ranks times 1/world",
    "each rank's divided",
    "each rank's times 1/world",
    "each rank's divided in the model's dtype",
    "divided before and after as FSDP does",
};
static const char *const micro_text[MICRO_COUNT] = {"", ", each micro-step divided",
                                                    ", each micro-step times 1/accumulation"};
static const char *const tokens_text[TOKENS_COUNT] = {
    "",
    ", sum times 1/tokens",
    ", each times 1/tokens",
    ", each divided by the tokens",
    ", each rank's mean loss times its share",
    ", each rank's mean times its share",
    ", each times ranks x micro-steps / tokens",
};
static const char *const clip_text[CLIP_FORM_COUNT] = {
    "",
    ", clipped by DeepSpeed's reciprocal",
    ", clipped by max_norm / norm",
    ", clipped by max_norm / norm in double",
    ", clipped by DeepSpeed's reciprocal in double",
};

static const char *const powers_text[POWERS_COUNT] = {"", ", powers of beta continued over the checkpoint",
                                                      ", powers of beta recomputed in every step"};

// ", moments in bf16, master in fp32": nothing of states that are all in fp32.
static void states_text(const struct rule_states *states, char *out, size_t bytes)
{
    out[0] = '\0';
    if (rule_states_are_short(states))
        snprintf(out, bytes, ", moments in %s, master in %s%s", dtype_name(states->moments), dtype_name(states->master),
                 states->rounds_gradient ? ", and so is the mean gradient" : "");
}

const char *rule_text(const struct rule *rule, char *out, size_t bytes)
{
    const struct adam_recipe *recipe = adam_recipe_at(rule->recipe);
    char states[80];
    states_text(&rule->states, states, sizeof states);
    snprintf(out, bytes, "%s%s, %s%s, %s, %s%s%s%s%s", recipe ? adam_recipe_name(recipe) : "no recipe", states,
             order_text[rule->order], rule->rounds_each ? ", each sum rounded" : "",
             rule->reduces_each_micro_step ? "ranks before micro-steps" : "micro-steps before ranks",
             division_text[rule->division], micro_text[rule->micro], tokens_text[rule->tokens], clip_text[rule->clip],
             powers_text[rule->powers]);
    return out;
}
