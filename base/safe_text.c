// SPDX-License-Identifier: Apache-2.0
#include "base/safe_text.h"

#include "base/err.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Decodes the character at the start of a text; returns its bytes, 0 at the end. A byte that is not UTF-8 counts as one
// character with *valid false.
static size_t decode(const char *text, uint32_t *code, bool *valid)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = bytes[0] < 0x80   ? bytes[0] != 0
                    : bytes[0] < 0xc0 ? 0
                    : bytes[0] < 0xe0 ? 2
                    : bytes[0] < 0xf0 ? 3
                    : bytes[0] < 0xf8 ? 4
                                      : 0;
    *valid = bytes[0] < 0x80;
    *code = bytes[0];
    if (length < 2)
        return bytes[0] != 0;
    *code = bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        // The final zero is not a continuation byte, so the loop stops there.
        if ((bytes[i] & 0xc0) != 0x80)
            break;
        *code = *code << 6 | (bytes[i] & 0x3fu);
        *valid = i + 1 == length;
    }
    *valid &= *code >= least[length] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
    if (*valid)
        return length;
    *code = bytes[0];
    return 1;
}

// True for a character that is visible and has no other effect.
static bool is_plain(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } others[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},        // controls
        {0xad, 0xad},     {0x61c, 0x61c},      // soft hyphen; mark of writing direction
        {0x200b, 0x200f}, {0x2028, 0x202e},    // zero width; line separators and directions
        {0x2060, 0x206f}, {0xfeff, 0xfeff},    // directions; the byte order mark
        {0xfff9, 0xfffb}, {0xe0000, 0xe007f},  // annotations; tags
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (code >= others[i].first && code <= others[i].last)
            return false;
    }
    return (code & 0xfffe) != 0xfffe && (code < 0xfdd0 || code > 0xfdef);  // noncharacters
}

enum { PIECE_BYTES = 16 };

// Escapes the next character of a text; returns its bytes in the text, 0 at the end.
static size_t next_piece(const char *text, char piece[PIECE_BYTES])
{
    uint32_t code;
    bool valid;
    if (*text >= ' ' && *text <= '~') {
        memcpy(piece, (const char[]){*text, '\0'}, 2);
        return 1;
    }
    size_t taken = decode(text, &code, &valid);
    if (!valid || (code < 0x80 && code != '\n' && code != '\t' && !is_plain(code)))
        snprintf(piece, PIECE_BYTES, "\\x%02x", (unsigned)code);
    else if (code == '\t')
        snprintf(piece, PIECE_BYTES, " ");
    else if (code != '\n' && !is_plain(code))
        snprintf(piece, PIECE_BYTES, "\\u{%04x}", (unsigned)code);
    else
        snprintf(piece, PIECE_BYTES, "%.*s", (int)taken, text);
    return taken;
}

void text_terminal(FILE *out, const char *text, int indent)
{
    char piece[PIECE_BYTES];
    for (size_t taken; text && (taken = next_piece(text, piece)); text += taken) {
        if (piece[0] == '\n')
            fprintf(out, "\n%*s", indent, "");
        else
            fputs(piece, out);
    }
}

void text_say(const char *format, ...)
{
    char text[2 * ERR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *whole = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&whole, &bytes);
    FILE *out = memory ? memory : stderr;
    text_terminal(out, text, 4);
    fputc('\n', out);
    if (memory && fclose(memory) == 0)
        fwrite(whole, 1, bytes, stderr);
    free(whole);
}

void text_error(const char *who, ...)
{
    char text[TEXT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, who);
    vsnprintf(text, sizeof text, who, arguments);
    va_end(arguments);
    text_say("%s: %s", text, err_message());
}

void text_markup(FILE *out, const char *text)
{
    static const struct {
        char character;
        const char *entity;
    } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}, {'\n', "&#10;"}};
    char piece[PIECE_BYTES];
    for (size_t taken; text && (taken = next_piece(text, piece)); text += taken) {
        const char *print = piece;
        for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
            if (piece[0] == entities[i].character)
                print = entities[i].entity;
        }
        fputs(print, out);
    }
}

json_t *text_json(const char *text)
{
    // Escaping lengthens no character beyond four times its bytes.
    char piece[PIECE_BYTES], *safe = malloc(4 * (text ? strlen(text) : 0) + 1);
    if (!safe)
        return NULL;
    size_t used = 0;
    for (size_t taken; text && (taken = next_piece(text, piece)); text += taken)
        used = (size_t)(stpcpy(safe + used, piece) - safe);
    json_t *string = json_stringn(safe, used);
    free(safe);
    return string;
}

// The text of text_json on one line; null if there is no memory. The caller frees it.
static char *one_line(const char *text)
{
    json_t *safe = text_json(text);
    char *line = safe ? strdup(json_string_value(safe)) : NULL;
    for (char *at = line; at && *at; at++)
        if (*at == '\n')
            *at = ' ';
    json_decref(safe);
    return line;
}

void text_markdown(FILE *out, const char *text)
{
    char *line = one_line(text);
    for (const char *at = line; at && *at; at++) {
        // Markdown allows a backslash before any ASCII punctuation. Slashes and the dot are escaped to break addresses.
        bool acts = strchr("\\`*[]<>|&#~$", *at) != NULL;
        acts |= *at == '_' && !(at > line && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)at[1]));
        acts |= *at == '/' && at > line && at[-1] == ':';
        acts |= *at == '.' && at - line >= 3 && strncasecmp(at - 3, "www", 3) == 0;
        fprintf(out, "%s%c", acts ? "\\" : "", *at);
    }
    free(line);
}

const char *text_message(char out[TEXT_MESSAGE_BYTES], const char *text, size_t limit)
{
    char piece[PIECE_BYTES];
    size_t used = 0, at = 0;
    for (size_t taken; text && (taken = next_piece(text + at, piece)); at += taken) {
        if (text[at] == '\n' || text[at] == '\t')
            snprintf(piece, PIECE_BYTES, "\\x%02x", (unsigned)text[at]);
        if (at + taken > limit || used + PIECE_BYTES > TEXT_MESSAGE_BYTES) {
            used += (size_t)sprintf(out + used, "...");
            break;
        }
        used = (size_t)(stpcpy(out + used, piece) - out);
    }
    out[used] = '\0';
    return out;
}
