// SPDX-License-Identifier: Apache-2.0
// Values of JSON objects whose keys are all known. Each message is "FILE:LINE: KEY.PATH: is VALUE, expected WHAT", and
// each code ERR_USAGE. Strings belong to the text.
#ifndef ZG_STRICT_JSON_H
#define ZG_STRICT_JSON_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

// An object in a text, and the dotted path that leads to it: "" for the whole.
enum { STRICT_PATH_BYTES = 256 };
struct strict_object {
    const char *file;
    const struct json_text *text;
    const json_t *value;
    char path[STRICT_PATH_BYTES];
};

// The whole text, which must stay.
struct strict_object strict_root(const struct json_text *text);

// "FILE:LINE: PATH.KEY: " and the rest; key "" for the object itself.
int strict_fail(const struct strict_object *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The object has exactly these keys; a NULL ends them. Those behind a '?' may be missing.
int strict_keys(const struct strict_object *object, const char *const keys[]);

int strict_bool(const struct strict_object *object, const char *key, bool *out);
int strict_integer(const struct strict_object *object, const char *key, int64_t low, int64_t high, int64_t *out);
int strict_int(const struct strict_object *object, const char *key, int low, int high, int *out);
int strict_size(const struct strict_object *object, const char *key, int64_t high, size_t *out);

// A finite number; whole ones are numbers, too.
int strict_real(const struct strict_object *object, const char *key, double *out);

// Of at most `room` bytes with the zero at its end, which is copied to out; without control characters.
int strict_string(const struct strict_object *object, const char *key, char *out, size_t room);

// Of any length; borrowed.
int strict_text(const struct strict_object *object, const char *key, const char **out);

// One of the words, which NULL ends: its index.
int strict_word(const struct strict_object *object, const char *key, const char *const words[], int *out);

int strict_object_of(const struct strict_object *object, const char *key, struct strict_object *out);

// An array of at least `low` and at most `high` elements.
int strict_array(const struct strict_object *object, const char *key, size_t low, size_t high, const json_t **out,
                 size_t *count);

// Element i of that array, which must be an object.
int strict_element(const struct strict_object *object, const char *key, const json_t *array, size_t i,
                   struct strict_object *out);

#endif
