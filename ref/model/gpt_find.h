// SPDX-License-Identifier: Apache-2.0
// GPTs by name: a few known ones ("gpt-tiny"), any of them with other sizes ("gpt-tiny:layers=6,tiles=4"), and
// "gpt:...", short for gpt-tiny. Models live until the process ends; equal names find the same model.
#pragma once

#include "ref/model/model.h"

// The names of the known GPTs; NULL past the last.
const char *gpt_name(int index);

// True if the name up to a colon is a known GPT's or "gpt".
bool gpt_is_name(const char *name);

// Finds the model of such a name. KEY=VALUE,... may follow a colon; the keys are layers, width, heads, length,
// vocabulary, tiles, blocks, sequence_parallel, those of experts (experts, top, capacity, aux_loss) and those of
// adapters (lora.h). ERR_USAGE names the wrong key and the expected form.
int gpt_find(const char *name, const struct model **out);
