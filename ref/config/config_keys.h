// SPDX-License-Identifier: Apache-2.0
// The table of all keys of a DeepSpeed configuration: type, range, and what they mean here.
#ifndef ZG_CONFIG_KEYS_H
#define ZG_CONFIG_KEYS_H

#include <stddef.h>

enum config_type {
    CONFIG_BOOL,
    CONFIG_INTEGER,  // 5e8 counts as one
    CONFIG_NUMBER,
    CONFIG_STRING,
    CONFIG_BETAS,        // two numbers from 0 to below 1
    CONFIG_PATHS,        // a path, or an array of different ones
    CONFIG_ARRAY,        // of anything
    CONFIG_OBJECT,       // every key in it is in the table
    CONFIG_FREE_OBJECT,  // keys that are not in the table are accepted unseen
};

enum config_use {
    KEY_USED,
    KEY_IGNORED,  // without meaning here; accepted and reported
    KEY_FIXED,    // only the values in `only` can be honoured
    KEY_ALIAS,    // another name of the key `target`
};

// What a key accepts beside its type.
enum { KEY_AUTO = 1, KEY_NULL = 2 };

struct config_key {
    const char *path;
    enum config_type type;
    enum config_use use;
    unsigned accepts;
    double min, max;      // of a number that is used
    const char *choices;  // of a string that is used: "a|b|c"; null: any
    const char *only;     // fixed: "a|b|c", each as JSON
    const char *why;      // fixed: why nothing else
    const char *target;   // alias: the key's path
};

// The table's rows; null past the end.
const struct config_key *config_key_at(size_t index);

// The row of a dotted path; null: there is none.
const struct config_key *config_key_find(const char *path);

enum { CONFIG_PATH_BYTES = 256, CONFIG_HINT_BYTES = CONFIG_PATH_BYTES + 64 };

// For a path that is not in the table, which key may be meant: `did you mean "stage"?`. Returns out.
const char *config_key_hint(char out[CONFIG_HINT_BYTES], const char *path);

#endif
