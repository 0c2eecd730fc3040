// SPDX-License-Identifier: Apache-2.0
// The models by name.
#include "base/err.h"
#include "ref/model/gpt_find.h"
#include "ref/model/linear.h"
#include "ref/model/model.h"

#include <stdio.h>
#include <string.h>

int model_find(const char *name, const struct model **out)
{
    char names[512] = "";
    size_t used = 0;
    const char *known;
    const struct model *model;
    if (gpt_is_name(name))
        return gpt_find(name, out);
    if (linear_is_adapted(name))
        return linear_find_adapted(name, out);
    for (int i = 0; (known = gpt_name(i)) != NULL; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s, ", known);
    for (int i = 0; (model = linear_model(i)) != NULL; i++) {
        if (strcmp(name, model->name) == 0) {
            *out = model;
            return ERR_NONE;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s, ", model->name);
    }
    return err_set(ERR_USAGE, "unknown model \"%s\", expected one of %sor gpt:layers=4,width=64,heads=4,...", name,
                   names);
}

int model_find_tiled(const char *name, size_t tiling_factor, const struct model **out)
{
    return model_find_changed(name, tiling_factor, "", out);
}

int model_find_changed(const char *name, size_t tiling_factor, const char *lora, const struct model **out)
{
    char changed[256], tiles[32] = "";
    bool tiled = tiling_factor > 1;
    if (!tiled && !*lora)
        return model_find(name, out);
    if (tiled)
        snprintf(tiles, sizeof tiles, "%ctiles=%zu", strchr(name, ':') ? ',' : ':', tiling_factor);
    int length = snprintf(changed, sizeof changed, "%s%s", name, tiles);
    if (*lora && length < (int)sizeof changed)
        length +=
            snprintf(changed + length, sizeof changed - (size_t)length, "%c%s", strchr(changed, ':') ? ',' : ':', lora);
    if (length < (int)sizeof changed && (gpt_is_name(name) || !tiled))
        return model_find(changed, out);
    TRY(model_find(name, out));
    return tiled ? err_set(ERR_USAGE, "the model %s has no large layers to cut into %zu tiles; GPTs do", name,
                           tiling_factor)
                 : err_set(ERR_USAGE, "the model name %s with %s is too long", name, lora);
}
