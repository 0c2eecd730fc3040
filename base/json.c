// SPDX-License-Identifier: Apache-2.0
// JSON text with places. jansson parses first; the scanner here then walks text that is known to be valid JSON, and
// only has to tell keys from values and count lines.
#include "base/json.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 256, NO_KEY = -1, LIMIT_SHOWN = 80 };

// A key, or an element of an array that is itself an object or array (then name is null).
struct json_key {
    const char *name;  // decoded; not terminated
    size_t bytes;
    int parent;  // the key whose value holds this one; NO_KEY for the root
    int index;   // position in an array; NO_KEY for a key of an object
    int line;
    bool is_array;     // the value is an array
    int next_element;  // of an array, while it is scanned
};

// Bytes of the character that text starts with; 0 if it is not well-formed (the text may have been cut).
static size_t character_bytes(const char *text)
{
    unsigned char first = (unsigned char)*text;
    size_t bytes = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

const char *json_show(char out[JSON_SHOW_BYTES], const char *text, size_t limit)
{
    size_t used = 0, taken = 0;
    while (text[taken] != '\0') {
        unsigned char byte = (unsigned char)text[taken];
        size_t bytes = character_bytes(text + taken);
        // U+0080 to U+009F are control characters, too, and some terminals obey them.
        bool control = byte < 0x20 || byte == 0x7f || (byte == 0xc2 && (unsigned char)text[taken + 1] < 0xa0);
        bool plain = bytes > 0 && !control;
        bytes = plain ? bytes : 1;
        if (taken + bytes > limit || used + 8 > JSON_SHOW_BYTES) {
            used += (size_t)sprintf(out + used, "...");
            break;
        }
        used += (size_t)(plain ? sprintf(out + used, "%.*s", (int)bytes, text + taken)
                               : sprintf(out + used, "\\x%02x", (unsigned)byte));
        taken += bytes;
    }
    out[used] = '\0';
    return out;
}

// Appends a key; returns its index, or NO_KEY without memory.
static int add_key(struct json_text *text, struct json_key key)
{
    if (text->key_count == text->key_room) {
        size_t room = text->key_room ? 2 * text->key_room : 64;
        struct json_key *keys = reallocarray(text->keys, room, sizeof *keys);
        if (!keys)
            return NO_KEY;
        text->keys = keys;
        text->key_room = room;
    }
    text->keys[text->key_count] = key;
    return (int)text->key_count++;
}

// The bytes of the string token that starts at a quotation mark, both marks included.
static size_t string_bytes(const char *token)
{
    size_t at = 1;
    while (token[at] != '"')
        at += token[at] == '\\' ? 2 : 1;
    return at + 1;
}

// Decodes a string token in place (a decoded string is never longer than its escapes) and returns its length, or
// SIZE_MAX without memory.
static size_t decode_in_place(char *token, size_t bytes)
{
    if (!memchr(token, '\\', bytes)) {
        memmove(token, token + 1, bytes - 2);
        return bytes - 2;
    }
    json_t *decoded = json_loadb(token, bytes, JSON_DECODE_ANY, NULL);
    if (!decoded)
        return SIZE_MAX;
    size_t length = json_string_length(decoded);
    memcpy(token, json_string_value(decoded), length);
    json_decref(decoded);
    return length;
}

static int scan(struct json_text *text, size_t bytes)
{
    int line = 1, open = NO_KEY, latest = NO_KEY;  // the innermost open container, and the key last read
    bool key_next = false;
    for (size_t at = 0; at < bytes; at++) {
        char byte = text->bytes[at];
        struct json_key *container = open == NO_KEY ? NULL : &text->keys[open];
        if (byte == '\n') {
            line++;
        } else if (byte == '"') {
            char *token = text->bytes + at;
            size_t token_bytes = string_bytes(token);
            at += token_bytes - 1;
            if (!key_next)
                continue;
            size_t length = decode_in_place(token, token_bytes);
            latest =
                length == SIZE_MAX
                    ? NO_KEY
                    : add_key(text, (struct json_key){
                                        .name = token, .bytes = length, .parent = open, .index = NO_KEY, .line = line});
            if (latest == NO_KEY)
                return err_set(ERR_MEMORY, "no memory for the keys of a JSON text");
            key_next = false;
        } else if (byte == '{' || byte == '[') {
            if (!container || container->is_array) {
                int index = container ? container->next_element : NO_KEY;
                latest = add_key(text, (struct json_key){.parent = open, .index = index, .line = line});
                if (latest == NO_KEY)
                    return err_set(ERR_MEMORY, "no memory for the keys of a JSON text");
            }
            open = latest;
            text->keys[open].is_array = byte == '[';
            key_next = byte == '{';
        } else if (byte == '}' || byte == ']') {
            open = container->parent;
            key_next = false;
        } else if (byte == ',') {
            key_next = !container->is_array;
            container->next_element++;
        }
    }
    return ERR_NONE;
}

// Names are compared as bytes, shorter first.
static int compare_keys(const struct json_key *a, const struct json_key *b)
{
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->bytes ? memcmp(a->name, b->name, a->bytes) : 0;
}

static int compare_order(const void *a, const void *b, void *keys)
{
    size_t first = *(const size_t *)a, second = *(const size_t *)b;
    int order = compare_keys((struct json_key *)keys + first, (struct json_key *)keys + second);
    return order ? order : first < second ? -1 : first > second;
}

// The dotted path of a key, cut at the front where it is too long.
static void key_path(const struct json_text *text, int index, char out[PATH_BYTES])
{
    size_t start = PATH_BYTES - 1;
    out[start] = '\0';
    for (int at = index; at > 0; at = text->keys[at].parent) {
        char part[PATH_BYTES];
        const struct json_key *key = &text->keys[at];
        int length = key->name ? snprintf(part, sizeof part, "%.*s", (int)key->bytes, key->name)
                               : snprintf(part, sizeof part, "%d", key->index);
        size_t bytes = (size_t)length < sizeof part ? (size_t)length : sizeof part - 1;
        size_t dot = start != PATH_BYTES - 1;
        if (bytes + dot > start)
            break;
        if (dot)
            out[--start] = '.';
        start -= bytes;
        memcpy(out + start, part, bytes);
    }
    memmove(out, out + start, PATH_BYTES - start);
}

static int refuse_duplicates(const char *name, const struct json_text *text)
{
    size_t first = SIZE_MAX, second = SIZE_MAX;
    for (size_t i = 1; i < text->key_count; i++) {
        size_t before = text->order[i - 1], after = text->order[i];
        if (compare_keys(&text->keys[before], &text->keys[after]) == 0 && after < second) {
            first = before;
            second = after;
        }
    }
    if (second == SIZE_MAX)
        return ERR_NONE;
    char path[PATH_BYTES], shown[JSON_SHOW_BYTES];
    key_path(text, (int)second, path);
    return err_set(ERR_USAGE, "%s:%d: %s: given twice, first on line %d; expected it once", name,
                   text->keys[second].line, json_show(shown, path, PATH_BYTES), text->keys[first].line);
}

static int line_at(const char *text, const char *position)
{
    int line = 1;
    for (const char *at = text; at < position; at++)
        line += *at == '\n';
    return line;
}

static int build(const char *name, const char *text, size_t bytes, struct json_text *out)
{
    char shown[JSON_SHOW_BYTES];
    if (bytes > JSON_TEXT_BYTES_MAX)
        return err_set(ERR_USAGE, "%s: is larger than %d bytes, expected a JSON object of at most that", name,
                       JSON_TEXT_BYTES_MAX);
    if (bytes == 0)
        return err_set(ERR_USAGE, "%s:1: is empty, expected a JSON object", name);
    const char *nul = memchr(text, '\0', bytes);
    if (nul)
        return err_set(ERR_USAGE, "%s:%d: holds a NUL byte, expected JSON", name, line_at(text, nul));
    json_error_t error;
    out->root = json_loadb(text, bytes, 0, &error);
    if (!out->root)
        return err_set(ERR_USAGE,
                       "%s:%d: is not JSON: %s; expected JSON without comments, trailing commas, NaN or Infinity", name,
                       error.line > 0 ? error.line : 1, json_show(shown, error.text, LIMIT_SHOWN));
    if (!json_is_object(out->root))
        return err_set(ERR_USAGE, "%s:1: is an array, expected a JSON object", name);
    out->bytes = malloc(bytes);
    if (!out->bytes)
        return err_set(ERR_MEMORY, "no memory for %zu bytes of JSON", bytes);
    memcpy(out->bytes, text, bytes);
    TRY(scan(out, bytes));
    out->order = calloc(out->key_count, sizeof *out->order);
    if (!out->order)
        return err_set(ERR_MEMORY, "no memory for the keys of a JSON text");
    for (size_t i = 0; i < out->key_count; i++)
        out->order[i] = i;
    qsort_r(out->order, out->key_count, sizeof *out->order, compare_order, out->keys);
    return refuse_duplicates(name, out);
}

int json_text_parse(const char *name, const char *text, size_t bytes, struct json_text *out)
{
    *out = (struct json_text){0};
    int code = build(name, text, bytes, out);
    if (code != ERR_NONE)
        json_text_close(out);
    return code;
}

// Reads at most room bytes; a directory fails here.
static int read_all(int descriptor, char *buffer, size_t room, size_t *bytes)
{
    *bytes = 0;
    while (*bytes < room) {
        ssize_t got = read(descriptor, buffer + *bytes, room - *bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            break;
        *bytes += (size_t)got;
    }
    return 0;
}

int json_read(const char *file, char **text, size_t *bytes)
{
    *text = NULL;
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return err_set(ERR_USAGE, "%s: cannot be opened: %s", file, strerror(errno));
    // One byte more than is allowed, so that a longer file shows.
    char *buffer = malloc(JSON_TEXT_BYTES_MAX + 1);
    int failure = buffer ? read_all(descriptor, buffer, JSON_TEXT_BYTES_MAX + 1, bytes) : 0;
    close(descriptor);
    if (!buffer)
        return err_set(ERR_MEMORY, "no memory to read %s", file);
    if (failure) {
        free(buffer);
        return err_set(ERR_USAGE, "%s: cannot be read: %s", file, strerror(failure));
    }
    *text = buffer;
    return ERR_NONE;
}

void json_text_close(struct json_text *text)
{
    json_decref(text->root);
    free(text->bytes);
    free(text->keys);
    free(text->order);
    *text = (struct json_text){0};
}

// The key of that name in an object, or the object or array at that position in an array; or NO_KEY.
static int find_key(const struct json_text *text, int parent, const char *name, size_t bytes)
{
    struct json_key wanted = {.name = name, .bytes = bytes, .parent = parent, .index = NO_KEY};
    if (text->keys[parent].is_array) {
        if (bytes == 0 || bytes > 9 || strspn(name, "0123456789") < bytes)
            return NO_KEY;
        wanted = (struct json_key){.parent = parent, .index = atoi(name)};
    }
    size_t low = 0, high = text->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_keys(&text->keys[text->order[middle]], &wanted);
        if (order == 0)
            return (int)text->order[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NO_KEY;
}

int json_text_line(const struct json_text *text, const char *path)
{
    int found = 0;
    while (*path != '\0') {
        size_t bytes = strcspn(path, ".");
        int whole = find_key(text, found, path, strlen(path));
        if (whole != NO_KEY)
            return text->keys[whole].line;
        int next = find_key(text, found, path, bytes);
        if (next == NO_KEY)
            break;
        found = next;
        path += bytes + (path[bytes] == '.');
    }
    return text->keys[found].line;
}
