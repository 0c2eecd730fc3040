// SPDX-License-Identifier: Apache-2.0
// The section "zerogauge", which DeepSpeed does not know, except its placement keys (config_offload.c).
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <stdio.h>
#include <string.h>

static int resolve_recipe(const struct config_doc *doc, struct config *out)
{
    const char *name = config_doc_string(doc, "zerogauge.recipe", recipe_name(recipe_at(0)));
    if (!recipe_find(name)) {
        char shown[TEXT_MESSAGE_BYTES], names[512] = "";
        size_t used = 0;
        for (int i = 0; recipe_at(i) && used < sizeof names; i++)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", recipe_name(recipe_at(i)));
        return config_doc_fail(doc, "zerogauge.recipe", "is %s, expected one of %s",
                               json_message(shown, config_doc_given(doc, "zerogauge.recipe")), names);
    }
    snprintf(out->recipe, sizeof out->recipe, "%s", name);
    return ERR_NONE;
}

static int resolve_partitioning(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.partitioning";
    bool broadcast = strcmp(config_doc_string(doc, KEY, "bandwidth_centric"), "owner_broadcast") == 0;
    out->partitioning = broadcast ? PARTITION_OWNER_BROADCAST : PARTITION_BANDWIDTH_CENTRIC;
    if (out->stage == 3)
        return ERR_NONE;
    config_doc_ignore(doc, KEY);
    if (broadcast)
        return config_doc_fail(doc, KEY,
                               "is \"owner_broadcast\" and zero_optimization.stage is %d, expected stage 3: "
                               "only stage 3 partitions parameters",
                               out->stage);
    return ERR_NONE;
}

static int resolve_reduction_group(const struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.reduction_group";
    size_t world = (size_t)doc->options->world;
    out->reduction_group = config_doc_size(doc, KEY, 0);
    if (out->reduction_group > 0 && world % out->reduction_group != 0)
        return config_doc_fail(doc, KEY, "is %zu, expected a divisor of the world size %zu: the ranks of a host",
                               out->reduction_group, world);
    return ERR_NONE;
}

static int resolve_lora(const struct config_doc *doc, struct config *out)
{
    const char *text = config_doc_string(doc, "zerogauge.lora", "");
    if (strlen(text) >= sizeof out->lora)
        return config_doc_fail(doc, "zerogauge.lora", "has %zu characters, expected at most %zu", strlen(text),
                               sizeof out->lora - 1);
    strcpy(out->lora, text);
    return ERR_NONE;
}

int config_resolve_own(struct config_doc *doc, struct config *out)
{
    TRY(resolve_recipe(doc, out));
    bool torch = strcmp(config_doc_string(doc, "zerogauge.clip_form", "deepspeed"), "torch") == 0;
    out->clip_form = torch ? CLIP_TORCH : CLIP_DEEPSPEED;
    out->tiling_factor = config_doc_size(doc, "zerogauge.tiling.factor", 1);
    TRY(resolve_lora(doc, out));
    TRY(resolve_reduction_group(doc, out));
    return resolve_partitioning(doc, out);
}
