// SPDX-License-Identifier: Apache-2.0
// Checks every key of a configuration against the table.
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_whole(const json_t *value)
{
    double number = json_number_value(value);
    return json_is_integer(value) || (json_is_real(value) && number == trunc(number) && fabs(number) < 0x1p63);
}

static bool is_betas(const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) != 2)
        return false;
    for (size_t i = 0; i < 2; i++) {
        const json_t *beta = json_array_get(value, i);
        if (!json_is_number(beta) || json_number_value(beta) < 0 || json_number_value(beta) >= 1)
            return false;
    }
    return true;
}

static bool is_path(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) > 0 && json_string_length(value) < CONFIG_PATH_NAME_BYTES;
}

static bool is_paths(const json_t *value)
{
    if (!json_is_array(value))
        return is_path(value);
    size_t count = json_array_size(value);
    for (size_t i = 0; i < count && count <= CONFIG_NVME_PATH_MAX; i++) {
        if (!is_path(json_array_get(value, i)))
            return false;
        for (size_t j = 0; j < i; j++)
            if (json_equal(json_array_get(value, i), json_array_get(value, j)))
                return false;
    }
    return count > 0 && count <= CONFIG_NVME_PATH_MAX;
}

static bool has_type(enum config_type type, const json_t *value)
{
    switch (type) {
    case CONFIG_BOOL:
        return json_is_boolean(value);
    case CONFIG_INTEGER:
        return is_whole(value);
    case CONFIG_NUMBER:
        return json_is_number(value);
    case CONFIG_STRING:
        return json_is_string(value);
    case CONFIG_BETAS:
        return is_betas(value);
    case CONFIG_PATHS:
        return is_paths(value);
    case CONFIG_ARRAY:
        return json_is_array(value);
    case CONFIG_OBJECT:
    case CONFIG_FREE_OBJECT:
        break;
    }
    return json_is_object(value);
}

static bool in_range(const struct config_key *key, const json_t *value)
{
    if (key->use != KEY_USED || !json_is_number(value))
        return true;
    double number = json_number_value(value);
    return number >= key->min && number <= key->max;
}

// True if text is one of "a|b|c".
static bool is_choice(const char *choices, const char *text)
{
    size_t bytes = strlen(text);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == bytes && memcmp(at, text, bytes) == 0)
            return true;
    return false;
}

// Describes the values that a key accepts, for a message. Returns out.
static const char *expectation(const struct config_key *key, char *out, size_t room)
{
    static const char *const NAMES[] = {[CONFIG_BOOL] = "true or false",
                                        [CONFIG_INTEGER] = "a whole number",
                                        [CONFIG_NUMBER] = "a number",
                                        [CONFIG_STRING] = "a string",
                                        [CONFIG_BETAS] = "an array of two numbers from 0 to below 1",
                                        [CONFIG_ARRAY] = "an array",
                                        [CONFIG_OBJECT] = "an object",
                                        [CONFIG_FREE_OBJECT] = "an object"};
    bool ranged = key->use == KEY_USED && (key->type == CONFIG_INTEGER || key->type == CONFIG_NUMBER);
    if (key->choices) {
        const char *at = key->choices;
        int used = snprintf(out, room, "one of \"%.*s\"", (int)strcspn(at, "|"), at);
        while ((at = strchr(at, '|')) != NULL) {
            at++;
            used += snprintf(out + used, room - (size_t)used, ", \"%.*s\"", (int)strcspn(at, "|"), at);
        }
    } else if (key->type == CONFIG_PATHS) {
        snprintf(out, room, "a path of 1 to %d bytes or an array of 1 to %d different ones", CONFIG_PATH_NAME_BYTES - 1,
                 CONFIG_NVME_PATH_MAX);
    } else if (ranged && key->min == 0 && key->max == 0x1p63) {
        snprintf(out, room, "%s, at least 0", NAMES[key->type]);
    } else if (ranged && key->max != 0x1p63) {
        snprintf(out, room, "%s from %g to %g", NAMES[key->type], key->min, key->max);
    } else {
        snprintf(out, room, "%s", NAMES[key->type]);
    }
    return out;
}

// True if a fixed key has one of its values; numbers compare by value: 1.0 equals 1.
static bool is_honoured(const struct config_key *key, const json_t *value)
{
    for (const char *at = key->only; at && *at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        json_t *only = json_loadb(at, strcspn(at, "|"), JSON_DECODE_ANY, NULL);
        bool equal = json_is_number(only) && json_is_number(value) ? json_number_value(only) == json_number_value(value)
                                                                   : json_equal(only, value);
        json_decref(only);
        if (equal)
            return true;
    }
    return false;
}

static int refuse_fixed(const struct config_doc *doc, const struct config_key *key, const char *path,
                        const json_t *value)
{
    char shown[TEXT_MESSAGE_BYTES];
    json_message(shown, value);
    if (key->only[0] == '\0')
        return config_doc_fail(doc, path, "is not a parameter of the optimizer; remove it: %s", key->why);
    if (!has_type(key->type, value)) {
        char expected[128];
        return config_doc_fail(doc, path, "is %s, expected %s", shown, expectation(key, expected, sizeof expected));
    }
    return config_doc_fail(doc, path, "is %s, expected %.*s: %s", shown, (int)strcspn(key->only, "|"), key->only,
                           key->why);
}

static int check_object(struct config_doc *doc, const struct config_key *parent, json_t *object, const char *path);

// path is the key as written; key is its row, or its target's where it is an alias.
static int check_value(struct config_doc *doc, const struct config_key *key, json_t *value, const char *path)
{
    char shown[TEXT_MESSAGE_BYTES], expected[192];
    if ((key->accepts & KEY_AUTO) && json_is_string(value) && strcmp(json_string_value(value), "auto") == 0) {
        if (key->use != KEY_IGNORED)
            config_doc_note(doc, CONFIG_AUTO, key->path);
        return ERR_NONE;
    }
    if ((key->accepts & KEY_NULL) && json_is_null(value))
        return ERR_NONE;
    if (key->use == KEY_FIXED)
        return is_honoured(key, value) ? ERR_NONE : refuse_fixed(doc, key, path, value);
    if (!has_type(key->type, value) || !in_range(key, value) ||
        (key->choices && !is_choice(key->choices, json_string_value(value))))
        return config_doc_fail(doc, path, "is %s, expected %s", json_message(shown, value),
                               expectation(key, expected, sizeof expected));
    if (json_is_object(value))
        return check_object(doc, key, value, path);
    return ERR_NONE;
}

static int check_alias(struct config_doc *doc, const struct config_key *alias, json_t *value)
{
    if (config_doc_descend(doc->text.root, alias->target))
        return config_doc_fail(doc, alias->path,
                               "is another name of %s, which is also given; expected only one of them", alias->target);
    return check_value(doc, config_key_find(alias->target), value, alias->path);
}

static int check_object(struct config_doc *doc, const struct config_key *parent, json_t *object, const char *path)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        char child[CONFIG_PATH_BYTES], hint[CONFIG_HINT_BYTES];
        int bytes = snprintf(child, sizeof child, "%s%s%s", path, *path ? "." : "", name);
        // A key with a dot in it would look like a path.
        const struct config_key *key =
            (size_t)bytes < sizeof child && !strchr(name, '.') ? config_key_find(child) : NULL;
        if (!key && (*name == '_' || (parent && parent->type == CONFIG_FREE_OBJECT)))
            continue;  // people write comments as keys that begin with _
        if (!key && strchr(name, '.'))
            return config_doc_fail(doc, child, "unknown key, expected objects inside objects instead of dots");
        if (!key) {
            const char *foreign = *path ? NULL : config_foreign_hint(hint, config_program_of_json(object));
            return config_doc_fail(doc, child, "unknown key; %s", foreign ? foreign : config_key_hint(hint, child));
        }
        const struct config_key *meant = key->use == KEY_ALIAS ? config_key_find(key->target) : key;
        // One note on an ignored section is enough.
        if (meant->use == KEY_IGNORED && !(parent && parent->use == KEY_IGNORED))
            config_doc_note(doc, CONFIG_IGNORED, meant->path);
        TRY(key->use == KEY_ALIAS ? check_alias(doc, key, value) : check_value(doc, key, value, child));
    }
    return ERR_NONE;
}

int config_doc_check(struct config_doc *doc)
{
    return check_object(doc, NULL, doc->text.root, "");
}
