// SPDX-License-Identifier: Apache-2.0
// The configuration and the model that options select.
#include "plan/planner/plan_options.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "plan/planner/plan_model.h"
#include "ref/model/gpt_find.h"

#include <stdio.h>
#include <string.h>

enum { CHANGE_MAX = 256 };
// The largest buffer_size that configurations accept, elements.
#define BUFFER_COUNT_MAX 1000000000000000

// Adds changes to a list; ERR_USAGE when there are too many.
static int append(const char *list[CHANGE_MAX], size_t *count, const char *const changes[], size_t change_count)
{
    if (change_count > CHANGE_MAX - *count)
        return err_set(ERR_USAGE, "--set: expected at most %d changes", CHANGE_MAX);
    for (size_t i = 0; i < change_count; i++)
        list[(*count)++] = changes[i];
    return ERR_NONE;
}

// Megatron-LM accumulates gradients in fp32 (arguments.py, accumulate_allreduce_grads_in_fp32), unless a key says
// another dtype.
static void set_megatron(const struct plan_options *options, struct config *config)
{
    for (char **set = options->set; set && *set; set++)
        if (strncmp(*set, "data_types.", strlen("data_types.")) == 0)
            return;
    if (framework_of(&options->choice, config)->keeps_gradients)
        config->accumulation_dtype = DTYPE_FP32;
}

// Prints the option that a word of the file is; the command line's own wins. `*text` or `*number` is the option's
// value; a number of 0 is none.
static int take(const struct plan_options *options, const json_t *words, const char *name, const char *option,
                char **text, double *number)
{
    const json_t *word = json_object_get(words, name);
    double value = json_number_value(word);
    if (text ? !json_is_string(word) || *text : !(value > 0) || *number > 0)
        return ERR_NONE;
    if (text && !(*text = strdup(json_string_value(word))))
        return err_set(ERR_MEMORY, "no memory for options");
    if (text)
        text_say("%s: %s%s", options->config_path, option, *text);
    else
        text_say("%s: %s%g", options->config_path, option, *number = value);
    return ERR_NONE;
}

int plan_options_of_file(struct plan_options *options)
{
    double lora = (double)options->lora_rank, length = (double)options->sequence_length;
    double context = options->mesh ? 1 : options->choice.context, parts = options->choice.interleave;
    double expert_tensor = options->mesh != NULL;  // not 0: the file's does not count
    const struct {
        const char *name, *option;
        char **text;
        double *number;
    } all[] = {{"framework", "--framework ", &options->framework, NULL},
               {"weights", "--weights ", &options->weights, NULL},
               {"moments", "--moments ", &options->moments, NULL},
               {"products", "--products ", &options->products, NULL},
               {"sequence_length", "--sequence-length ", NULL, &length},
               {"lora", "--lora ", NULL, &lora},
               {"context", "--mesh context=", NULL, &context},
               {"interleave", "--interleave ", NULL, &parts},
               {"expert_tensor", "--mesh expert_tensor=", NULL, &expert_tensor},
               {"checkpointed", "--checkpointed ", NULL, &options->checkpointed}};
    json_t *words = NULL;
    int code = config_plan_words(options->config_path, &words);
    for (size_t i = 0; code == ERR_NONE && i < sizeof all / sizeof all[0]; i++)
        code = take(options, words, all[i].name, all[i].option, all[i].text, all[i].number);
    if (code == ERR_NONE && json_object_get(words, "adapters") && !(lora > 0))
        code = err_set(ERR_USAGE, "%s: lora_r: missing, expected the rank of the adapters, or --lora RANK",
                       options->config_path);
    options->lora_rank = (long long)lora;
    options->sequence_length = (long long)length;
    options->choice.context = (int)context;
    options->choice.interleave = (int)parts;
    options->choice.whole_experts |= !options->mesh && expert_tensor > 0;
    json_decref(words);
    return code;
}

int plan_options_config(const struct plan_options *options, const char *const changes[], size_t change_count,
                        struct config *config, struct config_notes *notes)
{
    static const char *const sizes[] = {
        "zero_optimization.reduce_bucket_size=500000000", "zero_optimization.allgather_bucket_size=500000000",
        "zero_optimization.stage3_prefetch_bucket_size=50000000", "zero_optimization.sub_group_size=100000000"};
    static const char *const folder[] = {"."};
    const char *list[CHANGE_MAX];
    char sequences[64], mesh[256];
    const char *batch = sequences, *placed = mesh, *checkpoints = "zerogauge.activation_checkpointing.enabled=true";
    size_t count = 0, given = 0;
    while (options->set && options->set[given])
        given++;
    snprintf(sequences, sizeof sequences, "train_micro_batch_size_per_gpu=%lld", options->sequences);
    TRY(append(list, &count, sizes, options->preset ? sizeof sizes / sizeof sizes[0] : 0));
    TRY(append(list, &count, &batch, options->sequences > 0));
    snprintf(mesh, sizeof mesh, "zerogauge.mesh=%s", options->mesh ? options->mesh : "");
    TRY(append(list, &count, &placed, options->mesh != NULL));
    TRY(append(list, &count, &checkpoints, options->checkpointed > 0));
    TRY(append(list, &count, (const char *const *)options->set, given));
    TRY(append(list, &count, changes, change_count));
    const struct config_options how = {.world = options->world,
                                       .plans = true,
                                       .sequence_ranks = options->choice.context,
                                       .width = options->width,
                                       .dtype = options->dtype,
                                       .set = list,
                                       .set_count = count,
                                       .nvme_paths = folder,
                                       .nvme_path_count = 1};
    if (!options->preset) {
        // A path that the file gives stays; one that gives none can be planned all the same.
        struct config_options own_paths = how;
        own_paths.nvme_path_count = 0;
        if (config_load_file(options->config_path, &own_paths, config, notes) == ERR_NONE)
            return ERR_NONE;
        return config_load_file(options->config_path, &how, config, notes);
    }
    TRY(config_load_preset(options->preset, &how, config, notes));
    // This key is only a limit, which a user raises for a large model; the buffers follow the model's own layers.
    config->offload_param.buffer_size = BUFFER_COUNT_MAX;
    set_megatron(options, config);
    return ERR_NONE;
}

const char *plan_options_model_name(const struct plan_options *options)
{
    return options->model ? options->model : "llama-8b";
}

int plan_options_model(const struct plan_options *options, const struct config *config, const struct model **out)
{
    const char *name = plan_options_model_name(options);
    const struct plan_model_variant variant = {.tiling_factor = config->tiling_factor,
                                               .sequence_length = (size_t)options->sequence_length,
                                               .lora_rank = (size_t)options->lora_rank,
                                               .tensor = config->mesh.tensor > 1 ? (size_t)config->mesh.tensor : 0,
                                               .sequence_parallel = config->sequence_parallel,
                                               .context = (size_t)options->choice.context,
                                               .whole_experts = options->choice.whole_experts,
                                               .lora = config->lora[0] ? config->lora : NULL};
    if (config->lora[0] && !gpt_is_name(name))
        return err_set(ERR_USAGE, "\"zerogauge.lora\": plans of the model %.64s take adapters by --lora RANK", name);
    if (config->lora[0] && options->lora_rank > 0)
        return err_set(ERR_USAGE, "--lora and \"zerogauge.lora\" of the configuration exclude each other");
    return plan_model_find_variant(name, &variant, out);
}
