// SPDX-License-Identifier: Apache-2.0
#include "ref/model/names/model_find.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "ref/model/gpt_find.h"
#include "ref/model/linear.h"
#include "ref/model/llama/llama.h"
#include "ref/model/lora/lora.h"

#include <stdio.h>
#include <string.h>

// Names consist of visible characters, so that every message can show them.
static bool is_plain(const char *name)
{
    while (*name >= ' ' && *name <= '~')
        name++;
    return *name == '\0';
}

const char *model_name(int index)
{
    int gpts = 0, llamas = 0;
    while (gpt_name(gpts))
        gpts++;
    while (llama_name(llamas))
        llamas++;
    if (index < gpts)
        return gpt_name(index);
    if (index < gpts + llamas)
        return llama_name(index - gpts);
    const struct model *model = linear_model(index - gpts - llamas);
    return model ? model->name : NULL;
}

int model_find(const char *name, const struct model **out)
{
    char names[512] = "";
    size_t used = 0;
    char shown[TEXT_MESSAGE_BYTES];
    bool plain = is_plain(name);
    if (plain && gpt_is_name(name))
        return gpt_find(name, out);
    if (plain && llama_is_name(name))
        return llama_find(name, out);
    if (plain && linear_is_adapted(name))
        return linear_find_adapted(name, out);
    for (int i = 0; linear_model(i); i++)
        if (strcmp(name, linear_model(i)->name) == 0) {
            *out = linear_model(i);
            return ERR_NONE;
        }
    for (int i = 0; model_name(i); i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s, ", model_name(i));
    return err_set(ERR_USAGE, "unknown model \"%s\", expected one of %sgpt:layers=4,width=64,heads=4,... or llama:...",
                   text_message(shown, name, 100), names);
}

// Appends keys to a name of at most `size` bytes, if there are any. Returns the length, which is `size` or more if they
// have no room.
static size_t append(char *name, size_t size, size_t length, const char *keys)
{
    if (!*keys || length >= size)
        return length;
    return length + (size_t)snprintf(name + length, size - length, "%c%s", strchr(name, ':') ? ',' : ':', keys);
}

int model_find_changed(const char *name, const struct model_changes *changes, const struct model **out)
{
    char changed[256], tiles[32] = "", shown[2][TEXT_MESSAGE_BYTES];
    const char *lora = changes->lora ? changes->lora : "";
    bool tiled = changes->tiling_factor > 1, sequence_parallel = changes->sequence_parallel;
    struct lora adapters;
    if (!tiled && !sequence_parallel && !*lora)
        return model_find(name, out);
    text_message(shown[0], name, 100);
    text_message(shown[1], lora, 100);
    // These keys leave the base as it is.
    if (*lora && is_plain(name) && is_plain(lora))
        TRY(lora_parse_all(name, lora, &adapters));
    if (tiled)
        snprintf(tiles, sizeof tiles, "tiles=%zu", changes->tiling_factor);
    size_t length = (size_t)snprintf(changed, sizeof changed, "%s", name);
    length = append(changed, sizeof changed, length, tiles);
    length = append(changed, sizeof changed, length, sequence_parallel ? "sequence_parallel=1" : "");
    length = append(changed, sizeof changed, length, lora);
    if (length < sizeof changed && (gpt_is_name(name) || (!tiled && !sequence_parallel)))
        return model_find(changed, out);
    TRY(model_find(name, out));
    if (tiled)
        return err_set(ERR_USAGE, "the model %s has no large layers to cut into %zu tiles; GPTs do", name,
                       changes->tiling_factor);
    return sequence_parallel && !gpt_is_name(name)
               ? err_set(ERR_USAGE, "the model %s has no sequences that could be divided; GPTs do", name)
               : err_set(ERR_USAGE, "the model name %s with %s is too long", shown[0], shown[1]);
}
