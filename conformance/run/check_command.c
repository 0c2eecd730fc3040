// SPDX-License-Identifier: Apache-2.0
// The command under test, its placeholders replaced.
#include "conformance/run/check.h"

#include "base/err.h"

#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The word for a placeholder that text begins with, and the placeholder's length; null: text does not begin with one.
static const char *word_at(const char *text, const struct check_words *words, const char *world, size_t *length)
{
    const struct {
        const char *placeholder, *word;
    } rows[] = {
        {"{cases}", words->cases},   {"{answers}", words->answers},   {"{state}", words->state},
        {"{case}", words->one_case}, {"{answer}", words->one_answer}, {"{world}", words->world > 0 ? world : NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *length = strlen(rows[i].placeholder);
        if (rows[i].word && strncmp(text, rows[i].placeholder, *length) == 0)
            return rows[i].word;
    }
    return NULL;
}

static size_t replace(const char *text, const struct check_words *words, const char *world, char *out)
{
    size_t used = 0;
    while (*text) {
        size_t length;
        const char *word = word_at(text, words, world, &length);
        const char *from = word ? word : text;
        size_t bytes = word ? strlen(word) : 1;
        if (out)
            memcpy(out + used, from, bytes);
        used += bytes;
        text += word ? length : 1;
    }
    if (out)
        out[used] = '\0';
    return used + 1;
}

int check_command(const char *const *command, const struct check_words *words, char ***out)
{
    char world[16];
    size_t count = 0, bytes = 0;
    snprintf(world, sizeof world, "%d", words->world);
    for (; command[count]; count++)
        bytes += replace(command[count], words, world, NULL);
    char **list = *out = malloc((count + 1) * sizeof *list + bytes);
    if (!list)
        return err_set(ERR_MEMORY, "no memory for the command");
    char *at = (char *)(list + count + 1);
    for (size_t i = 0; i < count; i++) {
        list[i] = at;
        at += replace(command[i], words, world, at);
    }
    list[count] = NULL;
    return ERR_NONE;
}

int check_command_wrap(const char *text, const char *const *command, char ***out)
{
    const struct check_words none = {0};
    const char **words = NULL;
    int word_count = 0, count = 0;
    int code = text ? poptParseArgvString(text, &word_count, &words) : 0;
    if (code != 0)
        return err_set(ERR_USAGE, "--wrapper %s: %s", text, poptStrerror(code));
    while (command[count])
        count++;
    const char *all[word_count + count + 1];
    for (int i = 0; i <= word_count + count; i++)
        all[i] = i < word_count ? words[i] : command[i - word_count];
    int rc = check_command(all, &none, out);
    free(words);
    return rc;
}
