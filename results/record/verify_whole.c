// SPDX-License-Identifier: Apache-2.0
// Verifies that no record is there twice, and that a whole run has its benchmarks' cases (verify_cases.c), its health
// and its fits.
#include "results/record/verify_internal.h"

#include "ref/config/config.h"

#include <stdlib.h>
#include <string.h>

// Makes the text that tells a record from others of its kind; null: it may be repeated.
static json_t *identity_of(const json_t *record)
{
    static const struct {
        const char *kind, *keys[3];
    } kinds[] = {{"bench", {"name", "unit", "case"}},
                 {"skip", {"name", "case"}},
                 {"fit", {"model", "preset", "world"}},
                 {"band", {"id"}},
                 {"health", {"record"}},
                 {"requirement", {"id"}}};
    size_t k = 0, kind_count = sizeof kinds / sizeof kinds[0];
    while (k < kind_count && !verify_is(record, kinds[k].kind))
        k++;
    json_t *identity = k < kind_count ? json_pack("[s]", kinds[k].kind) : NULL;
    for (size_t i = 0; identity && i < 3 && kinds[k].keys[i]; i++)
        json_array_append(identity, json_object_get(record, kinds[k].keys[i]));
    return identity;
}

static void verify_once(struct verify *v)
{
    json_t *seen = json_object();
    for (size_t line = 1; line <= v->file->line_count; line++) {
        json_t *identity = identity_of(verify_record(v, line));
        char *text = identity ? json_dumps(identity, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        json_decref(identity);
        if (text && json_object_get(seen, text))
            verify_refuse(v, line, "case", "is another `%s` record's", verify_text(verify_record(v, line), "record"));
        else if (text)
            json_object_set_new(seen, text, json_true());
        free(text);
    }
    json_decref(seen);
}

static bool has_fit(const struct verify *v, const char *model, const char *preset)
{
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *fit = verify_record(v, line);
        if (verify_is(fit, "fit") && strcmp(verify_text(fit, "model"), model) == 0 &&
            (!preset || strcmp(verify_text(fit, "preset"), preset) == 0))
            return true;
    }
    return false;
}

static void verify_model_fits(struct verify *v, const char *model)
{
    const char *preset;
    for (size_t i = 0; (preset = config_preset_name(i)); i++)
        if (!has_fit(v, model, preset))
            verify_refuse(v, v->file->line_count, "record", "has no `fit` record of the model %s and the preset %s",
                          model, preset);
}

// Every model has all presets; without --model there are these two.
static void verify_all_fits(struct verify *v)
{
    static const char *const models[] = {"gpt2-124m", "llama-8b"};
    const json_t *word;
    size_t i;
    bool chosen = false;
    json_array_foreach (json_object_get(v->file->run, "command"), i, word)
        chosen |= strncmp(json_string_value(word), "--model", 7) == 0;
    for (i = 0; !chosen && i < 2; i++)
        if (!has_fit(v, models[i], NULL))
            verify_model_fits(v, models[i]);
    const char *last = "";
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *fit = verify_record(v, line);
        if (!verify_is(fit, "fit") || strcmp(verify_text(fit, "model"), last) == 0)
            continue;
        last = verify_text(fit, "model");
        verify_model_fits(v, last);
    }
}

// Runs read the health since the suite's second version.
static void verify_health_is_there(struct verify *v)
{
    const json_t *suite = json_object_get(v->file->run, "suite");
    bool found = json_integer_value(json_object_get(suite, "edition")) < 2;
    for (size_t line = 1; line <= v->file->line_count; line++)
        found |= verify_is(verify_record(v, line), "health");
    if (!found)
        verify_refuse(v, v->file->line_count, "record", "has no `health` record, as a whole run does");
}

void verify_whole(struct verify *v)
{
    verify_once(v);
    if (!v->file->end || strcmp(verify_text(v->file->end, "status"), "complete") != 0)
        return;
    verify_cases(v);
    if (strcmp(verify_text(v->file->run, "program"), "validate") != 0)
        return;
    verify_health_is_there(v);
    verify_all_fits(v);
}
