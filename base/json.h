// SPDX-License-Identifier: Apache-2.0
// JSON text with places: jansson decides what is JSON and gives the values; beside them this keeps the line of every
// key, so that a message about a value can say where it stands, and refuses an object that names a key twice.
#ifndef ZG_JSON_H
#define ZG_JSON_H

#include <jansson.h>

#include <stddef.h>

// A longer text is refused; no configuration comes near it.
enum { JSON_TEXT_BYTES_MAX = 1 << 20 };

struct json_key;

struct json_text {
    json_t *root;           // an object; owned
    char *bytes;            // the text; keys point into it
    struct json_key *keys;  // in the order of the text; the first stands for the root
    size_t key_count, key_room;
    size_t *order;  // indices of keys, sorted by parent, then position in an array, then name
};

// Reads a file, up to one byte more than json_text_parse takes. ERR_USAGE if it cannot be read. The caller frees *text.
int json_read(const char *file, char **text, size_t *bytes);

// name stands for the file in messages. Nothing is kept of text. ERR_USAGE with `NAME:LINE: ...` for what is not a JSON
// object.
int json_text_parse(const char *name, const char *text, size_t bytes, struct json_text *out);

void json_text_close(struct json_text *text);

// The line of the key at a dotted path ("zero_optimization.stage", "params.3.shape"), counted from 1; where the text
// has it not, the line of the innermost object around it. A key with dots in its name is found, too.
int json_text_line(const struct json_text *text, const char *path);

// Writes text into out for a message: at most limit bytes of it, whole UTF-8 characters, control characters as \xNN,
// "..." where it is cut. Returns out.
enum { JSON_SHOW_BYTES = 512 };
const char *json_show(char out[JSON_SHOW_BYTES], const char *text, size_t limit);

#endif
