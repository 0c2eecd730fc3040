// SPDX-License-Identifier: Apache-2.0
// The models by name.
#pragma once

#include "ref/model/model.h"

// Finds a model by name: gpt-nano, gpt-tiny, gpt-3m, gpt-10m, gpt2-124m and GPTs of any size (gpt_find.h), and the
// models of linear.h, each also with adapters (lora.h); llama-tiny, llama-160m and Llamas of any size (llama.h).
// ERR_USAGE lists the names. The model lives until the process ends.
int model_find(const char *name, const struct model **out);

// The names that model_find's refusal lists, by index; NULL past the last.
const char *model_name(int index);

// The same model, changed by these keys alone.
struct model_changes {
    size_t tiling_factor;    // cuts its large layers into this many tiles (NAME:tiles=N); 0 and 1 leave them whole
    bool sequence_parallel;  // NAME:sequence_parallel=1 (gpt.h)
    const char *lora;        // adds adapters (NAME:rank=8,..., lora.h); null or "": none
};
int model_find_changed(const char *name, const struct model_changes *changes, const struct model **out);
