// SPDX-License-Identifier: Apache-2.0
// Checks records against schema.json, which is compiled in: the part of JSON Schema that it uses, and messages made of
// it. A `title` there is the text of what is expected where type and limits do not say it.
#include "results/record/record_check.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "results/record/record_rule.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, SHOWN_BYTES = 80, EXPECTED_BYTES = 512 };

// Where a value is: a member, or without a key an element; the record itself has no `outer`. Messages alone need text.
struct place {
    const struct place *outer;
    const char *key;
    size_t index;
};

static void words_text(const json_t *words, char out[EXPECTED_BYTES])
{
    size_t used = (size_t)snprintf(out, EXPECTED_BYTES, "one of"), i;
    json_t *word;
    json_array_foreach (words, i, word)
        if (json_is_string(word) && used < EXPECTED_BYTES)
            used +=
                (size_t)snprintf(out + used, EXPECTED_BYTES - used, "%s \"%s\"", i ? "," : "", json_string_value(word));
}

static void range_text(const struct rule *rule, char out[EXPECTED_BYTES])
{
    bool above = isfinite(rule->above);
    double least = isfinite(rule->least) ? rule->least : rule->above;
    char low[64] = "", high[64] = "";
    if (isfinite(least))
        snprintf(low, sizeof low, " %s %.16g", above ? "above" : "from", least);
    if (isfinite(rule->most))
        snprintf(high, sizeof high, " to %.16g", rule->most);
    snprintf(out, EXPECTED_BYTES, "%s%s%s", rule->types & RULE_INTEGER ? "a whole number" : "a number", low, high);
}

static void expected_text(const struct rule *rule, char out[EXPECTED_BYTES])
{
    if (rule->title)
        snprintf(out, EXPECTED_BYTES, "%s", rule->title);
    else if (rule->words)
        words_text(rule->words, out);
    else if (rule->constant)
        strcpy(out, "true");
    else if (rule->types & RULE_STRING)
        snprintf(out, EXPECTED_BYTES, "a string of at most %.0f characters", rule->length_most);
    else if (rule->types & RULE_BOOLEAN)
        strcpy(out, "true or false");
    else if (rule->types & RULE_ARRAY)
        snprintf(out, EXPECTED_BYTES, "an array of %.0f to %.0f elements", rule->count_least, rule->count_most);
    else if (isfinite(rule->key_length_most))
        snprintf(out, EXPECTED_BYTES, "an object of at most %.0f keys of at most %.0f characters", rule->count_most,
                 rule->key_length_most);
    else if (rule->types & RULE_OBJECT)
        strcpy(out, "an object");
    else
        range_text(rule, out);
    if (!rule->title && (rule->types & RULE_NULL || rule_has_word(rule, json_null())))
        strncat(out, ", or null", EXPECTED_BYTES - strlen(out) - 1);
}

static size_t path_text(const struct place *place, char out[PATH_BYTES])
{
    size_t at = place->outer ? path_text(place->outer, out) : 0, room = PATH_BYTES - at;
    const char *dot = at > 0 ? "." : "", *key = place->key || place->outer ? place->key : "";
    int more = key ? snprintf(out + at, room, "%s%.100s", dot, key) : snprintf(out + at, room, ".%zu", place->index);
    return (size_t)more < room ? at + (size_t)more : PATH_BYTES - 1;
}

// where: null asks only for the code.
static int refuse(const char *where, const struct place *place, const json_t *value, const struct rule *rule)
{
    char expected[EXPECTED_BYTES], shown[TEXT_MESSAGE_BYTES], shown_path[TEXT_MESSAGE_BYTES], path[PATH_BYTES];
    if (!where)
        return ERR_USAGE;
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    expected_text(rule, expected);
    text_message(shown, text ? text : "", SHOWN_BYTES);
    text_message(shown_path, path_text(place, path) > 0 ? path : "the record", PATH_BYTES);
    free(text);
    return value ? err_set(ERR_USAGE, "%s: %s: is %s, expected %s", where, shown_path, shown, expected)
                 : err_set(ERR_USAGE, "%s: %s: is missing, expected %s", where, shown_path, expected);
}

static int check(const char *where, const struct place *place, const json_t *value, const struct rule *rule);

static int check_members(const char *where, const struct place *place, const json_t *value, const struct rule *rule)
{
    const char *key;
    json_t *inner;
    for (size_t i = 0; i < rule->member_count; i++) {
        const struct rule_member *member = &rule->members[i];
        inner = json_object_get(value, member->key);
        if (inner || member->required)
            TRY(check(where, &(struct place){.outer = place, .key = member->key}, inner, member->rule));
    }
    if (rule->others)
        json_object_foreach ((json_t *)(uintptr_t)value, key, inner)
            TRY(check(where, &(struct place){.outer = place, .key = key}, inner, rule->others));
    return ERR_NONE;
}

static int check(const char *where, const struct place *place, const json_t *value, const struct rule *rule)
{
    json_t *one;
    size_t i;
    for (i = 0; value && i < rule->choice_count; i++)
        if (check(NULL, place, value, rule->choices[i]) == ERR_NONE)
            return ERR_NONE;
    if (!value || rule->choice_count > 0 || !rule_fits(rule, value))
        return refuse(where, place, value, rule);
    json_array_foreach (value, i, one)
        TRY(check(where, &(struct place){.outer = place, .index = i}, one, rule->items));
    return json_is_object(value) ? check_members(where, place, value, rule) : ERR_NONE;
}

int record_check(const char *where, const json_t *record)
{
    TRY(check(where, &(struct place){0}, record, rule_of_any()));
    return check(where, &(struct place){0}, record, rule_of_kind(record));
}

static bool is_member(const struct rule *rule, const char *key)
{
    size_t i = 0;
    while (i < rule->member_count && strcmp(rule->members[i].key, key) != 0)
        i++;
    return i < rule->member_count;
}

// A rule without members, or elements of a rule with some, allows any key.
static void trim(json_t *value, const struct rule *rule)
{
    const char *key;
    void *next;
    json_t *inner;
    size_t i, known = 0;
    if (rule->items && (rule->items->member_count > 0 || rule->items->items))
        json_array_foreach (value, i, inner)
            trim(inner, rule->items);
    for (i = 0; i < rule->member_count; i++)
        if ((inner = json_object_get(value, rule->members[i].key))) {
            trim(inner, rule->members[i].rule);
            known++;
        }
    if (rule->member_count == 0 || known == json_object_size(value))
        return;
    json_object_foreach_safe(value, next, key, inner) if (!is_member(rule, key)) json_object_del(value, key);
}

void record_trim(json_t *record)
{
    trim(record, rule_of_kind(record));
}
