// SPDX-License-Identifier: Apache-2.0

#include "base/err.h"
#include "base/safe_text.h"
#include "ref/config/config_doc.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { CHANGE_BYTES = CONFIG_PATH_NAME_BYTES + 64 };

#define ZERO "zero_optimization."
#define STAGE(n) ZERO "stage=" #n
// FSDP keeps and sums its shards of gradients in fp32.
#define FULL_SHARD STAGE(3), "data_types.grad_accum_dtype=fp32"
#define GRAD_OP STAGE(2), "data_types.grad_accum_dtype=fp32"
#define HYBRID "expected FULL_SHARD, with --set zerogauge.mesh=replicate=NODES,shard=DEVICES_OF_A_NODE"

// A row says which keys a value changes; %s is the value. The first row of a key and value counts, and a row without a
// value is for all others. A row without changes has no meaning here; `refused` says what to do instead.
static const struct accelerate_row {
    const char *key, *value, *changes[4], *refused;
} rows[] = {
    {"gradient_accumulation_steps", NULL, {"gradient_accumulation_steps=%s"}, NULL},
    {"mixed_precision", "no", {"bf16.enabled=false"}, NULL},
    {"mixed_precision", "bf16", {"bf16.enabled=true"}, NULL},
    {"mixed_precision", "fp16", {"fp16.enabled=true"}, NULL},
    {"mixed_precision", NULL, {0}, "expected no, bf16 or fp16"},
    {"distributed_type", "MEGATRON_LM", {0}, "expected DEEPSPEED, FSDP, MULTI_GPU or NO"},
    {"distributed_type", "MULTI_GPU", {STAGE(0)}, NULL},
    {"distributed_type", "MULTI_CPU", {STAGE(0)}, NULL},
    {"distributed_type", "NO", {STAGE(0)}, NULL},
    {"distributed_type", NULL, {0}, NULL},
    {"deepspeed_config.deepspeed_config_file", NULL, {0}, "give that file in place of this one"},
    {"deepspeed_config.zero_stage", NULL, {ZERO "stage=%s"}, NULL},
    {"deepspeed_config.gradient_accumulation_steps", NULL, {"gradient_accumulation_steps=%s"}, NULL},
    {"deepspeed_config.gradient_clipping", NULL, {"gradient_clipping=%s"}, NULL},
    {"deepspeed_config.offload_optimizer_device", NULL, {ZERO "offload_optimizer.device=%s"}, NULL},
    {"deepspeed_config.offload_optimizer_nvme_path", NULL, {ZERO "offload_optimizer.nvme_path=%s"}, NULL},
    {"deepspeed_config.offload_param_device", NULL, {ZERO "offload_param.device=%s"}, NULL},
    {"deepspeed_config.offload_param_nvme_path", NULL, {ZERO "offload_param.nvme_path=%s"}, NULL},
    {"deepspeed_config", NULL, {0}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "FULL_SHARD", {FULL_SHARD}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "1", {FULL_SHARD}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "SHARD_GRAD_OP", {GRAD_OP}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "2", {GRAD_OP}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "NO_SHARD", {STAGE(0)}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "3", {STAGE(0)}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", NULL, {0}, HYBRID},
    {"fsdp_config.fsdp_reshard_after_forward", "true", {FULL_SHARD}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", "false", {GRAD_OP}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", "FULL_SHARD", {FULL_SHARD}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", "SHARD_GRAD_OP", {GRAD_OP}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", "NO_SHARD", {STAGE(0)}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", NULL, {0}, HYBRID},
    {"fsdp_config.fsdp_offload_params",
     "true",
     {ZERO "offload_optimizer.device=cpu", ZERO "offload_param.device=cpu"},
     NULL},
    {"fsdp_config.fsdp_offload_params", "false", {ZERO "offload_optimizer.device=none"}, NULL},
    {"fsdp_config.fsdp_activation_checkpointing", "true", {"zerogauge.activation_checkpointing.enabled=true"}, NULL},
    {"fsdp_config.fsdp_activation_checkpointing", "false", {"zerogauge.activation_checkpointing.enabled=false"}, NULL},
    {"fsdp_config", NULL, {0}, NULL},
    {"megatron_lm_config", NULL, {0}, "expected deepspeed_config or fsdp_config"},
    {NULL, NULL, {0}, NULL},
};

bool config_is_accelerate(const char *file)
{
    const char *end = strrchr(file, '.');
    return end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
}

// One text in YAML, and what is made of it.
struct accelerate {
    const char *name;
    yaml_document_t document;
    struct config_notes *notes;
    json_t *root;
};

// The row of a key, or of the section around it.
static const struct accelerate_row *find(const char *key, const char *value)
{
    const struct accelerate_row *row = rows;
    for (; row->key; row++) {
        size_t bytes = strlen(row->key);
        bool is_key = strcmp(row->key, key) == 0;
        bool is_section = strncmp(row->key, key, bytes) == 0 && key[bytes] == '.' && !row->value;
        if (is_section || (is_key && (!row->value || strcasecmp(row->value, value) == 0)))
            break;
    }
    return row;
}

static int read_scalar(struct accelerate *a, const char *key, const yaml_node_t *node)
{
    char change[CHANGE_BYTES], shown[TEXT_MESSAGE_BYTES], shown_key[TEXT_MESSAGE_BYTES];
    const char *value = node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
    // YAML's own words, which the rows and JSON write in small letters.
    value = strcasecmp(value, "true") == 0 ? "true" : strcasecmp(value, "false") == 0 ? "false" : value;
    const struct accelerate_row *row = find(key, value);
    if (row->refused)
        return err_set(ERR_USAGE, "%s:%zu: %s: is %s, %s", a->name, node->start_mark.line + 1,
                       text_message(shown_key, key, CONFIG_PATH_BYTES), text_message(shown, value, CONFIG_VALUE_BYTES),
                       row->refused);
    for (const char *const *at = row->changes; *at; at++) {
        const char *hole = strstr(*at, "%s");
        int used =
            snprintf(change, sizeof change, "%.*s%s", hole ? (int)(hole - *at) : CHANGE_BYTES, *at, hole ? value : "");
        if (used >= CHANGE_BYTES)
            return err_set(ERR_USAGE, "%s:%zu: %s: is longer than any value", a->name, node->start_mark.line + 1,
                           text_message(shown_key, key, CONFIG_PATH_BYTES));
        TRY(config_doc_set(a->root, change));
    }
    if (!row->changes[0] && a->notes && a->notes->count < CONFIG_NOTE_MAX) {
        struct config_note *note = &a->notes->notes[a->notes->count++];
        *note = (struct config_note){.kind = CONFIG_FOREIGN};
        snprintf(note->value, sizeof note->value, "%.*s", CONFIG_VALUE_BYTES - 1,
                 text_message(shown_key, key, CONFIG_VALUE_BYTES - 4));
    }
    return ERR_NONE;
}

static int read_section(struct accelerate *a, const char *section, const yaml_node_t *node)
{
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        char key[CONFIG_PATH_BYTES];
        const yaml_node_t *name = yaml_document_get_node(&a->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&a->document, pair->value);
        if (name->type != YAML_SCALAR_NODE)
            return err_set(ERR_USAGE, "%s:%zu: expected a key", a->name, name->start_mark.line + 1);
        snprintf(key, sizeof key, "%s%s%s", section, *section ? "." : "", (const char *)name->data.scalar.value);
        TRY(value->type == YAML_MAPPING_NODE && !*section ? read_section(a, key, value) : read_scalar(a, key, value));
    }
    return ERR_NONE;
}

int config_read_accelerate(const char *name, const char *text, size_t bytes, struct config_notes *notes, json_t **out)
{
    yaml_parser_t parser;
    struct accelerate a = {.name = name, .notes = notes};
    if (!yaml_parser_initialize(&parser))
        return err_set(ERR_MEMORY, "%s: no memory for a configuration", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (!yaml_parser_load(&parser, &a.document)) {
        int code = err_set(ERR_USAGE, "%s:%zu: is not YAML: %s", name, parser.problem_mark.line + 1,
                           parser.problem ? parser.problem : "no memory");
        yaml_parser_delete(&parser);
        return code;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&a.document);
    a.root = json_pack("{s:s}", "train_micro_batch_size_per_gpu", "auto");
    int code = !a.root                                   ? err_set(ERR_MEMORY, "%s: no memory", name)
               : root && root->type == YAML_MAPPING_NODE ? read_section(&a, "", root)
                                                         : err_set(ERR_USAGE, "%s:1: expected keys", name);
    if (code == ERR_NONE && !config_doc_descend(a.root, ZERO "stage"))
        code = err_set(ERR_USAGE,
                       "%s:1: deepspeed_config.zero_stage: missing, expected it, or in fsdp_config "
                       "fsdp_sharding_strategy or fsdp_reshard_after_forward",
                       name);
    yaml_document_delete(&a.document);
    yaml_parser_delete(&parser);
    if (code != ERR_NONE)
        json_decref(a.root);
    else
        *out = a.root;
    return code;
}
