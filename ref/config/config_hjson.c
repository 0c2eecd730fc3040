// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_hjson.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The end of the string that begins at `at`, behind its closing quote.
static size_t string_end(const char *text, size_t bytes, size_t at)
{
    for (at++; at < bytes && text[at] != '"' && text[at] != '\n'; at++)
        at += text[at] == '\\' && at + 1 < bytes;
    return at < bytes ? at + 1 : bytes;
}

// The end of the comment that begins at `at`; `at` itself if none does. A comment of /* is closed, or is none.
static size_t comment_end(const char *text, size_t bytes, size_t at)
{
    bool is_line = text[at] == '#' || (at + 1 < bytes && text[at] == '/' && text[at + 1] == '/');
    if (is_line) {
        const char *end = memchr(text + at, '\n', bytes - at);
        return end ? (size_t)(end - text) : bytes;
    }
    if (at + 1 < bytes && text[at] == '/' && text[at + 1] == '*')
        for (size_t end = at + 4; end <= bytes; end++)
            if (text[end - 2] == '*' && text[end - 1] == '/')
                return end;
    return at;
}

static void blank(char *text, size_t from, size_t to)
{
    for (; from < to; from++)
        if (text[from] != '\n')
            text[from] = ' ';
}

char *config_json_of_hjson(const char *text, size_t bytes, size_t *out_bytes)
{
    char *out = malloc(bytes + 3), *json = out;
    if (!out)
        return NULL;
    memcpy(++json, text, bytes);
    size_t comma = bytes, first = bytes, end;  // of the last token, if it is a comma; of the first token
    for (size_t at = 0; at < bytes; at = end) {
        end = comment_end(json, bytes, at);
        if (end > at) {
            blank(json, at, end);
            continue;
        }
        if (json[at] == '/')
            break;  // outside of strings no JSON has one, and each unclosed comment would be searched to the end
        end = json[at] == '"' ? string_end(json, bytes, at) : at + 1;
        if (strchr(" \t\r\n", json[at]) && json[at])
            continue;
        first = first < bytes ? first : at;
        if ((json[at] == '}' || json[at] == ']') && comma < bytes)
            json[comma] = ' ';
        comma = json[at] == ',' ? at : bytes;
    }
    bool has_braces = first == bytes || json[first] != '"';
    if (!has_braces && comma < bytes)
        json[comma] = ' ';
    *out_bytes = has_braces ? bytes : bytes + 2;
    if (has_braces)
        memmove(out, json, bytes);
    else
        out[0] = '{', json[bytes] = '}';
    out[*out_bytes] = '\0';
    return out;
}
