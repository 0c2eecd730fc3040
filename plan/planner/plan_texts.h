// SPDX-License-Identifier: Apache-2.0
// The compiled-in members of datasets/machines.json, models.json, throughput.json and memory.json, and files of
// datasets/papers.
#pragma once

#include <stddef.h>

// In alphabetical order; the last has no name.
struct plan_text {
    const char *name, *text;
    size_t bytes;
};
extern const struct plan_text plan_machine_texts[], plan_model_texts[], plan_paper_texts[], plan_throughput_texts[],
    plan_memory_texts[];
