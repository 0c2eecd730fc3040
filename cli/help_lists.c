// SPDX-License-Identifier: Apache-2.0
#include "cli/help_lists.h"

#include "base/err.h"
#include "base/size.h"
#include "ref/config/config.h"
#include "ref/model/names/model_find.h"

void help_lists_presets(FILE *out)
{
    static const char *const here[] = {"."};
    const struct config_options options = {.world = 1, .nvme_paths = here, .nvme_path_count = 1};
    struct config config;
    const char *name;
    for (size_t i = 0; (name = config_preset_name(i)) != NULL; i++)
        if (config_load_preset(name, &options, &config, NULL) == ERR_NONE)
            fprintf(out, "%-16s stage %d; parameters on %s, gradients on %s, optimizer on %s\n", name, config.stage,
                    ledger_tier_name(config.offload_param.tier), ledger_tier_name(config.gradient_tier),
                    ledger_tier_name(config.offload_optimizer.tier));
}

static void print_model(const struct model *model, FILE *out)
{
    char count[SIZE_TEXT_BYTES];
    fprintf(out, "%-16s %s parameters\n", model->name, size_text(model_param_elements(model, false), count));
}

void help_lists_models(FILE *out)
{
    const struct model *model;
    const char *name;
    for (int i = 0; (name = model_name(i)) != NULL; i++)
        if (model_find(name, &model) == ERR_NONE)
            print_model(model, out);
}
