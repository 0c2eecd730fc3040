// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

json_t *config_doc_descend(json_t *object, const char *path)
{
    while (object && *path != '\0') {
        size_t bytes = strcspn(path, ".");
        object = json_object_getn(object, path, bytes);
        path += bytes + (path[bytes] == '.');
    }
    return object;
}

// The path under which the document has a key: its own, or another name of it.
static const char *written_path(const struct config_doc *doc, const char *path)
{
    const struct config_key *key;
    if (!config_doc_descend(doc->text.root, path))
        for (size_t i = 0; (key = config_key_at(i)) != NULL; i++)
            if (key->use == KEY_ALIAS && strcmp(key->target, path) == 0 &&
                config_doc_descend(doc->text.root, key->path))
                return key->path;
    return path;
}

const json_t *config_doc_value(const struct config_doc *doc, const char *path)
{
    assert(config_key_find(path) && "not in the table");
    return config_doc_descend(doc->text.root, written_path(doc, path));
}

static bool says_auto(const json_t *value)
{
    return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

bool config_doc_is_auto(const struct config_doc *doc, const char *path)
{
    return says_auto(config_doc_value(doc, path));
}

const json_t *config_doc_given(const struct config_doc *doc, const char *path)
{
    const json_t *value = config_doc_value(doc, path);
    return json_is_null(value) || says_auto(value) ? NULL : value;
}

double config_doc_number(const struct config_doc *doc, const char *path, double fallback)
{
    const json_t *value = config_doc_given(doc, path);
    return value ? json_number_value(value) : fallback;
}

int64_t config_doc_whole(const struct config_doc *doc, const char *path, int64_t fallback)
{
    const json_t *value = config_doc_given(doc, path);
    if (!value)
        return fallback;
    return json_is_integer(value) ? json_integer_value(value) : (int64_t)json_real_value(value);
}

size_t config_doc_size(const struct config_doc *doc, const char *path, int64_t fallback)
{
    return (size_t)config_doc_whole(doc, path, fallback);
}

bool config_doc_flag(const struct config_doc *doc, const char *path, bool fallback)
{
    const json_t *value = config_doc_given(doc, path);
    return value ? json_is_true(value) : fallback;
}

const char *config_doc_string(const struct config_doc *doc, const char *path, const char *fallback)
{
    const json_t *value = config_doc_given(doc, path);
    return value ? json_string_value(value) : fallback;
}

enum dtype config_doc_dtype(const struct config_doc *doc, const char *path, enum dtype fallback)
{
    const char *name = config_doc_string(doc, path, NULL);
    enum dtype dtype = fallback;
    return name && dtype_of_name(name, &dtype) ? dtype : fallback;
}

// True if an override sets the value at path or an object around it.
static bool sets(const char *override, const char *path)
{
    size_t bytes = strcspn(override, "=");
    return strncmp(override, path, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '.');
}

int config_doc_fail(const struct config_doc *doc, const char *path, const char *format, ...)
{
    assert(doc->text.root && path);
    char text[1024], shown[TEXT_MESSAGE_BYTES], shown_path[TEXT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    path = written_path(doc, path);
    text_message(shown_path, path, CONFIG_PATH_BYTES);
    for (size_t i = doc->options->set_count; i-- > 0;)
        if (sets(doc->options->set[i], path))
            return err_set(ERR_USAGE, "--set %s: %s: %s", text_message(shown, doc->options->set[i], CONFIG_PATH_BYTES),
                           shown_path, text);
    return err_set(ERR_USAGE, "%s:%d: %s: %s", doc->text.name, json_text_line(&doc->text, path), shown_path, text);
}

// The value of an override: JSON if it parses, a string otherwise.
static json_t *override_value(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    return value ? value : json_string(text);
}

int config_doc_set(json_t *root, const char *override)
{
    char shown[TEXT_MESSAGE_BYTES], path[CONFIG_PATH_BYTES];
    text_message(shown, override, CONFIG_PATH_BYTES);
    const char *equals = strchr(override, '=');
    // An empty part would be a key without a name.
    if (!equals || equals == override || *override == '.' || equals[-1] == '.' ||
        memmem(override, (size_t)(equals - override), "..", 2))
        return err_set(ERR_USAGE, "--set %s: expected path.to.key=value", shown);
    size_t bytes = (size_t)(equals - override);
    if (bytes >= sizeof path)
        return err_set(ERR_USAGE, "--set %s: the path is longer than any key", shown);
    memcpy(path, override, bytes);
    path[bytes] = '\0';
    json_t *object = root;
    char *part = path;
    for (char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
        *dot = '\0';
        json_t *next = json_object_get(object, part);
        if (!next || json_is_null(next)) {
            next = json_object();
            if (json_object_set_new(object, part, next))
                return err_set(ERR_USAGE, "--set %s: is not UTF-8", shown);
        }
        if (!json_is_object(next))
            return err_set(ERR_USAGE, "--set %s: \"%s\" is not an object, expected one around \"%s\"", shown, part,
                           dot + 1);
        object = next;
    }
    if (json_object_set_new(object, part, override_value(equals + 1)))
        return err_set(ERR_USAGE, "--set %s: is not UTF-8", shown);
    return ERR_NONE;
}

// DeepSpeed's form before 2020: true for stage 1, false for stage 0.
static int replace_legacy_stage(json_t *root)
{
    json_t *section = json_object_get(root, "zero_optimization");
    if (!json_is_boolean(section))
        return ERR_NONE;
    json_t *replaced = json_pack("{s:i}", "stage", json_is_true(section) ? 1 : 0);
    if (json_object_set_new(root, "zero_optimization", replaced))
        return err_set(ERR_MEMORY, "no memory for a configuration");
    return ERR_NONE;
}

int config_doc_open(const char *name, const char *text, size_t bytes, const struct config_options *options,
                    struct config_notes *notes, struct config_doc *out)
{
    size_t json_bytes;
    *out = (struct config_doc){.options = options, .notes = notes};
    if (!(out->json = config_json_of_hjson(text, bytes, &json_bytes)))
        return err_set(ERR_MEMORY, "%s: no memory for a configuration", name);
    int code = json_text_parse_form(name, out->json, json_bytes, "JSON or hjson, without NaN or Infinity", &out->text);
    if (code != ERR_NONE) {
        free(out->json);
        return code;
    }
    code = replace_legacy_stage(out->text.root);
    for (size_t i = 0; i < options->set_count && code == ERR_NONE; i++)
        code = config_doc_set(out->text.root, options->set[i]);
    if (code == ERR_NONE)
        code = replace_legacy_stage(out->text.root);
    if (code != ERR_NONE)
        config_doc_close(out);
    return code;
}

void config_doc_close(struct config_doc *doc)
{
    json_text_close(&doc->text);
    free(doc->json);
}

void config_doc_note(struct config_doc *doc, enum config_note_kind kind, const char *key)
{
    struct config_notes *notes = doc->notes;
    if (!notes)
        return;
    for (size_t i = 0; i < notes->count; i++)
        if (notes->notes[i].key == key)
            return;
    assert(notes->count < CONFIG_NOTE_MAX);
    notes->notes[notes->count++] = (struct config_note){.kind = kind, .key = key};
}

void config_doc_ignore(struct config_doc *doc, const char *path)
{
    struct config_notes *notes = doc->notes;
    if (!notes || !config_doc_value(doc, path))
        return;
    size_t bytes = strlen(path), kept = 0;
    for (size_t i = 0; i < notes->count; i++) {
        const char *key = notes->notes[i].key;
        bool inside = strncmp(key, path, bytes) == 0 && (key[bytes] == '\0' || key[bytes] == '.');
        if (!inside)
            notes->notes[kept++] = notes->notes[i];
    }
    notes->count = kept;
    config_doc_note(doc, CONFIG_IGNORED, config_key_find(path)->path);
}

void config_doc_note_old(struct config_doc *doc, const char *path, const char *name, const char *value)
{
    config_doc_note(doc, CONFIG_OLD, config_key_find(path)->path);
    if (!doc->notes)
        return;
    struct config_note *note = &doc->notes->notes[doc->notes->count - 1];
    snprintf(note->value, sizeof note->value, "%s \"%s\"", name, value);
}
