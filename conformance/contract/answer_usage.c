// SPDX-License-Identifier: Apache-2.0
// usage.json: what an implementation says it holds and sends.
#include "conformance/contract/answer_check.h"

#include "base/err.h"
#include "base/strict_json.h"

#include <string.h>

const char *const answer_usage_kinds[USAGE_KIND_COUNT] = {
    [USAGE_PARAM] = "param",   [USAGE_GRAD] = "grad",       [USAGE_OPTIMIZER] = "optimizer",
    [USAGE_MASTER] = "master", [USAGE_PADDING] = "padding",
};
const char *const answer_usage_purposes[USAGE_PURPOSE_COUNT] = {[USAGE_REDUCE] = "reduce", [USAGE_GATHER] = "gather"};

// An object of counts, if it is there; a count may be missing, too.
static int read_counts(const struct strict_object *rank, const char *key, const char *const names[], int count,
                       uint64_t out[])
{
    struct strict_object counts;
    const char *name;
    json_t *value;
    if (!json_object_get(rank->value, key))
        return ERR_NONE;
    TRY(strict_object_of(rank, key, &counts));
    json_object_foreach ((json_t *)(uintptr_t)counts.value, name, value) {
        int i = 0;
        int64_t number = 0;
        (void)value;
        while (i < count && strcmp(names[i], name) != 0)
            i++;
        if (i == count)
            return strict_fail(&counts, name, "unknown key, expected only those of the contract");
        TRY(strict_integer(&counts, name, 0, INT64_MAX, &number));
        out[i] = (uint64_t)number;
    }
    return ERR_NONE;
}

static int read_all(const struct strict_object *root, int world, struct answer_usage usage[])
{
    static const char *const root_keys[] = {"ranks", NULL};
    static const char *const rank_keys[] = {"?held_bytes", "?sent_bytes", "?calls", NULL};
    const json_t *ranks;
    size_t count;
    TRY(strict_keys(root, root_keys));
    TRY(strict_array(root, "ranks", (size_t)world, (size_t)world, &ranks, &count));
    for (size_t i = 0; i < count; i++) {
        struct strict_object rank;
        TRY(strict_element(root, "ranks", ranks, i, &rank));
        TRY(strict_keys(&rank, rank_keys));
        TRY(read_counts(&rank, "held_bytes", answer_usage_kinds, USAGE_KIND_COUNT, usage[i].held_bytes));
        TRY(read_counts(&rank, "sent_bytes", answer_usage_purposes, USAGE_PURPOSE_COUNT, usage[i].sent_bytes));
        TRY(read_counts(&rank, "calls", answer_usage_purposes, USAGE_PURPOSE_COUNT, usage[i].calls));
    }
    return ERR_NONE;
}

int answer_usage_parse(const char *name, const char *text, size_t bytes, int world, struct answer_usage usage[])
{
    struct json_text parsed;
    memset(usage, 0xff, (size_t)world * sizeof usage[0]);  // UINT64_MAX everywhere
    TRY(json_text_parse(name, text, bytes, &parsed));
    struct strict_object root = strict_root(name, &parsed);
    int rc = read_all(&root, world, usage);
    json_text_close(&parsed);
    return rc;
}
