// SPDX-License-Identifier: Apache-2.0
// Configurations as people write them: DeepSpeed reads its files as hjson.
#ifndef ZG_CONFIG_HJSON_H
#define ZG_CONFIG_HJSON_H

#include <stddef.h>

// Returns the text as JSON, with a zero behind it: comments become spaces; keys and strings get their quotes, values
// the commas between them, and the whole text its braces, where hjson (https://hjson.github.io/syntax.html, and the
// Python package that DeepSpeed reads with) lets one omit them. Values stay on their lines. What hjson refuses stays as
// it is from there on, and is then refused as JSON. The caller frees the result; null: no memory.
char *config_json_of_hjson(const char *text, size_t bytes, size_t *out_bytes);

#endif
