// SPDX-License-Identifier: Apache-2.0
// Loads one document of YAML whose tokens keep within limits: libyaml's time grows as the square of the depth, and of
// the anchors and directives, of a text.
#include "base/err.h"
#include "base/safe_text.h"
#include "ref/config/config_accelerate.h"

#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 64, ANCHORS_MAX = 256, KEY_SHOWN_BYTES = 80 };

struct scan {
    const char *refused;  // null: the tokens so far are within the limits
    int depth, anchors;
    bool has_content, has_ended;
};

static void scan_token(struct scan *scan, yaml_token_type_t type)
{
    switch (type) {
    case YAML_NO_TOKEN:
    case YAML_STREAM_START_TOKEN:
    case YAML_STREAM_END_TOKEN:
        return;
    case YAML_DOCUMENT_END_TOKEN:
        scan->has_ended = scan->has_content;
        return;
    case YAML_TAG_DIRECTIVE_TOKEN:
        scan->refused = "has a directive of tags, expected keys";
        return;
    case YAML_BLOCK_SEQUENCE_START_TOKEN:
    case YAML_BLOCK_MAPPING_START_TOKEN:
    case YAML_FLOW_SEQUENCE_START_TOKEN:
    case YAML_FLOW_MAPPING_START_TOKEN:
        if (++scan->depth > DEPTH_MAX)
            scan->refused = "nests more than 64 lists and sections, expected a configuration";
        break;
    case YAML_BLOCK_END_TOKEN:
    case YAML_FLOW_SEQUENCE_END_TOKEN:
    case YAML_FLOW_MAPPING_END_TOKEN:
        scan->depth--;
        break;
    case YAML_ANCHOR_TOKEN:
        if (++scan->anchors > ANCHORS_MAX)
            scan->refused = "has more than 256 anchors, expected a configuration";
        break;
    default:
        break;
    }
    if (scan->has_ended || (type == YAML_DOCUMENT_START_TOKEN && scan->has_content))
        scan->refused = "begins a second document, expected one";
    scan->has_content = true;
}

// A text that is no YAML ends the scan, and is left to the parser.
static int check_tokens(const char *name, yaml_parser_t *parser)
{
    struct scan scan = {0};
    size_t line = 0;
    for (bool is_open = true; is_open && !scan.refused;) {
        yaml_token_t token;
        if (!yaml_parser_scan(parser, &token))
            break;
        scan_token(&scan, token.type);
        line = token.start_mark.line + 1;
        is_open = token.type != YAML_STREAM_END_TOKEN && token.type != YAML_NO_TOKEN;
        yaml_token_delete(&token);
    }
    return scan.refused ? err_set(ERR_USAGE, "%s:%zu: %s", name, line, scan.refused) : ERR_NONE;
}

// Each key's line is kept by its text.
static int check_keys(const char *name, yaml_document_t *document, const yaml_node_t *section)
{
    int code = ERR_NONE;
    json_t *lines = json_object();
    for (const yaml_node_pair_t *pair = section->data.mapping.pairs.start;
         code == ERR_NONE && pair < section->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(document, pair->key);
        if (key->type != YAML_SCALAR_NODE)
            continue;
        const char *text = (const char *)key->data.scalar.value;
        int line = (int)key->start_mark.line + 1;
        char shown[TEXT_MESSAGE_BYTES];
        const json_t *first = json_object_get(lines, text);
        if (first)
            code = err_set(ERR_USAGE, "%s:%d: %s: given twice, first on line %d; expected it once", name, line,
                           text_message(shown, text, KEY_SHOWN_BYTES), (int)json_integer_value(first));
        else if (json_object_set_new(lines, text, json_integer(line)) != 0)
            code = err_set(ERR_MEMORY, "%s: no memory for a configuration", name);
    }
    json_decref(lines);
    return code;
}

static int check_document(const char *name, yaml_document_t *document)
{
    for (const yaml_node_t *node = document->nodes.start; node < document->nodes.top; node++) {
        const yaml_char_t *text = node->type == YAML_SCALAR_NODE ? node->data.scalar.value : NULL;
        if (text && memchr(text, '\0', node->data.scalar.length))
            return err_set(ERR_USAGE, "%s:%zu: holds a NUL character, expected text", name, node->start_mark.line + 1);
        if (node->type == YAML_MAPPING_NODE)
            TRY(check_keys(name, document, node));
    }
    return ERR_NONE;
}

static int load(const char *name, yaml_parser_t *parser, yaml_document_t *out)
{
    if (!yaml_parser_load(parser, out))
        return err_set(ERR_USAGE, "%s:%zu: is not %s: %s", name, parser->problem_mark.line + 1,
                       strstr(name, ".toml") ? "TOML" : "YAML", parser->problem ? parser->problem : "no memory");
    int code = check_document(name, out);
    if (code != ERR_NONE)
        yaml_document_delete(out);
    return code;
}

int config_yaml_load(const char *name, const char *text, size_t bytes, yaml_document_t *out)
{
    int code = ERR_NONE;
    for (int pass = 0; code == ERR_NONE && pass < 2; pass++) {
        yaml_parser_t parser;
        if (!yaml_parser_initialize(&parser))
            return err_set(ERR_MEMORY, "%s: no memory for a configuration", name);
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
        code = pass == 0 ? check_tokens(name, &parser) : load(name, &parser, out);
        yaml_parser_delete(&parser);
    }
    return code;
}
