// SPDX-License-Identifier: Apache-2.0
// jansson parses. Only messages need lines and paths, so the scanner here reads the text again for a message. The text
// is valid JSON up to its end, so the scanner only tells keys from values.
#include "base/json.h"

#include "base/err.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, VALUE_BYTES = 80, ERROR_BYTES = 80, DEPTH_MAX = JSON_PARSER_MAX_DEPTH + 1 };

// A member of an object or an element of an array.
struct member {
    const char *key;  // the token of the key; null in an array
    int index;
    const char *value, *end;  // end: null before the first member
};

static const char *string_end(const char *token, const char *end)
{
    for (token++; token < end && *token != '"'; token++)
        token += *token == '\\';
    return token < end ? token + 1 : end;
}

static const char *skip(const char *at, const char *end, const char *characters)
{
    while (at < end && strchr(characters, *at))
        at++;
    return at;
}

static const char *value_end(const char *at, const char *end)
{
    for (int depth = 0; at < end && !(depth == 0 && strchr(",]} \t\r\n", *at));) {
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at = *at == '"' ? string_end(at, end) : at + 1;
    }
    return at;
}

// Steps to the next member of a container, to the first if *m is zero; false if there is none.
static bool next_member(const char *container, const char *end, struct member *m)
{
    const char *at = skip(m->end ? m->end : container + 1, end, ", \t\r\n");
    if (at == end || *at == '}' || *at == ']')
        return false;
    m->index = m->end ? m->index + 1 : 0;
    m->key = *container == '{' ? at : NULL;
    m->value = m->key ? skip(string_end(at, end), end, ": \t\r\n") : at;
    m->end = value_end(m->value, end);
    return true;
}

// The name of a member as a new string; null if there is no memory.
static json_t *member_name(const struct member *m, const char *end)
{
    return m->key ? json_loadb(m->key, (size_t)(string_end(m->key, end) - m->key), JSON_DECODE_ANY, NULL)
                  : json_sprintf("%d", m->index);
}

static bool has_name(const struct member *m, const char *end, const char *name, size_t bytes)
{
    if (m->key && !memchr(m->key, '\\', (size_t)(string_end(m->key, end) - m->key)))
        return (size_t)(string_end(m->key, end) - m->key) == bytes + 2 && memcmp(m->key + 1, name, bytes) == 0;
    json_t *own = member_name(m, end);
    bool equal = own && json_string_length(own) == bytes && memcmp(json_string_value(own), name, bytes) == 0;
    json_decref(own);
    return equal;
}

static int line_at(const char *text, const char *position)
{
    int line = 1;
    for (const char *at = text; at < position; at++)
        line += *at == '\n';
    return line;
}

int json_text_line(const struct json_text *text, const char *path)
{
    const char *end = text->bytes + text->byte_count, *container = skip(text->bytes, end, " \t\r\n"), *line = container;
    while (container && *path != '\0') {
        struct member m = {0}, next = {0};
        size_t bytes = strcspn(path, ".");
        while (next_member(container, end, &m)) {
            if (has_name(&m, end, path, strlen(path)))
                return line_at(text->bytes, m.key ? m.key : m.value);
            if (has_name(&m, end, path, bytes))
                next = m;
        }
        if (next.end)
            line = next.key ? next.key : next.value;
        container = next.end && strchr("{[", *next.value) ? next.value : NULL;
        path += bytes + (path[bytes] == '.');
    }
    return line_at(text->bytes, line);
}

// Appends ".NAME"; drops names at the front if the path gets too long.
static void append_name(char path[PATH_BYTES], const char *name)
{
    const char *kept = path;
    while (*kept && strlen(kept) + 1 + strlen(name) >= PATH_BYTES) {
        kept += strcspn(kept, ".");
        kept += *kept == '.';
    }
    size_t used = strlen(kept);
    memmove(path, kept, used + 1);
    snprintf(path + used, PATH_BYTES - used, "%s%s", used ? "." : "", name);
}

// Lists the containers that are open at the end of the text, outermost first; returns their number.
static int open_containers(const char *at, const char *end, const char *containers[DEPTH_MAX])
{
    int depth = 0;
    while (at < end) {
        if ((*at == '{' || *at == '[') && depth < DEPTH_MAX)
            containers[depth++] = at;
        depth -= (*at == '}' || *at == ']') && depth > 0;
        at = *at == '"' ? string_end(at, end) : at + 1;
    }
    return depth;
}

// Reports a repeated key; the text ends with its second occurrence.
static int refuse_duplicate(const char *name, int line, const char *text, const char *end)
{
    const char *containers[DEPTH_MAX];
    char path[PATH_BYTES] = "", shown[TEXT_MESSAGE_BYTES];
    int depth = open_containers(text, end, containers), first = line;
    for (int i = 0; i < depth; i++) {
        struct member m = {0};
        const char *stop = i + 1 < depth ? containers[i + 1] : end;
        while (next_member(containers[i], end, &m) && m.value != stop)
            continue;
        json_t *own = m.end ? member_name(&m, end) : NULL;
        append_name(path, own ? json_string_value(own) : "");
        for (struct member before = {0}; own && i + 1 == depth && next_member(containers[i], end, &before);) {
            first = line - 1 + line_at(text, before.key);
            if (has_name(&before, end, json_string_value(own), json_string_length(own)))
                break;
        }
        json_decref(own);
    }
    return err_set(ERR_USAGE, "%s:%d: %s: given twice, first on line %d; expected it once", name,
                   line - 1 + line_at(text, end), text_message(shown, path, PATH_BYTES), first);
}

static int parse(const char *name, int line, const char *text, size_t bytes, const char *form, json_t **out)
{
    char shown[TEXT_MESSAGE_BYTES];
    json_error_t error;
    *out = NULL;
    if (bytes == 0)
        return err_set(ERR_USAGE, "%s:%d: is empty, expected JSON", name, line);
    const char *nul = memchr(text, '\0', bytes);
    if (nul)
        return err_set(ERR_USAGE, "%s:%d: holds a NUL byte, expected JSON", name, line - 1 + line_at(text, nul));
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*out)
        return ERR_NONE;
    if (json_error_code(&error) == json_error_duplicate_key)
        return refuse_duplicate(name, line, text, text + error.position);
    return err_set(ERR_USAGE, "%s:%d: is not JSON: %s (column %d); expected %s", name,
                   line - 1 + (error.line > 0 ? error.line : 1), text_message(shown, error.text, ERROR_BYTES),
                   error.column, form);
}

static const char STRICT[] = "JSON without comments, trailing commas, NaN or Infinity";

int json_parse(const char *name, int line, const char *text, size_t bytes, json_t **out)
{
    return parse(name, line, text, bytes, STRICT, out);
}

int json_text_parse(const char *name, const char *text, size_t bytes, struct json_text *out)
{
    return json_text_parse_form(name, text, bytes, STRICT, out);
}

int json_text_parse_form(const char *name, const char *text, size_t bytes, const char *form, struct json_text *out)
{
    *out = (struct json_text){.name = name, .bytes = text, .byte_count = bytes};
    TRY(parse(name, 1, text, bytes, form, &out->root));
    if (json_is_object(out->root))
        return ERR_NONE;
    json_text_close(out);
    return err_set(ERR_USAGE, "%s:1: is an array, expected a JSON object", name);
}

void json_text_close(struct json_text *text)
{
    json_decref(text->root);
    *text = (struct json_text){0};
}

const char *json_message(char out[TEXT_MESSAGE_BYTES], const json_t *value)
{
    if (json_is_object(value))
        return strcpy(out, json_object_size(value) ? "an object" : "an empty object");
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    text_message(out, text ? text : "missing", VALUE_BYTES);
    free(text);
    return out;
}

int json_read(const char *file, char **text, size_t *bytes)
{
    return file_read_text(file, JSON_TEXT_BYTES_MAX, text, bytes);
}

int json_write(const char *path, enum file_output_kind kind, const json_t *json, size_t flags)
{
    struct file_output file;
    char *text = json ? json_dumps(json, flags) : NULL;
    if (!text)
        return err_set(ERR_MEMORY, "%s: no memory for its text", path);
    int rc = file_output_open(path, kind, &file);
    if (rc == ERR_NONE) {
        fprintf(file.out, "%s\n", text);
        rc = file_output_close(&file, ERR_NONE);
    }
    free(text);
    return rc;
}
