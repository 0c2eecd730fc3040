// placeholder: the numbers helper replaces this file
#ifndef ZG_RECIPE_H
#define ZG_RECIPE_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

// Hyper-parameters of one optimizer group, as configured.
struct adam_hyper {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled;        // AdamW; false: Adam with L2
    bool bias_correction;
};

struct recipe;  // a row of the table: name, source, version, note

// What a recipe carries from step to step, per optimizer group (DeepSpeed's fp32 powers of beta); starts as zeros.
struct recipe_state {
    float beta1_power, beta2_power;
    uint64_t step;
};

// Everything a step's elements need, as host-side scalars of that recipe.
struct adam_scalars {
    int dummy;
};

const struct recipe *recipe_find(const char *name);       // null: unknown
const struct recipe *recipe_at(int index);                // null: past the end
const char *recipe_name(const struct recipe *recipe);
const char *recipe_source(const struct recipe *recipe);   // implementation and version it reproduces
int recipe_begin_step(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                      struct recipe_state *state, struct adam_scalars *out);
#ifdef __cplusplus
}
#endif
#endif
