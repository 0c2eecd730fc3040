// SPDX-License-Identifier: Apache-2.0
// GPTs by name: a few that are known ("gpt-tiny"), any of them with other sizes ("gpt-tiny:layers=6,tiles=4"), and
// "gpt:...", which stands for gpt-tiny. What is found lasts as long as the process; the same text finds the same model.
#ifndef ZG_GPT_FIND_H
#define ZG_GPT_FIND_H

#include "ref/model/model.h"

// The known GPTs' names; NULL when index is past the last.
const char *gpt_name(int index);

// Whether this is, up to a colon, a known GPT's name or "gpt".
bool gpt_is_name(const char *name);

// Of such a name. Behind the colon are KEY=NUMBER with commas between; the keys are layers, width, heads, length,
// vocabulary and tiles. ERR_USAGE names the key at fault and what is expected.
int gpt_find(const char *name, const struct model **out);

// GPTs of growing size, from 0.4 million parameters to 2 thousand million, each at most 1.5 times the one before, with
// sequences of 64 tokens; the deeper ones come before the wider ones. NULL in *out when index is past the last.
int gpt_family(int index, const struct model **out);

#endif
