// SPDX-License-Identifier: Apache-2.0
// Reads untrusted JSON, and writes files of JSON; nothing else in the program does. jansson parses it; this file
// refuses objects with repeated keys and finds the line of a value for messages. strict_json.h reads values from the
// result.
#pragma once

#include "base/file.h"
#include "base/safe_text.h"

#include <jansson.h>

#include <stddef.h>

// The longest file that json_read accepts; configurations are much shorter.
enum { JSON_TEXT_BYTES_MAX = 1 << 20 };

struct json_text {
    json_t *root;       // an object; owned
    const char *name;   // of the file, in messages; owned by the caller
    const char *bytes;  // owned by the caller
    size_t byte_count;
};

// Reads a whole file. Fails as file_read_text does. The caller frees *text.
int json_read(const char *file, char **text, size_t *bytes);

// Parses an object or an array; line: the line of the file in which the text begins. ERR_USAGE with `NAME:LINE: ...`
// for any other text. The caller owns *out.
int json_parse(const char *name, int line, const char *text, size_t bytes, json_t **out);

// Parses an object. name and text must live until json_text_close. ERR_USAGE with `NAME:LINE: ...` for any other text.
int json_text_parse(const char *name, const char *text, size_t bytes, struct json_text *out);

// As above, of text that was made JSON: a message says that `form` was expected.
int json_text_parse_form(const char *name, const char *text, size_t bytes, const char *form, struct json_text *out);

// Writes an object or array to a file, with a line's end behind it; null: no memory for it. Fails as file_output_open
// and file_output_close do, and if there is no memory.
int json_write(const char *path, enum file_output_kind kind, const json_t *json, size_t flags);

void json_text_close(struct json_text *text);

// The line, from 1, of the value at a dotted path ("zero_optimization.stage", "params.3.shape"); if the text lacks it,
// the line of the innermost object or array around it. Keys may contain dots.
int json_text_line(const struct json_text *text, const char *path);

// Formats a value for a message: `4`, `"two"`, `[1,2]`, `an object`, `missing`. Returns out.
const char *json_message(char out[TEXT_MESSAGE_BYTES], const json_t *value);
