// SPDX-License-Identifier: Apache-2.0
// The table of all keys of a DeepSpeed configuration: type, range, and use here.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum config_type {
    CONFIG_BOOL,
    CONFIG_INTEGER,  // 5e8 counts as one
    CONFIG_NUMBER,
    CONFIG_STRING,
    CONFIG_BETAS,        // two numbers from 0 to below 1
    CONFIG_PATHS,        // a path, or an array of distinct paths
    CONFIG_ARRAY,        // of anything
    CONFIG_OBJECT,       // every key in it is in the table
    CONFIG_FREE_OBJECT,  // keys that are not in the table are accepted unchecked
};

enum config_use {
    KEY_USED,
    KEY_IGNORED,  // without effect here; accepted and reported
    KEY_FIXED,    // only the values in `only` are accepted
    KEY_ALIAS,    // another name of the key `target`
};

// Values that a key accepts in addition to those of its type.
enum { KEY_AUTO = 1, KEY_NULL = 2 };

struct config_key {
    const char *path;
    enum config_type type;
    enum config_use use;
    unsigned accepts;
    double min, max;      // KEY_USED, a number: inclusive
    const char *choices;  // KEY_USED, a string: "a|b|c"; null: any
    const char *only;     // KEY_FIXED: "a|b|c", each as JSON
    const char *why;      // KEY_FIXED: the reason in the message
    const char *target;   // KEY_ALIAS: the key's path
};

// The table's rows; null past the end.
const struct config_key *config_key_at(size_t index);

// The row of a dotted path; null if there is none.
const struct config_key *config_key_find(const char *path);

enum { CONFIG_PATH_BYTES = 256, CONFIG_HINT_BYTES = CONFIG_PATH_BYTES + 64 };

// Suggests a key for a path that is not in the table: `did you mean "stage"?`. Returns out.
const char *config_key_hint(char out[CONFIG_HINT_BYTES], const char *path);

// As config_key_hint, among the paths of another table; path_at returns null past its end, and its last result is not
// used after it is called again.
const char *config_hint(char out[CONFIG_HINT_BYTES], const char *path, const char *(*path_at)(size_t index));

// A program whose configuration is not DeepSpeed's, recognized by a file's outermost keys.
struct config_program {
    const char *name;
    const struct accelerate_row *rows;  // how its files are read (config_accelerate.h); null: they are not
    const char *advice;                 // the remedy for a file that is not read
    const char *keys[16];               // outermost ones, which other programs rarely have; null past the end
    const char *defaults[8];            // "path.to.key=value" for a file without the key; null past the end
    bool has_adapters;                  // a file that does not ask for full training is one of adapters
};

// The program to which most of these keys belong, at least two; null if there is none.
const struct config_program *config_program_of(const char *const keys[], size_t count);

// Names a program and the remedy. Returns out; null if the program is null or read.
const char *config_foreign_hint(char out[CONFIG_HINT_BYTES], const struct config_program *program);
