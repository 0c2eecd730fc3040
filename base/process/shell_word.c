// SPDX-License-Identifier: Apache-2.0
#include "base/process/shell_word.h"

#include <stdbool.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:%+@-";

// A shell expands braces only around a comma or two dots.
static bool is_plain(const char *word)
{
    const char *inner = word;
    size_t bytes = strlen(word);
    if (bytes > 2 && word[0] == '{' && word[bytes - 1] == '}' && !strstr(word, "..")) {
        inner++;
        bytes -= 2;
    }
    return bytes > 0 && strspn(inner, plain) >= bytes;
}

static bool has_controls(const char *word)
{
    for (; *word; word++)
        if ((unsigned char)*word < ' ' || *word == 0x7f)
            return true;
    return false;
}

static void put_escaped(FILE *out, unsigned char byte)
{
    if (byte == '\n')
        fputs("\\n", out);
    else if (byte < ' ' || byte == 0x7f)
        fprintf(out, "\\%03o", byte);
    else
        fprintf(out, byte == '\'' || byte == '\\' ? "\\%c" : "%c", byte);
}

void shell_word(FILE *out, const char *word)
{
    if (is_plain(word)) {
        fputs(word, out);
        return;
    }
    bool escapes = has_controls(word);
    fputs(escapes ? "$'" : "'", out);
    for (; *word; word++) {
        if (escapes)
            put_escaped(out, (unsigned char)*word);
        else
            fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, out);
    }
    fputc('\'', out);
}
