// SPDX-License-Identifier: Apache-2.0
// The one reader of untrusted JSON. jansson decides what is JSON and gives the values; this refuses an object that
// names a key twice, and finds the line of a value for messages. strict_json.h reads values out of it.
#ifndef ZG_JSON_H
#define ZG_JSON_H

#include "base/safe_text.h"

#include <jansson.h>

#include <stddef.h>

// The longest file that json_read takes; no configuration comes near it.
enum { JSON_TEXT_BYTES_MAX = 1 << 20 };

struct json_text {
    json_t *root;       // an object; owned
    const char *name;   // of the file, in messages; the caller's
    const char *bytes;  // the caller's
    size_t byte_count;
};

// Reads a whole file. ERR_USAGE if it cannot be read or is longer than JSON_TEXT_BYTES_MAX. The caller frees *text.
int json_read(const char *file, char **text, size_t *bytes);

// An object or an array; line is that of the text's beginning in the file. ERR_USAGE with `NAME:LINE: ...` for anything
// else. The caller owns *out.
int json_parse(const char *name, int line, const char *text, size_t bytes, json_t **out);

// An object. name and text must stay until the caller closes it. ERR_USAGE with `NAME:LINE: ...` for anything else.
int json_text_parse(const char *name, const char *text, size_t bytes, struct json_text *out);

void json_text_close(struct json_text *text);

// The line of the value at a dotted path ("zero_optimization.stage", "params.3.shape"), counted from 1; where the text
// lacks it, the line of the innermost object or array around it. The path may name a key that holds dots.
int json_text_line(const struct json_text *text, const char *path);

// A value for a message: `4`, `"two"`, `[1,2]`, `an object`, `missing`. Returns out.
const char *json_message(char out[TEXT_MESSAGE_BYTES], const json_t *value);

#endif
