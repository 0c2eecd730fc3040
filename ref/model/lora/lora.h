// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (LoRA, arXiv 2106.09685). "We constrain its update by representing the latter with a low-rank
// decomposition W0 + Delta W = W0 + BA [...] W0 is frozen and does not receive gradient updates, while A and B contain
// trainable parameters", and "scale Delta W x by alpha / r" (section 4.1). For rows x a module with input and output
// widths m and n computes
//
//   y = x W0 + u B^T,  u = (alpha / r) x A^T,  A: r x m,  B: n x r
//
// A and B have PEFT's names and shapes: MODULE.lora_A.weight and MODULE.lora_B.weight, after the module's own
// parameters. "We use a random Gaussian initialization for A and zero for B": A is drawn evenly from +-1/sqrt(m), which
// is PEFT's default, B is zero, so that training begins with the function of the base.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LORA_NAME_BYTES = 96, LORA_TARGETS_BYTES = 96, LORA_RANK_MAX = 4096, LORA_ALPHA_MAX = 1 << 20 };

struct lora {
    size_t rank;   // 0: no adapters
    size_t alpha;  // the factor is alpha / rank
    char targets[LORA_TARGETS_BYTES];
};

// Parses one KEY=VALUE of `length` characters if its key is rank, alpha or targets (*known says so). targets are names
// of modules joined by '+'. ERR_USAGE: a wrong value, or a key given twice. name is the model's, for messages.
int lora_parse(const char *name, const char *text, size_t length, bool *known, struct lora *lora);

// Parses KEY=VALUE,... of these keys alone. ERR_USAGE: another key, or as above.
int lora_parse_all(const char *name, const char *text, struct lora *lora);

// Completes what was parsed: alpha is `rank` and the targets are default_targets if not given. ERR_USAGE: alpha or
// targets without a rank, or a target that none of the modules (NULL after the last) is called.
int lora_complete(const char *name, const char *default_targets, const char *const modules[], struct lora *lora);

// Returns whether a module is adapted. As in PEFT a target names a module by its whole name or by its end behind a dot;
// all-linear names all modules.
bool lora_adapts(const struct lora *lora, const char *module);

// Returns whether all-linear is among the targets.
bool lora_adapts_all(const struct lora *lora);

// alpha / rank
float lora_scale(const struct lora *lora);

// Writes a parameter's module: its name without ".weight". Returns out.
const char *lora_module(const char *param_name, char out[LORA_NAME_BYTES]);

// Writes the name of a module's A (is_b false) or B. Returns out.
const char *lora_param_name(const char *module, bool is_b, char out[LORA_NAME_BYTES]);

// The `count` initial values of A or B, which has rows of `columns`.
void lora_initialise(bool is_b, size_t columns, size_t count, uint64_t key, float *out);
