// SPDX-License-Identifier: Apache-2.0
// The names that options take: `zerogauge help presets` and `zerogauge help models`, one name a line with its
// description. Shell completion reads the first word of each line.
#ifndef ZG_HELP_LISTS_H
#define ZG_HELP_LISTS_H

#include <stdio.h>

void help_lists_presets(FILE *out);
void help_lists_models(FILE *out);

#endif
