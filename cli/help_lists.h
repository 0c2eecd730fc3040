// SPDX-License-Identifier: Apache-2.0
// The lists of `zerogauge help presets` and `zerogauge help models`: one name per line with its description.
#ifndef ZG_HELP_LISTS_H
#define ZG_HELP_LISTS_H

#include <stdio.h>

void help_lists_presets(FILE *out);
void help_lists_models(FILE *out);

#endif
