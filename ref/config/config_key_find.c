// SPDX-License-Identifier: Apache-2.0
// The keys by path, and the known key that an unknown path most likely means.
#include "ref/config/config_keys.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const struct config_key *config_key_find(const char *path)
{
    const struct config_key *key;
    size_t i = 0;
    while ((key = config_key_at(i)) != NULL && strcmp(key->path, path) != 0)
        i++;
    return key;
}

static const char *leaf_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static size_t minimum(size_t a, size_t b)
{
    return a < b ? a : b;
}

// The least number of insertions, deletions, replacements and swaps of neighbours that turn a into b, ignoring case
// (restricted Damerau-Levenshtein). Only the first 64 bytes count.
static size_t edit_distance(const char *a, const char *b)
{
    enum { NAME_MAX_BYTES = 64 };
    size_t rows[3][NAME_MAX_BYTES + 1];
    size_t a_bytes = strnlen(a, NAME_MAX_BYTES), b_bytes = strnlen(b, NAME_MAX_BYTES);
    for (size_t j = 0; j <= b_bytes; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        const size_t *above = rows[(i - 1) % 3], *above_two = rows[(i + 1) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = minimum(minimum(above[j] + 1, row[j - 1] + 1), above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                row[j] = minimum(row[j], above_two[j - 2] + 1);
        }
    }
    return rows[a_bytes % 3][b_bytes];
}

const char *config_hint(char out[CONFIG_HINT_BYTES], const char *path, const char *(*path_at)(size_t index))
{
    const char *leaf = leaf_of(path), *at;
    size_t parent_bytes = (size_t)(leaf - path);
    char sibling[CONFIG_PATH_BYTES] = "", elsewhere[CONFIG_PATH_BYTES] = "";
    size_t sibling_distance = SIZE_MAX, elsewhere_distance = SIZE_MAX;
    for (size_t i = 0; (at = path_at(i)) != NULL; i++) {
        const char *name = leaf_of(at);
        size_t distance = edit_distance(leaf, name);
        bool beside = (size_t)(name - at) == parent_bytes && strncmp(at, path, parent_bytes) == 0;
        if (beside && distance < sibling_distance) {
            snprintf(sibling, sizeof sibling, "%s", at);
            sibling_distance = distance;
        } else if (!beside && distance < elsewhere_distance) {
            snprintf(elsewhere, sizeof elsewhere, "%s", at);
            elsewhere_distance = distance;
        }
    }
    size_t near = minimum(strlen(leaf) / 3, 6);
    if (sibling_distance <= near)
        snprintf(out, CONFIG_HINT_BYTES, "did you mean \"%s\"?", leaf_of(sibling));
    else if (elsewhere_distance <= near)
        snprintf(out, CONFIG_HINT_BYTES, "did you mean %s\"%s\"?", strchr(elsewhere, '.') ? "" : "the top-level key ",
                 elsewhere);
    else
        snprintf(out, CONFIG_HINT_BYTES, "the nearest known key is \"%s\"", *sibling ? leaf_of(sibling) : elsewhere);
    return out;
}

static const char *path_of_key(size_t index)
{
    const struct config_key *key = config_key_at(index);
    return key ? key->path : NULL;
}

const char *config_key_hint(char out[CONFIG_HINT_BYTES], const char *path)
{
    return config_hint(out, path, path_of_key);
}
