// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_doc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 512 };  // of objects and arrays

// A position in the text, which has no byte behind its end. What is read is written to `out`.
struct reader {
    const char *text;
    size_t bytes, at;
    FILE *out;
};

static int peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->bytes ? (unsigned char)r->text[r->at + ahead] : EOF;
}

static bool is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool begins_comment(const struct reader *r, size_t ahead)
{
    int c = peek(r, ahead), next = peek(r, ahead + 1);
    return c == '#' || (c == '/' && (next == '/' || next == '*'));
}

// The end of the comment at the reader; its beginning if it is not closed.
static size_t comment_end(const struct reader *r)
{
    size_t end = r->at;
    if (peek(r, 0) == '#' || peek(r, 1) == '/') {
        while (end < r->bytes && r->text[end] != '\n' && r->text[end] != '\r')
            end++;
        return end;
    }
    const char *close = memmem(r->text + r->at + 2, r->bytes - r->at - 2, "*/", 2);
    return close ? (size_t)(close - r->text) + 2 : r->at;
}

// Passes space and comments, which become spaces. Returns the next byte.
static int skip(struct reader *r, bool writes)
{
    while (is_space(peek(r, 0)) || begins_comment(r, 0)) {
        bool is_comment = !is_space(peek(r, 0));
        size_t end = is_comment ? comment_end(r) : r->at + 1;
        if (end == r->at)
            break;
        for (; r->at < end; r->at++)
            if (writes)
                fputc(is_comment && r->text[r->at] != '\n' ? ' ' : r->text[r->at], r->out);
    }
    return peek(r, 0);
}

static int next_token(const struct reader *r)
{
    struct reader ahead = *r;
    return skip(&ahead, false);
}

static void put(struct reader *r, int c)
{
    if (c == '"' || c == '\\')
        fprintf(r->out, "\\%c", c);
    else if (c < ' ')
        fprintf(r->out, "\\u%04x", (unsigned)c);
    else
        fputc(c, r->out);
}

static void put_quoted(struct reader *r, size_t end)
{
    for (fputc('"', r->out); r->at < end; r->at++)
        put(r, (unsigned char)r->text[r->at]);
    fputc('"', r->out);
}

// "text" or 'text'. JSON has the same escapes, except \'.
static bool read_string(struct reader *r)
{
    int quote = peek(r, 0), c;
    fputc('"', r->out);
    for (r->at++; (c = peek(r, 0)) != quote; r->at++) {
        if (c < ' ')
            return false;  // the end of the text, too
        bool escapes = c == '\\' && peek(r, 1) != EOF;
        if (escapes && peek(r, 1) != '\'')
            fputc('\\', r->out);
        r->at += escapes;
        c = peek(r, 0);
        if (c == '"' && !escapes)
            fputc('\\', r->out);
        fputc(c, r->out);
    }
    r->at++;
    fputc('"', r->out);
    return true;
}

static void skip_indent(struct reader *r, size_t columns)
{
    for (; columns > 0 && is_space(peek(r, 0)) && peek(r, 0) != '\n'; columns--)
        r->at++;
}

// '''text of several lines''', whose lines lose the indent of the first quote. The lines follow the string, empty, so
// that all that follows stays on its line.
static bool read_lines(struct reader *r)
{
    size_t indent = 0, lines = 0, passed = 0;
    while (indent < r->at && r->text[r->at - indent - 1] != '\n')
        indent++;
    r->at += 3;
    skip_indent(r, r->bytes);
    if (peek(r, 0) == '\n') {
        r->at++;
        passed++;
        skip_indent(r, indent);
    }
    fputc('"', r->out);
    for (; peek(r, 0) != '\'' || peek(r, 1) != '\'' || peek(r, 2) != '\''; r->at++) {
        int c = peek(r, 0);
        if (c == EOF)
            return false;
        if (c == '\n') {
            lines++;
            r->at++;
            skip_indent(r, indent);
            r->at--;
            continue;
        }
        for (; lines > 0; lines--, passed++)
            fputs("\\n", r->out);
        if (c != '\r')
            put(r, c);
    }
    for (; lines > 1; lines--, passed++)
        fputs("\\n", r->out);
    fputc('"', r->out);
    for (passed += lines; passed > 0; passed--)
        fputc('\n', r->out);
    r->at += 3;
    return true;
}

// The end of the number at the reader, with blanks behind it; 0 if there is none.
static size_t number_end(const struct reader *r)
{
    static const char digits[] = "0123456789";
    const char *begin = r->text + r->at, *at = begin + (*begin == '-'), *whole = at;
    at += *at == '0' ? 1 : strspn(at, digits);
    if (at == whole)
        return 0;
    if (*at == '.' && strspn(at + 1, digits) > 0)
        at += 1 + strspn(at + 1, digits);
    if (*at == 'e' || *at == 'E') {
        const char *power = at + 1 + (at[1] == '-' || at[1] == '+');
        at = strspn(power, digits) > 0 ? power + strspn(power, digits) : at;
    }
    at += strspn(at, " \t");
    return (size_t)(at - r->text);
}

static size_t without_blanks(const struct reader *r, size_t end)
{
    while (end > r->at && is_space((unsigned char)r->text[end - 1]))
        end--;
    return end;
}

static bool is_word(const struct reader *r, size_t end)
{
    static const char *const words[] = {"null", "true", "false"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (end - r->at == strlen(words[i]) && memcmp(r->text + r->at, words[i], end - r->at) == 0)
            return true;
    return false;
}

// A number, null, true or false ends at a comma, a bracket or a comment; all else is a string up to the line's end.
static bool read_bare(struct reader *r)
{
    size_t number = number_end(r), end = r->at;
    if (peek(r, 0) == EOF || strchr("{}[],:", peek(r, 0)) || begins_comment(r, 0))
        return false;
    for (;; end++) {
        int c = peek(r, end - r->at);
        bool ends_line = c == '\n' || c == '\r' || c == EOF;
        bool may_end = ends_line || c == ',' || c == '}' || c == ']' || begins_comment(r, end - r->at);
        if (may_end && (end == number || is_word(r, without_blanks(r, end)))) {
            end = without_blanks(r, end);
            fwrite(r->text + r->at, 1, end - r->at, r->out);
            r->at = end;
            return true;
        }
        if (ends_line)
            break;
    }
    put_quoted(r, without_blanks(r, end));
    return true;
}

static bool read_key(struct reader *r)
{
    size_t end = r->at, colon;
    if (peek(r, 0) == '"' || peek(r, 0) == '\'')
        return read_string(r);
    while (end < r->bytes && !is_space((unsigned char)r->text[end]) && !strchr("{}[],:", r->text[end]))
        end++;
    for (colon = end; colon < r->bytes && is_space((unsigned char)r->text[colon]);)
        colon++;
    if (end == r->at || colon == r->bytes || r->text[colon] != ':' || begins_comment(r, 0))
        return false;
    put_quoted(r, end);
    return true;
}

static bool read_value(struct reader *r, int depth);

// The members up to the closing bracket, or to the end of the text if `close` is EOF.
static bool read_members(struct reader *r, int close, int depth)
{
    for (int c = skip(r, true); c != close; c = skip(r, true)) {
        if (close != ']' && (!read_key(r) || skip(r, true) != ':'))
            return false;
        if (close != ']')
            fputc(r->text[r->at++], r->out);
        skip(r, true);
        if (!read_value(r, depth))
            return false;
        int next = next_token(r);
        if (next == ',') {
            skip(r, true);
            r->at++;
            next = next_token(r);
            fputc(next == close ? ' ' : ',', r->out);
        } else if (next != close) {
            fputc(',', r->out);
        }
    }
    return true;
}

static bool read_value(struct reader *r, int depth)
{
    int c = peek(r, 0);
    if (c == '\'' && peek(r, 1) == '\'' && peek(r, 2) == '\'')
        return read_lines(r);
    if (c == '"' || c == '\'')
        return read_string(r);
    if (c != '{' && c != '[')
        return read_bare(r);
    if (depth == DEPTH_MAX)
        return false;
    fputc(c, r->out);
    r->at++;
    if (!read_members(r, c == '{' ? '}' : ']', depth + 1))
        return false;
    fputc(r->text[r->at++], r->out);
    return true;
}

char *config_json_of_hjson(const char *text, size_t bytes, size_t *out_bytes)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    char *out = NULL, *copy = calloc(bytes + 1, 1);  // with a zero, at which number_end stops
    FILE *file = copy ? open_memstream(&out, out_bytes) : NULL;
    if (!file) {
        free(copy);
        return NULL;
    }
    memcpy(copy, text, bytes);
    size_t begin = strncmp(copy, byte_order_mark, 3) == 0 ? 3 : 0;
    struct reader r = {.text = copy, .bytes = bytes, .at = begin, .out = file}, ahead = r;
    int first = skip(&ahead, false);
    bool has_braces = first == EOF || strchr("{}[]", first) || begins_comment(&ahead, 0);
    if (!has_braces)
        fputc('{', file);
    skip(&r, true);
    bool is_read = first == EOF || (has_braces ? read_value(&r, 0) : read_members(&r, EOF, 0));
    skip(&r, true);
    if (is_read && !has_braces)
        fputc('}', file);
    // The rest is not hjson: it stays as it is, and is refused as JSON.
    fwrite(copy + r.at, 1, bytes - r.at, file);
    bool failed = ferror(file);
    failed |= fclose(file) != 0;
    free(copy);
    if (failed)
        free(out);
    return failed ? NULL : out;
}
