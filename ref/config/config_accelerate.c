// SPDX-License-Identifier: Apache-2.0

#include "base/err.h"
#include "base/safe_text.h"
#include "ref/config/config_accelerate.h"
#include "ref/config/config_doc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { CHANGE_BYTES = CONFIG_PATH_NAME_BYTES + 64 };

static const char *path_of_row(size_t index)
{
    return accelerate_rows[index].key;
}

static bool has_key(const json_t *root)
{
    static const char *const own[] = {"compute_environment", "distributed_type", "fsdp_config", "deepspeed_config",
                                      "mixed_precision"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_object_get(root, own[i]))
            return true;
    return false;
}

bool config_is_accelerate(const char *file, const char *text, size_t bytes)
{
    const char *end = strrchr(file, '.');
    if (end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0))
        return true;
    json_t *root = json_loadb(text, bytes, 0, NULL);
    bool is_own = has_key(root);
    json_decref(root);
    return is_own;
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
    const struct accelerate_row *row = accelerate_rows;
    for (; row->key; row++) {
        size_t bytes = strlen(row->key);
        bool is_key = strcmp(row->key, key) == 0;
        bool is_section = strncmp(row->key, key, bytes) == 0 && key[bytes] == '.' && !row->value;
        if (is_section || (is_key && (!row->value || strcasecmp(row->value, value) == 0)))
            break;
    }
    return row;
}

static int refuse_unknown(const struct accelerate *a, const char *key, const yaml_node_t *node)
{
    enum { KEYS_MAX = 256 };
    const yaml_node_t *root = yaml_document_get_root_node((yaml_document_t *)(uintptr_t)&a->document);
    const char *keys[KEYS_MAX];
    size_t count = 0;
    char hint[CONFIG_HINT_BYTES], shown[TEXT_MESSAGE_BYTES];
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top && count < KEYS_MAX; pair++) {
        const yaml_node_t *name = yaml_document_get_node((yaml_document_t *)(uintptr_t)&a->document, pair->key);
        if (name->type == YAML_SCALAR_NODE)
            keys[count++] = (const char *)name->data.scalar.value;
    }
    const char *foreign = config_foreign_hint(hint, keys, count);
    return err_set(ERR_USAGE, "%s:%zu: %s: unknown key%s; %s", a->name, node->start_mark.line + 1,
                   text_message(shown, key, CONFIG_PATH_BYTES), foreign ? "" : " of Accelerate",
                   foreign ? foreign : config_hint(hint, key, path_of_row));
}

static int read_scalar(struct accelerate *a, const char *key, const yaml_node_t *node)
{
    char change[CHANGE_BYTES], shown[TEXT_MESSAGE_BYTES], shown_key[TEXT_MESSAGE_BYTES];
    const char *value = node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
    // YAML's own words, which the rows and JSON write in small letters.
    value = strcasecmp(value, "true") == 0 ? "true" : strcasecmp(value, "false") == 0 ? "false" : value;
    const struct accelerate_row *row = find(key, value);
    if (!row->key)
        return refuse_unknown(a, key, node);
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
        bool is_section = value->type == YAML_MAPPING_NODE && !*section;
        if (is_section && !find(key, "")->key)
            return refuse_unknown(a, key, name);
        TRY(is_section ? read_section(a, key, value) : read_scalar(a, key, value));
    }
    return ERR_NONE;
}

// The stage that FSDP has where nothing else is said, and the degrees of parallelism_config as a mesh.
static int complete(struct accelerate *a)
{
    static const char *const axes[] = {"replicate", "shard", "tensor"};
    json_t *own = json_object_get(a->root, "own");
    char mesh[CHANGE_BYTES] = "";
    size_t used = 0;
    if (json_object_get(own, "fsdp") && !config_doc_descend(a->root, "zero_optimization.stage"))
        for (const char *const *at = (const char *const[]){ACCELERATE_FULL_SHARD, NULL}; *at; at++)
            TRY(config_doc_set(a->root, *at));
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const json_t *degree = json_object_get(own, axes[i]);
        if (degree && !json_is_integer(degree))
            return err_set(ERR_USAGE, "%s: parallelism_config: the degree of %s is no whole number", a->name, axes[i]);
        if (degree && json_integer_value(degree) != 1)
            used += (size_t)snprintf(mesh + used, sizeof mesh - used, "%s%s=%lld", used ? "," : "", axes[i],
                                     (long long)json_integer_value(degree));
    }
    json_object_del(a->root, "own");
    if (used == 0)
        return ERR_NONE;
    char change[CHANGE_BYTES + 32];
    snprintf(change, sizeof change, "zerogauge.mesh=%s", mesh);
    return config_doc_set(a->root, change);
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
    if (code == ERR_NONE)
        code = complete(&a);
    if (code == ERR_NONE && !config_doc_descend(a.root, "zero_optimization.stage"))
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
