// SPDX-License-Identifier: Apache-2.0
// usage.json: what an implementation says it holds and sends.
#include "answer_check.h"

#include "err.h"
#include "json.h"

#include <stdio.h>
#include <string.h>

const char *const answer_usage_kinds[USAGE_KIND_COUNT] = {
    [USAGE_PARAM] = "param",   [USAGE_GRAD] = "grad",       [USAGE_OPTIMIZER] = "optimizer",
    [USAGE_MASTER] = "master", [USAGE_PADDING] = "padding",
};
const char *const answer_usage_purposes[USAGE_PURPOSE_COUNT] = {[USAGE_REDUCE] = "reduce", [USAGE_GATHER] = "gather"};

enum { PLACE_BYTES = 256, PARENT_BYTES = 32 };  // what is longer is cut in messages

struct reader {
    const char *name;
    const struct json_text *text;
};

static int refuse(const struct reader *reader, const char *place, const char *what)
{
    char shown[JSON_SHOW_BYTES];
    return err_set(ERR_USAGE, "%s:%d: %s: %s", reader->name, json_text_line(reader->text, place),
                   json_show(shown, place, 100), what);
}

// An object of counts, of some of these keys.
static int read_counts(const struct reader *reader, const char *parent, const char *key, const json_t *counts,
                       const char *const names[], int name_count, uint64_t out[])
{
    char place[PLACE_BYTES];
    const char *name;
    json_t *value;
    snprintf(place, sizeof place, "%s.%.80s", parent, key);
    if (!json_is_object(counts))
        return refuse(reader, place, "expected an object");
    json_object_foreach((json_t *)(uintptr_t)counts, name, value) {
        int i = 0;
        snprintf(place, sizeof place, "%s.%.80s.%.80s", parent, key, name);
        while (i < name_count && strcmp(names[i], name) != 0)
            i++;
        if (i == name_count)
            return refuse(reader, place, "is no key of this file");
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return refuse(reader, place, "expected a whole number from 0 on");
        out[i] = (uint64_t)json_integer_value(value);
    }
    return ERR_NONE;
}

static int read_rank(const struct reader *reader, int rank, const json_t *object, struct answer_usage *out)
{
    char parent[PARENT_BYTES], place[PLACE_BYTES];
    const char *key;
    json_t *value;
    snprintf(parent, sizeof parent, "ranks.%d", rank);
    if (!json_is_object(object))
        return refuse(reader, parent, "expected an object");
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        snprintf(place, sizeof place, "%s.%.80s", parent, key);
        if (strcmp(key, "held_bytes") == 0)
            TRY(read_counts(reader, parent, key, value, answer_usage_kinds, USAGE_KIND_COUNT, out->held_bytes));
        else if (strcmp(key, "sent_bytes") == 0)
            TRY(read_counts(reader, parent, key, value, answer_usage_purposes, USAGE_PURPOSE_COUNT, out->sent_bytes));
        else if (strcmp(key, "calls") == 0)
            TRY(read_counts(reader, parent, key, value, answer_usage_purposes, USAGE_PURPOSE_COUNT, out->calls));
        else
            return refuse(reader, place, "is no key of this file");
    }
    return ERR_NONE;
}

static int read_all(const struct reader *reader, int world, struct answer_usage usage[])
{
    const char *key;
    json_t *value;
    json_object_foreach(reader->text->root, key, value)
        if (strcmp(key, "ranks") != 0)
            return refuse(reader, key, "is no key of this file");
    const json_t *ranks = json_object_get(reader->text->root, "ranks");
    if (!json_is_array(ranks) || json_array_size(ranks) != (size_t)world) {
        char what[64];
        snprintf(what, sizeof what, "expected a list of one object for each of %d ranks", world);
        return refuse(reader, "ranks", what);
    }
    for (int rank = 0; rank < world; rank++)
        TRY(read_rank(reader, rank, json_array_get(ranks, (size_t)rank), &usage[rank]));
    return ERR_NONE;
}

int answer_usage_parse(const char *name, const char *text, size_t bytes, int world, struct answer_usage usage[])
{
    struct json_text parsed;
    memset(usage, 0xff, (size_t)world * sizeof usage[0]);  // UINT64_MAX everywhere
    TRY(json_text_parse(name, text, bytes, &parsed));
    struct reader reader = {.name = name, .text = &parsed};
    int rc = read_all(&reader, world, usage);
    json_text_close(&parsed);
    return rc;
}
