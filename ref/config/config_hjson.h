// SPDX-License-Identifier: Apache-2.0
// Configurations as people write them: DeepSpeed reads its files as hjson.
#ifndef ZG_CONFIG_HJSON_H
#define ZG_CONFIG_HJSON_H

#include <stddef.h>

// Returns the text as JSON, with a zero behind it: comments (#, //, /* */) and commas before a closing bracket become
// spaces, and a text that starts with a key gets the braces that hjson lets one omit. Values stay on their lines. Keys
// without quotes and values without commas between them stay as they are, and are then refused as JSON. The caller
// frees the result; null: no memory.
char *config_json_of_hjson(const char *text, size_t bytes, size_t *out_bytes);

#endif
