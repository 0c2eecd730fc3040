// SPDX-License-Identifier: Apache-2.0
// Reads configurations of Accelerate and of trainers by their tables of keys.
#include "base/err.h"
#include "base/safe_text.h"
#include "ref/config/config_accelerate.h"
#include "ref/config/config_doc.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { CHANGE_BYTES = CONFIG_PATH_NAME_BYTES + 64, KEYS_MAX = 256, KEYS_READ_MAX = 4096 };

// One text in YAML, and what is made of it.
struct foreign {
    const char *name;
    const struct config_options *options;
    const struct config_program *program;  // null: as Accelerate
    yaml_document_t document;
    struct config_notes *notes;
    const char *type;  // the value of distributed_type; null: none
    json_t *root;
    json_t *places;  // "LINE: KEY" for each path of the root that a key set
    size_t key_count;
};

// Also finds the type.
static const struct config_program *program_of(struct foreign *a, const yaml_node_t *root)
{
    const char *keys[KEYS_MAX];
    size_t count = 0;
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top && count < KEYS_MAX; pair++) {
        const yaml_node_t *name = yaml_document_get_node(&a->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&a->document, pair->value);
        if (name->type == YAML_SCALAR_NODE)
            keys[count++] = (const char *)name->data.scalar.value;
        if (count > 0 && strcmp(keys[count - 1], "distributed_type") == 0 && value->type == YAML_SCALAR_NODE)
            a->type = (const char *)value->data.scalar.value;
    }
    return config_program_of(keys, count);
}

static const struct accelerate_row *rows_of(const struct foreign *a)
{
    return a->program && a->program->rows ? a->program->rows : accelerate_rows;
}

static bool is_trainer(const struct foreign *a)
{
    return accelerate_is_trainer(a->program);
}

// A trainer's section fsdp_config has Accelerate's keys, with or without their prefix, unless it has rows of its own.
static const struct accelerate_row *find_in(const struct foreign *a, const char *key, const char *value)
{
    static const char section[] = "fsdp_config.", prefix[] = "fsdp_";
    char full[CONFIG_PATH_BYTES + sizeof prefix];
    const struct accelerate_row *own = accelerate_row_find(rows_of(a), key, value);
    if (!is_trainer(a) || own || strncmp(key, section, sizeof section - 1) != 0)
        return own;
    const char *leaf = key + sizeof section - 1;
    snprintf(full, sizeof full, "%s%s%s", section, strncmp(leaf, prefix, sizeof prefix - 1) == 0 ? "" : prefix, leaf);
    return accelerate_row_find(accelerate_rows, full, value);
}

static int refuse(const struct foreign *a, const char *key, const yaml_node_t *node, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "%s:%zu: %s: %s", a->name, node->start_mark.line + 1,
                   text_message(shown, key, CONFIG_PATH_BYTES), what);
}

static int refuse_unknown(const struct foreign *a, const char *key, const yaml_node_t *node)
{
    char hint[CONFIG_HINT_BYTES], what[CONFIG_HINT_BYTES + 64];
    const char *foreign = config_foreign_hint(hint, a->program);
    if (!foreign)
        foreign = config_hint(hint, key, accelerate_path_at);
    if (!a->program && strncmp(hint, "did you mean", strlen("did you mean")) != 0)
        foreign = "a file of Accelerate has distributed_type";
    snprintf(what, sizeof what, "unknown key%s; %s", a->program && a->program->advice ? "" : " of Accelerate", foreign);
    return refuse(a, key, node, what);
}

static void note(struct foreign *a, const char *key)
{
    char shown[TEXT_MESSAGE_BYTES];
    if (!a->notes || a->notes->count == CONFIG_NOTE_MAX)
        return;
    struct config_note *added = &a->notes->notes[a->notes->count++];
    *added = (struct config_note){.kind = CONFIG_FOREIGN, .key = a->program ? a->program->name : "Accelerate"};
    snprintf(added->value, sizeof added->value, "%.*s", CONFIG_VALUE_BYTES - 1,
             text_message(shown, key, CONFIG_VALUE_BYTES - 4));
}

enum { WORDS_BYTES = 128 };

// The value of a node as text: of a list its words with blanks between them, of a section "".
static const char *value_of(struct foreign *a, const yaml_node_t *node, char words[WORDS_BYTES])
{
    if (node->type == YAML_SCALAR_NODE) {
        // YAML's own words, which the rows and JSON write in small letters.
        const char *value = (const char *)node->data.scalar.value;
        bool is_null = strcmp(value, "~") == 0 || strcasecmp(value, "null") == 0;
        return strcasecmp(value, "true") == 0    ? "true"
               : strcasecmp(value, "false") == 0 ? "false"
               : is_null                         ? ""
                                                 : value;
    }
    size_t used = 0;
    words[0] = '\0';
    if (node->type == YAML_SEQUENCE_NODE)
        for (yaml_node_item_t *item = node->data.sequence.items.start;
             item < node->data.sequence.items.top && used < WORDS_BYTES; item++) {
            const yaml_node_t *word = yaml_document_get_node(&a->document, *item);
            used += (size_t)snprintf(words + used, WORDS_BYTES - used, "%s%s", used ? " " : "",
                                     word->type == YAML_SCALAR_NODE ? (const char *)word->data.scalar.value : "...");
        }
    return words;
}

// value: of the node. A list in a section that stays is one there, as are betas.
static int change(struct foreign *a, const char *key, const yaml_node_t *node, const char *form, const char *value)
{
    char text[CHANGE_BYTES], list[WORDS_BYTES + 2] = "", shown[TEXT_MESSAGE_BYTES], place[sizeof shown + 32];
    const char *hole = strstr(form, "%s"), *kept = strstr(form, "%k");
    bool is_list = node->type == YAML_SEQUENCE_NODE && (strstr(form, "betas=") || (kept && strchr(key, '.')));
    if (hole && node->type != YAML_SCALAR_NODE && !is_list && !(kept && strchr(key, '.')))
        return refuse(a, key, node, "has several values, expected one");
    if (is_list) {
        snprintf(list, sizeof list, "[%s]", value);
        for (char *blank = list; (blank = strchr(blank, ' ')); *blank = ',')
            ;
        value = list;
    }
    const char *end = kept ? kept : hole ? hole : form + strlen(form);
    int used = snprintf(text, sizeof text, "%.*s%s%s%s", (int)(end - form), form, kept ? key : "", kept ? "=" : "",
                        hole ? value : "");
    if (used >= CHANGE_BYTES)
        return refuse(a, key, node, "is longer than any value");
    TRY(config_doc_set(a->root, text));
    snprintf(place, sizeof place, "%zu: %s", node->start_mark.line + 1, text_message(shown, key, CONFIG_PATH_BYTES));
    text[strcspn(text, "=")] = '\0';
    return json_object_set_new(a->places, text, json_string(place)) == 0
               ? ERR_NONE
               : err_set(ERR_MEMORY, "%s: no memory for a configuration", a->name);
}

static int read_value(struct foreign *a, const char *key, const yaml_node_t *node)
{
    char shown[TEXT_MESSAGE_BYTES], what[TEXT_MESSAGE_BYTES + 128], words[WORDS_BYTES];
    const char *value = value_of(a, node, words);
    if (is_trainer(a) && !*value && node->type != YAML_MAPPING_NODE)
        return ERR_NONE;
    const struct accelerate_row *row = find_in(a, key, value);
    if (!row && (!is_trainer(a) || strncmp(key, "fsdp_config.", strlen("fsdp_config.")) == 0))
        return refuse_unknown(a, key, node);
    bool is_of_plans =
        row && row->changes[0] && strncmp(row->changes[0], ACCELERATE_PLAN, strlen(ACCELERATE_PLAN)) == 0;
    if (row && row->refused && !(is_of_plans && a->options->plans)) {
        snprintf(what, sizeof what, "is %s, %s%s%s", text_message(shown, value, CONFIG_VALUE_BYTES), row->refused,
                 is_trainer(a) ? "; a key of " : "", is_trainer(a) ? a->program->name : "");
        return refuse(a, key, node, what);
    }
    for (const char *const *at = row ? row->changes : NULL; at && *at; at++)
        TRY(change(a, key, node, *at, value));
    bool is_warmup = row && row->changes[0] && strcmp(row->changes[0], "own.warmup=%s") == 0;
    if (!row || !row->changes[0] || (is_of_plans && !a->options->plans) || is_warmup)
        note(a, key);
    return ERR_NONE;
}

// Accelerate leaves out a section of another type of run than the file's.
static bool is_idle(struct foreign *a, const char *key, const yaml_node_t *node)
{
    bool is_full = node->type == YAML_MAPPING_NODE && node->data.mapping.pairs.top > node->data.mapping.pairs.start;
    if (!a->type || !is_full)
        return false;
    return (strcmp(key, "deepspeed_config") == 0 && strcmp(a->type, "DEEPSPEED") != 0) ||
           (strcmp(key, "fsdp_config") == 0 && strcmp(a->type, "FSDP") != 0);
}

// True if a trainer's key is a section with rows of its own, or one that a row names.
static bool is_read_section(const struct foreign *a, const char *key)
{
    char inner[CONFIG_PATH_BYTES + 4];
    int bytes = snprintf(inner, sizeof inner, "|%s.", key);
    const struct accelerate_row *named = accelerate_row_find(rows_of(a), key, "");
    if (strcmp(key, "fsdp_config") == 0 || (named && named->changes[0] && strstr(named->changes[0], "%k")))
        return true;
    for (const struct accelerate_row *row = rows_of(a); row->key; row++)
        if (strncmp(row->key, inner + 1, (size_t)bytes - 1) == 0 || strstr(row->key, inner))
            return true;
    return false;
}

static int read_section(struct foreign *a, const char *section, const yaml_node_t *node)
{
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        char key[CONFIG_PATH_BYTES];
        const yaml_node_t *name = yaml_document_get_node(&a->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&a->document, pair->value);
        if (name->type != YAML_SCALAR_NODE)
            return err_set(ERR_USAGE, "%s:%zu: expected a key", a->name, name->start_mark.line + 1);
        int bytes =
            snprintf(key, sizeof key, "%s%s%s", section, *section ? "." : "", (const char *)name->data.scalar.value);
        if ((size_t)bytes >= sizeof key || ++a->key_count > KEYS_READ_MAX)  // as with an alias of what is around it
            return err_set(ERR_USAGE, "%s:%zu: expected shorter, and fewer, keys", a->name, name->start_mark.line + 1);
        for (char *c = key; rows_of(a) == neox_rows && !*section && (c = strchr(c, '-')); *c = '_')
            ;
        if (!*section && is_idle(a, key, value)) {
            note(a, key);
            continue;
        }
        bool is_section = value->type == YAML_MAPPING_NODE && (is_trainer(a) ? is_read_section(a, key) : !*section);
        if (is_section && !is_trainer(a) && !find_in(a, key, ""))
            return refuse_unknown(a, key, name);
        TRY(is_section ? read_section(a, key, value) : read_value(a, key, value));
    }
    return ERR_NONE;
}

static int complete(const struct foreign *a)
{
    const struct accelerate_read read = {a->name, a->options, a->program, a->type, a->root, a->places};
    const json_t *own = json_object_get(a->root, "own");
    TRY(accelerate_complete(&read));
    json_t *kept = json_pack("{s:O, s:O*, s:O*, s:O*, s:O*}", "places", a->places, "file",
                             json_object_get(own, "deepspeed"), "fsdp", json_object_get(own, "fsdp"), "plan",
                             json_object_get(own, "plan"), "warmup", json_object_get(own, "warmup"));
    return json_object_set_new(a->root, "own", kept) == 0
               ? ERR_NONE
               : err_set(ERR_MEMORY, "%s: no memory for a configuration", a->name);
}

static int read_document(struct foreign *a)
{
    const yaml_node_t *root = yaml_document_get_root_node(&a->document);
    a->root = json_pack("{s:s}", "train_micro_batch_size_per_gpu", "auto");
    if (!a->root || !(a->places = json_object()))
        return err_set(ERR_MEMORY, "%s: no memory", a->name);
    if (!root || root->type != YAML_MAPPING_NODE)
        return err_set(ERR_USAGE, "%s:1: expected keys", a->name);
    a->program = program_of(a, root);
    for (size_t i = 0;
         a->program && i < sizeof a->program->defaults / sizeof *a->program->defaults && a->program->defaults[i]; i++)
        TRY(config_doc_set(a->root, a->program->defaults[i]));
    TRY(read_section(a, "", root));
    return complete(a);
}

int config_read_foreign(const char *name, const char *text, size_t bytes, const struct config_options *options,
                        struct config_notes *notes, json_t **out)
{
    struct foreign a = {.name = name, .options = options, .notes = notes};
    TRY(config_yaml_load(name, text, bytes, &a.document));
    int code = read_document(&a);
    yaml_document_delete(&a.document);
    json_decref(a.places);
    if (code != ERR_NONE)
        json_decref(a.root);
    else
        *out = a.root;
    return code;
}
