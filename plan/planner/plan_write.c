// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_print.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/file.h"

#include <stdio.h>

// DeepSpeed allocates offload_param.buffer_count buffers of buffer_size elements, each for one parameter's shard; here
// the size is only a limit.
static size_t buffer_elements(const struct plan_setting *setting)
{
    enum { ALIGNED_ELEMENTS = 1024 };  // whole blocks of NVMe
    const struct model *model = setting->model;
    size_t largest = 0, ranks = (size_t)config_mesh(setting->config, setting->world).shard;
    for (int i = 0; i < model->param_count; i++)
        largest = model->params[i].count > largest ? model->params[i].count : largest;
    size_t shard = (largest + ranks - 1) / ranks;
    size_t least = (shard + ALIGNED_ELEMENTS - 1) / ALIGNED_ELEMENTS * ALIGNED_ELEMENTS;
    return least < setting->config->offload_param.buffer_size ? least : setting->config->offload_param.buffer_size;
}

// Names the parts of a plan that DeepSpeed has no key for.
static void note_rest(const char *path, const struct plan_setting *setting)
{
    const struct config *config = setting->config;
    bool is_adapted = config->lora[0];
    for (int i = 0; i < setting->model->param_count; i++)
        is_adapted |= setting->model->params[i].frozen;
    const struct {
        bool has;
        const char *text;
    } notes[] = {
        {config->activation_checkpointing && config->activation_tier == TIER_DEVICE,
         "activation checkpointing: call model.gradient_checkpointing_enable()"},
        {config->activation_checkpointing && config->activation_tier != TIER_DEVICE,
         "activation checkpoints off the device: the model calls deepspeed.checkpointing.checkpoint"},
        {config->tiling_factor > 1, "tiles: make large linear layers deepspeed.zero.TiledLinear"},
        {is_adapted, "adapters: add them to the model with PEFT"},
        {config->delayed_update_start_step > 0, "delayed updates"},
        {config->gradient_tier != config->offload_optimizer.tier, "gradients on another tier than the optimizer"},
        {config->mesh.replicate > 1, "replicas of shards: since 0.19 it has no MiCS"},
        {config->nvme_path_count > 1, "several paths on NVMe: give one, of a RAID-0"},
    };
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (notes[i].has)
            text_say("%s: DeepSpeed has no key for %s", path, notes[i].text);
}

int plan_write(const char *path, const struct plan_setting *setting)
{
    struct file_output file;
    struct config config = *setting->config;
    config.offload_param.buffer_size = buffer_elements(setting);
    TRY(file_output_open(path, FILE_NEW, &file));
    json_t *json = config_json(&config);
    int code = ERR_NONE;
    // DeepSpeed's own key for what the section "zerogauge" says, too.
    if (!json || (config.activation_tier == TIER_HOST &&
                  json_object_set_new(json, "activation_checkpointing", json_pack("{s:b}", "cpu_checkpointing", 1))))
        code = err_set(ERR_MEMORY, "no memory for a configuration");
    if (code == ERR_NONE) {
        config_print_json(json, file.out);
        note_rest(path, setting);
    }
    json_decref(json);
    return file_output_close(&file, code);
}
