// SPDX-License-Identifier: Apache-2.0
// Test support: edits a result file as a careful forger would. Lines and digest of the edited file are right, and
// findings still refer to their records.
#pragma once

#include "results/record/record_test.h"

enum { EDIT_RECORD_MAX = 4096, EDIT_BYTES = 256 };

struct edited {
    json_t *records[EDIT_RECORD_MAX];
    json_t *targets[EDIT_RECORD_MAX];  // of a finding, the record of its line; borrowed
    size_t count;
};

static inline void edit_open(const char *path, struct edited *out)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    *out = (struct edited){0};
    cr_assert_not_null(file, "%s", path);
    while (getline(&line, &room, file) > 0) {
        cr_assert_lt(out->count, EDIT_RECORD_MAX);
        out->records[out->count++] = json_loads(line, 0, NULL);
    }
    for (size_t i = 0; i < out->count; i++) {
        json_int_t of = json_integer_value(json_object_get(out->records[i], "line"));
        out->targets[i] = of > 0 ? out->records[of - 1] : NULL;
    }
    free(line);
    fclose(file);
}

static inline void edit_close(struct edited *edited)
{
    for (size_t i = 0; i < edited->count; i++)
        json_decref(edited->records[i]);
}

static inline bool edit_is_called(const json_t *record, const char *name)
{
    static const char *const keys[] = {"name", "id", "kind", "model"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = json_string_value(json_object_get(record, keys[i]));
        if (text && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

// KIND, KIND:NAME or KIND:*; NAME is a name, an id, the kind of a finding, or a model.
static inline bool edit_matches(const json_t *record, const char *select)
{
    const char *kind = json_string_value(json_object_get(record, "record")), *name = strchr(select, ':');
    size_t length = strcspn(select, ":");
    if (strlen(kind) != length || strncmp(kind, select, length) != 0)
        return false;
    return !name || strcmp(name, ":*") == 0 || edit_is_called(record, name + 1);
}

static inline void edit_remove(struct edited *edited, size_t at)
{
    json_t *gone = edited->records[at];
    size_t rest = edited->count - at - 1;
    memmove(edited->records + at, edited->records + at + 1, rest * sizeof *edited->records);
    memmove(edited->targets + at, edited->targets + at + 1, rest * sizeof *edited->targets);
    edited->count--;
    for (size_t i = 0; i < edited->count; i++)
        if (edited->targets[i] == gone)
            edited->targets[i] = NULL;
    json_decref(gone);
}

// Puts a record, which it takes over, before the one that is there.
static inline void edit_insert(struct edited *edited, size_t at, json_t *record)
{
    size_t rest = edited->count - at;
    cr_assert_lt(edited->count, EDIT_RECORD_MAX);
    cr_assert_not_null(record);
    memmove(edited->records + at + 1, edited->records + at, rest * sizeof *edited->records);
    memmove(edited->targets + at + 1, edited->targets + at, rest * sizeof *edited->targets);
    edited->records[at] = record;
    edited->targets[at] = edited->targets[at + 1];
    edited->count++;
}

// Sets a member by its dotted path, with indices of arrays; an empty value removes it.
static inline void edit_set(json_t *record, const char *path, const char *value)
{
    size_t length = strcspn(path, ".");
    char key[EDIT_BYTES];
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    bool in_array = json_is_array(record);
    size_t index = strtoul(key, NULL, 10);
    if (path[length]) {
        json_t *inner = in_array ? json_array_get(record, index) : json_object_get(record, key);
        cr_assert_not_null(inner, "%s", path);
        edit_set(inner, path + length + 1, value);
        return;
    }
    json_t *new_value = *value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    cr_assert(!*value || new_value, "%s: %s", path, value);
    if (in_array)
        cr_assert_eq(json_array_set_new(record, index, new_value), 0, "%s", path);
    else if (new_value)
        json_object_set_new(record, key, new_value);
    else
        cr_assert_eq(json_object_del(record, key), 0, "%s", path);
}

// One change: "SELECT -" removes, "SELECT +" repeats, "SELECT >RECORD" puts a record after it, "SELECT PATH=VALUE"
// sets. Without `:*`, of the first match only.
static inline void edit_change(struct edited *edited, const char *change)
{
    char *words = strdup(change), *what, *value;
    bool found = false;
    cr_assert_not_null(what = strchr(words, ' '), "%s", change);
    *what++ = '\0';
    bool all = strstr(words, ":*") != NULL || *what == '-';
    if ((value = strchr(what, '=')))
        *value++ = '\0';
    for (size_t i = 0; i < edited->count && (all || !found); i++) {
        if (!edit_matches(edited->records[i], words))
            continue;
        found = true;
        if (strcmp(what, "-") == 0) {
            edit_remove(edited, i--);
        } else if (strcmp(what, "+") == 0) {
            edit_insert(edited, i, json_deep_copy(edited->records[i]));
            i++;
        } else if (*what == '>') {
            edit_insert(edited, i + 1, json_loads(what + 1, 0, NULL));
            edited->targets[++i] = NULL;
        } else {
            edit_set(edited->records[i], what, value);
            if (strcmp(what, "line") == 0)
                edited->targets[i] = NULL;
        }
    }
    cr_assert(found, "%s", change);
    free(words);
}

// Changes separated by "; ".
static inline void edit_apply(struct edited *edited, const char *changes)
{
    char change[EDIT_BYTES];
    for (const char *at = changes, *end; *at; at = *end ? end + 2 : end) {
        end = strstr(at, "; ");
        end = end ? end : at + strlen(at);
        snprintf(change, sizeof change, "%.*s", (int)(end - at), at);
        edit_change(edited, change);
    }
}

static inline size_t edit_line_of(const struct edited *edited, const json_t *record)
{
    for (size_t i = 0; i < edited->count; i++)
        if (edited->records[i] == record)
            return i + 1;
    return 0;
}

// Writes the file with right lines and digest. Returns its path.
static inline const char *edit_write(const struct edited *edited, const char *name)
{
    const char *lines[EDIT_RECORD_MAX + 1] = {0};
    for (size_t i = 0; i < edited->count; i++) {
        if (edited->targets[i])
            json_object_set_new(edited->records[i], "line",
                                json_integer((json_int_t)edit_line_of(edited, edited->targets[i])));
        lines[i] = json_dumps(edited->records[i], JSON_COMPACT);
    }
    const char *path = sample_write(name, lines);
    for (size_t i = 0; i < edited->count; i++)
        free((char *)(uintptr_t)lines[i]);
    return path;
}
