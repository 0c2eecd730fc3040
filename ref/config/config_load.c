// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config.h"

#include "base/safe_text.h"
#include "ref/config/config_doc.h"
#include "ref/config/config_presets.h"
#include "base/err.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int config_load_text(const char *name, const char *text, size_t bytes, const struct config_options *options,
                     struct config *out, struct config_notes *notes)
{
    struct config_doc doc;
    assert(name && text && options && out);
    assert(options->steps <= INT64_MAX);
    *out = (struct config){0};
    if (notes)
        notes->count = 0;
    if (options->world < 1)
        return err_set(ERR_USAGE, "the world is %d ranks, expected at least 1", options->world);
    TRY(config_doc_open(name, text, bytes, options, notes, &doc));
    int code = config_resolve(&doc, out);
    if (code == ERR_NONE && notes)
        config_notes_fill(notes, out);
    config_doc_close(&doc);
    return code;
}

// Another program's text as DeepSpeed's keys.
struct foreign {
    const char *name;  // of its file
    json_t *json;
    json_t *places;  // of its keys in the text
};

// Puts what another program's file says into a configuration of DeepSpeed that it names, as Hugging Face's trainers do:
// where that has "auto" or nothing.
static int fill(const struct foreign *of, json_t *into, json_t *changes, const char *path, const char *file)
{
    const char *key;
    json_t *value;
    json_object_foreach (changes, key, value) {
        char child[CONFIG_PATH_BYTES], said[TEXT_MESSAGE_BYTES], written[TEXT_MESSAGE_BYTES];
        json_t *old = json_object_get(into, key);
        snprintf(child, sizeof child, "%s%s%s", path, *path ? "." : "", key);
        bool is_auto = json_is_string(old) && strcmp(json_string_value(old), "auto") == 0;
        bool is_nothing = json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
        bool is_same = json_is_number(old) && json_is_number(value) ? json_number_value(old) == json_number_value(value)
                                                                    : json_equal(old, value);
        const char *place = json_string_value(json_object_get(of->places, child));
        if (json_is_object(old) && json_is_object(value))
            TRY(fill(of, old, value, child, file));
        else if (!old || json_is_null(old) || is_auto)
            json_object_set(into, key, value);
        else if (!is_nothing && !is_same)
            return err_set(ERR_USAGE, "%s:%s: is %s, but %s is %s in %s, expected the same, or \"auto\" there",
                           of->name, place ? place : child, json_message(said, value), child,
                           json_message(written, old), file);
    }
    return ERR_NONE;
}

// Reads a file that another one names by a path from the working folder or, failing that, from its own.
static int read_named(const char *name, const char *path, char **text, size_t *bytes, char found[PATH_MAX])
{
    const char *end = strrchr(name, '/');
    snprintf(found, PATH_MAX, "%s", path);
    if (access(found, R_OK) != 0 && end && *path != '/')
        snprintf(found, PATH_MAX, "%.*s/%s", (int)(end - name), name, path);
    int code = json_read(found, text, bytes);
    return code == ERR_NONE ? code : err_prefix(code, "%s: the file of DeepSpeed that it names", name);
}

// The steps of a named file's warm-up that are "auto": a trainer's number, or share of the run's.
static void fill_warmup(json_t *root, json_t *own, uint64_t steps)
{
    json_t *params = config_doc_descend(root, "scheduler.params"), *old = json_object_get(params, "warmup_num_steps");
    double warmup = json_number_value(json_object_get(own, "warmup"));
    warmup = warmup < 1 ? ceil(warmup * (double)steps) : warmup;
    if (!json_is_string(old) || strcmp(json_string_value(old), "auto") != 0 || !(warmup >= 1 && warmup < 1e15))
        return;
    json_object_set_new(params, "warmup_num_steps", json_integer((json_int_t)warmup));
    json_object_del(own, "warmup");
}

static int fill_from(struct foreign *of, const char *file, const char *text, size_t bytes, json_t *own, uint64_t steps)
{
    const struct config_options none = {.world = 1};
    struct config_doc doc;
    TRY(config_doc_open(file, text, bytes, &none, NULL, &doc));
    int code = config_doc_check(&doc);
    if (code == ERR_NONE)
        code = fill(of, doc.text.root, of->json, "", file);
    fill_warmup(doc.text.root, own, steps);
    json_decref(of->json);
    of->json = json_incref(doc.text.root);
    config_doc_close(&doc);
    return code;
}

// Replaces the keys by those of the file of DeepSpeed that is named, or is in the text, with the keys in it.
static int fill_named(struct foreign *of, json_t *own, uint64_t steps)
{
    const json_t *named = json_object_get(own, "file");
    char *text = NULL, file[PATH_MAX];
    size_t bytes;
    if (json_is_string(named))
        TRY(read_named(of->name, json_string_value(named), &text, &bytes, file));
    else if (named && !(text = json_dumps(named, JSON_COMPACT)))
        return err_set(ERR_MEMORY, "%s: no memory for a configuration", of->name);
    else
        bytes = named ? strlen(text) : 0;
    int code = named ? fill_from(of, json_is_string(named) ? file : of->name, text, bytes, own, steps) : ERR_NONE;
    free(text);
    return code;
}

// Names line and key of the text in the message `NAME:1: PATH: ...`, where a key of the text set the path.
static int place_error(const struct foreign *of, int code)
{
    char message[ERR_MESSAGE_BYTES], *rest = message + strlen(of->name) + strlen(":1: ");
    err_keep(message);
    if (strncmp(message, of->name, strlen(of->name)) != 0 || strlen(message) < (size_t)(rest - message))
        return code;
    char *end = strchr(rest, ':');
    json_t *place = end ? json_object_getn(of->places, rest, (size_t)(end - rest)) : NULL;
    if (end && !place) {  // of DeepSpeed's object in the text
        char path[ERR_MESSAGE_BYTES + sizeof "own.deepspeed."];
        snprintf(path, sizeof path, "own.deepspeed.%.*s", (int)(end - rest), rest);
        place = json_object_get(of->places, path);
    }
    return place ? err_set(code, "%s:%s%s", of->name, json_string_value(place), end) : code;
}

static int load_keys(const struct foreign *of, const struct config_options *options, struct config *out,
                     struct config_notes *notes)
{
    json_t *optimizer = json_object_get(of->json, "optimizer");
    if (json_is_object(optimizer) && !json_object_get(optimizer, "type"))
        json_object_set_new(optimizer, "type", json_string("AdamW"));
    char *text = json_dumps(of->json, JSON_COMPACT);
    if (!text)
        return err_set(ERR_MEMORY, "%s: no memory for a configuration", of->name);
    int code = config_load_text(of->name, text, strlen(text), options, out, notes);
    free(text);
    return code == ERR_NONE ? code : place_error(of, code);
}

static int read_foreign(const char *name, const char *text, size_t bytes, const struct config_options *options,
                        struct config_notes *notes, json_t **out)
{
    const char *end = strrchr(name, '.');
    if (!end || strcmp(end, ".toml") != 0)
        return config_read_foreign(name, text, bytes, options, notes, out);
    size_t yaml_bytes;
    char *yaml = config_yaml_of_toml(text, bytes, &yaml_bytes);
    int code = yaml ? config_read_foreign(name, yaml, yaml_bytes, options, notes, out)
                    : err_set(ERR_MEMORY, "%s: no memory for a configuration", name);
    free(yaml);
    return code;
}

// A warm-up that has found its place is not left out.
static void note_foreign(const struct config_notes *own_notes, const json_t *own, struct config_notes *notes)
{
    bool has_warmup = json_object_get(own, "warmup");
    for (size_t i = 0; i < own_notes->count && notes->count < CONFIG_NOTE_MAX; i++)
        if (has_warmup || strncmp(own_notes->notes[i].value, "warmup_", strlen("warmup_")) != 0)
            notes->notes[notes->count++] = own_notes->notes[i];
}

static int load_foreign(const char *name, const char *text, size_t bytes, const struct config_options *options,
                        struct config *out, struct config_notes *notes)
{
    struct config_notes own_notes = {0};
    struct foreign of = {.name = name};
    TRY(read_foreign(name, text, bytes, options, &own_notes, &of.json));
    json_t *own = json_incref(json_object_get(of.json, "own"));
    of.places = json_object_get(own, "places");
    json_object_del(of.json, "own");
    int code = fill_named(&of, own, options->steps);
    if (code == ERR_NONE)
        code = load_keys(&of, options, out, notes);
    out->is_fsdp = code == ERR_NONE && json_object_get(own, "fsdp");
    if (code == ERR_NONE && notes)
        note_foreign(&own_notes, own, notes);
    json_decref(of.json);
    json_decref(own);
    return code;
}

int config_plan_words(const char *file, json_t **out)
{
    const struct config_options options = {.world = 1, .plans = true};
    char *text;
    size_t bytes;
    json_t *json = NULL;
    TRY(json_read(file, &text, &bytes));
    int code = config_is_foreign(file, text, bytes) ? read_foreign(file, text, bytes, &options, NULL, &json) : ERR_NONE;
    free(text);
    *out = json_incref(config_doc_descend(json, "own.plan"));
    json_decref(json);
    return code;
}

int config_load_file(const char *file, const struct config_options *options, struct config *out,
                     struct config_notes *notes)
{
    char *text;
    size_t bytes;
    TRY(json_read(file, &text, &bytes));
    int code = config_is_foreign(file, text, bytes) ? load_foreign(file, text, bytes, options, out, notes)
                                                    : config_load_text(file, text, bytes, options, out, notes);
    free(text);
    out->is_of_file = code == ERR_NONE;
    return code;
}

int config_load_preset(const char *name, const struct config_options *options, struct config *out,
                       struct config_notes *notes)
{
    char names[512] = "";
    size_t used = 0;
    for (const struct config_preset *preset = config_presets; preset->name; preset++) {
        if (strcmp(preset->name, name) == 0)
            return config_load_text(name, preset->text, preset->bytes, options, out, notes);
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", preset->name);
    }
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "unknown preset \"%s\", expected one of %s", text_message(shown, name, 60), names);
}

const char *config_preset_name(size_t index)
{
    size_t count = 0;
    while (config_presets[count].name)
        count++;
    return index < count ? config_presets[index].name : NULL;
}

const char *config_device_name(enum ledger_tier tier)
{
    static const char *const NAMES[TIER_COUNT] = {[TIER_DEVICE] = "none", [TIER_HOST] = "cpu", [TIER_NVME] = "nvme"};
    assert((unsigned)tier < TIER_COUNT);
    return NAMES[tier];
}

const char *config_optimizer_name(const struct config *config)
{
    return config->uses_muon ? "Muon" : "Adam";
}
