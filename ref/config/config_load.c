// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config.h"

#include "base/safe_text.h"
#include "ref/config/config_doc.h"
#include "ref/config/config_presets.h"
#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static int load_accelerate(const char *name, const char *text, size_t bytes, const struct config_options *options,
                           struct config *out, struct config_notes *notes)
{
    struct config_notes own = {0};
    json_t *json = NULL;
    TRY(config_read_accelerate(name, text, bytes, &own, &json));
    char *deepspeed = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (!deepspeed)
        return err_set(ERR_MEMORY, "%s: no memory for a configuration", name);
    int code = config_load_text(name, deepspeed, strlen(deepspeed), options, out, notes);
    free(deepspeed);
    for (size_t i = 0; notes && i < own.count && notes->count < CONFIG_NOTE_MAX; i++)
        notes->notes[notes->count++] = own.notes[i];
    return code;
}

int config_load_file(const char *file, const struct config_options *options, struct config *out,
                     struct config_notes *notes)
{
    char *text;
    size_t bytes;
    TRY(json_read(file, &text, &bytes));
    int code = config_is_accelerate(file, text, bytes) ? load_accelerate(file, text, bytes, options, out, notes)
                                                       : config_load_text(file, text, bytes, options, out, notes);
    free(text);
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
