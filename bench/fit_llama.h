// SPDX-License-Identifier: Apache-2.0
// Llama 3's shapes, which the formulas of memory need, and no more: such a model cannot be run.
#ifndef ZG_FIT_LLAMA_H
#define ZG_FIT_LLAMA_H

#include "model.h"

// By index; null when past the last: "llama-8b", "llama-70b".
const char *fit_llama_name(int index);

// What is found lasts as long as the process. ERR_MEMORY. Null in *out: no such name.
int fit_llama_find(const char *name, const struct model **out);

#endif
