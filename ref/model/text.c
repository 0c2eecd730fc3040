// SPDX-License-Identifier: Apache-2.0
#include "ref/model/text.h"

#include "base/digest.h"
#include "base/err.h"
#include "base/file.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -f: one verse per line, for any terminal.
#define DEFAULT_COMMAND "bible -f gen1:1-rev22:21 </dev/null 2>/dev/null"

// The default text has 4.4 MB; less than half of that means that the program failed.
enum { DEFAULT_MIN_BYTES = 2000000, TEXT_MAX_BYTES = 1 << 30 };

struct text {
    unsigned char *bytes;
    size_t size;
};

static int read_all(FILE *file, struct text *text)
{
    size_t capacity = 0;
    for (;;) {
        if (text->size == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            if (capacity > TEXT_MAX_BYTES)
                return err_set(ERR_USAGE, "the text has more than %d bytes", TEXT_MAX_BYTES);
            unsigned char *grown = realloc(text->bytes, capacity);
            if (!grown)
                return err_set(ERR_MEMORY, "no memory for a text of %zu bytes", capacity);
            text->bytes = grown;
        }
        size_t got = fread(text->bytes + text->size, 1, capacity - text->size, file);
        text->size += got;
        if (got == 0)
            return ferror(file) ? err_set(ERR_USAGE, "cannot read: %s", strerror(errno)) : ERR_NONE;
    }
}

static int read_file(const char *path, struct text *text)
{
    char *bytes;
    TRY(file_read_text(path, TEXT_MAX_BYTES, &bytes, &text->size));
    text->bytes = (unsigned char *)bytes;
    return ERR_NONE;
}

// "12 times 9 is 108.", up to 99 times 99.
static int write_times(struct text *text)
{
    enum { TIMES = 99, LINE_BYTES = sizeof "99 times 99 is 9801.\n" };
    text->bytes = malloc((size_t)TIMES * TIMES * LINE_BYTES);
    if (!text->bytes)
        return err_set(ERR_MEMORY, "no memory for a text");
    for (int a = 1; a <= TIMES; a++)
        for (int b = 1; b <= TIMES; b++)
            text->size +=
                (size_t)snprintf((char *)text->bytes + text->size, LINE_BYTES, "%d times %d is %d.\n", a, b, a * b);
    return ERR_NONE;
}

static int read_default(struct text *text)
{
    FILE *pipe = popen(DEFAULT_COMMAND, "r");
    if (!pipe)
        return err_set(ERR_IO, "cannot start a shell for the program 'bible': %s", strerror(errno));
    int code = read_all(pipe, text);
    int status = pclose(pipe);
    TRY(code);
    if (status != 0 || text->size < DEFAULT_MIN_BYTES)
        return err_set(ERR_USAGE, "the default text comes from the program 'bible', which is missing or fails: "
                                  "apt-get install bible-kjv, or give a text file with --text FILE, "
                                  "or the program's own with --text " TEXT_TIMES);
    return ERR_NONE;
}

int text_open(const char *path, struct text **out)
{
    struct text *text = calloc(1, sizeof *text);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a text");
    int code = !path ? read_default(text) : strcmp(path, TEXT_TIMES) == 0 ? write_times(text) : read_file(path, text);
    if (code != ERR_NONE) {
        text_close(text);
        return code;
    }
    *out = text;
    return ERR_NONE;
}

void text_close(struct text *text)
{
    if (!text)
        return;
    free(text->bytes);
    free(text);
}

size_t text_bytes(const struct text *text)
{
    return text->size;
}

void text_digest(const struct text *text, char out[FILE_DIGEST_BYTES])
{
    digest_text(XXH3_128bits(text->bytes, text->size), out);
}

int text_batch(const struct text *text, uint64_t seed, uint64_t step, uint64_t index, size_t sequence_count,
               size_t length, uint16_t *tokens)
{
    if (text->size < length + 1)
        return err_set(ERR_USAGE, "the text has %zu bytes, but a sequence of %zu needs %zu: use a longer text",
                       text->size, length, length + 1);
    assert(step > 0 && length > 0);
    uint64_t key = random_key(seed, step);
    for (size_t row = 0; row < sequence_count; row++) {
        uint64_t from = random_below(random_at(key, index * sequence_count + row), text->size - length);
        for (size_t i = 0; i <= length; i++)
            *tokens++ = text->bytes[from + i];
    }
    return ERR_NONE;
}
