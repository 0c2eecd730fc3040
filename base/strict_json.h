// SPDX-License-Identifier: Apache-2.0
// Reads values of JSON objects with known keys. Every error is ERR_USAGE with "FILE:LINE: KEY.PATH: is VALUE, expected
// ...". The text owns all strings.
#pragma once

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

// An object in a text, and its dotted path: "" for the root.
enum { STRICT_PATH_BYTES = 256 };
struct strict_object {
    const char *file;
    const struct json_text *text;
    const json_t *value;
    char path[STRICT_PATH_BYTES];
};

// The root object of a text, which must outlive it.
struct strict_object strict_root(const struct json_text *text);

// Parses a text and has its root read; the context is the reader's own.
typedef int strict_reader(const struct strict_object *root, void *context);
int strict_parse(const char *name, const char *text, size_t bytes, strict_reader *read, void *context);

// Returns ERR_USAGE with "FILE:LINE: PATH.KEY: " and the formatted text; key "": the object itself.
int strict_fail(const struct strict_object *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Checks that the object has exactly these keys, ended by NULL. Keys with a '?' in front may be missing.
int strict_keys(const struct strict_object *object, const char *const keys[]);

// As strict_keys, of keys that are words of a text: "name ?note".
int strict_only(const struct strict_object *object, const char *keys);

int strict_bool(const struct strict_object *object, const char *key, bool *out);
int strict_integer(const struct strict_object *object, const char *key, int64_t low, int64_t high, int64_t *out);
int strict_int(const struct strict_object *object, const char *key, int low, int high, int *out);
int strict_size(const struct strict_object *object, const char *key, int64_t high, size_t *out);

// A finite number, whole or not.
int strict_real(const struct strict_object *object, const char *key, double *out);

// Copies a string without control characters to out, at most `room` bytes with the final zero.
int strict_string(const struct strict_object *object, const char *key, char *out, size_t room);

// A string of any length; borrowed.
int strict_text(const struct strict_object *object, const char *key, const char **out);

// The index of a string in the words, ended by NULL.
int strict_word(const struct strict_object *object, const char *key, const char *const words[], int *out);

int strict_object_of(const struct strict_object *object, const char *key, struct strict_object *out);

// An array of at least `low` and at most `high` elements.
int strict_array(const struct strict_object *object, const char *key, size_t low, size_t high, const json_t **out,
                 size_t *count);

// Has each element of such an array read, which must be an object. *count: how many there are.
typedef int strict_element_reader(const struct strict_object *element, size_t i, void *context);
int strict_each(const struct strict_object *object, const char *key, size_t low, size_t high,
                strict_element_reader *read, void *context, size_t *count);

// Element i of that array, which must be an object.
int strict_element(const struct strict_object *object, const char *key, const json_t *array, size_t i,
                   struct strict_object *out);
