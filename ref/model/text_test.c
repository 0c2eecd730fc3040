// SPDX-License-Identifier: Apache-2.0
#include "ref/model/text.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A file of `count` bytes, byte i being i mod 251.
static struct text *counting_text(size_t count)
{
    char path[] = "/tmp/zerogauge-text-XXXXXX";
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    FILE *file = fdopen(descriptor, "wb");
    for (size_t i = 0; i < count; i++)
        fputc((int)(i % 251), file);
    fclose(file);
    struct text *text;
    cr_assert(text_open(path, &text) == ERR_NONE, "%s", err_message());
    unlink(path);
    cr_assert_eq(text_bytes(text), count);
    return text;
}

static bool installed(void)
{
    if (system("command -v bible >/dev/null 2>&1") == 0)
        return true;
    puts("TEST SKIPPED: the program bible (package bible-kjv) is not installed");
    return false;
}

Test(text, the_default_is_the_whole_bible)
{
    if (!installed())
        return;
    struct text *text;
    setenv("COLUMNS", "40", 1);  // the text must not depend on the terminal
    cr_assert(text_open(NULL, &text) == ERR_NONE, "%s", err_message());
    cr_assert(text_bytes(text) > 4000000);
    size_t length = text_bytes(text) - 1;  // one row that can begin in one place only
    uint16_t *tokens = malloc((length + 1) * sizeof *tokens);
    char *all = malloc(length + 2);
    cr_assert(text_batch(text, 1, 1, 0, 1, length, tokens) == ERR_NONE);
    for (size_t i = 0; i <= length; i++) {
        cr_assert(tokens[i] < 256);
        all[i] = (char)tokens[i];
    }
    all[length + 1] = 0;
    cr_assert(strncmp(all, "Ge1:1 In the beginning God created the heaven and the earth.\n", 61) == 0, "%.80s", all);
    cr_assert(strstr(all, "Rev22:21 The grace of our Lord Jesus Christ be with you all. Amen."));
    free(tokens);
    free(all);
    text_close(text);
}

Test(text, without_the_program_the_message_says_what_to_install)
{
    struct text *text;
    setenv("PATH", "/nonexistent", 1);
    cr_assert_eq(text_open(NULL, &text), ERR_USAGE);
    cr_assert(strstr(err_message(), "apt-get install bible-kjv") && strstr(err_message(), "--text FILE"), "%s",
              err_message());
}

// Another program of the same name.
static void cr_refused(const char *script)
{
    char directory[] = "/tmp/zerogauge-bible-XXXXXX", path[64];
    cr_assert(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/bible", directory);
    FILE *file = fopen(path, "w");
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    cr_assert(chmod(path, 0700) == 0);
    char search[128];
    snprintf(search, sizeof search, "%s:/usr/bin:/bin", directory);
    setenv("PATH", search, 1);
    struct text *text;
    int code = text_open(NULL, &text);
    unlink(path);
    rmdir(directory);
    cr_assert_eq(code, ERR_USAGE, "accepted: %s", script);
}

Test(text, a_program_that_fails_or_prints_too_little_is_refused)
{
    cr_refused("head -c 3000000 /dev/zero; exit 1");
    cr_refused("echo In the beginning");
    cr_refused("kill -9 $$");
}

Test(text, a_file_that_cannot_be_read_is_named)
{
    struct text *text;
    cr_assert_eq(text_open("/nonexistent/file", &text), ERR_USAGE);
    cr_assert(strstr(err_message(), "/nonexistent/file"), "%s", err_message());
    cr_assert_eq(text_open("/", &text), ERR_USAGE);
    cr_assert(strstr(err_message(), "/: is not a regular file"), "%s", err_message());
}

Test(text, rows_are_parts_of_the_text)
{
    struct text *text = counting_text(200);
    uint16_t tokens[16 * 21];
    bool last = false, first = false;
    for (uint64_t step = 1; step <= 400; step++) {
        cr_assert(text_batch(text, 1, step, 0, 16, 20, tokens) == ERR_NONE);
        for (int row = 0; row < 16; row++) {
            for (int i = 1; i <= 20; i++)
                cr_assert_eq(tokens[row * 21 + i], tokens[row * 21] + i);
            first = first || tokens[row * 21] == 0;
            last = last || tokens[row * 21 + 20] == 199;
        }
    }
    cr_assert(first && last, "the ends of the text are never drawn");
    text_close(text);
}

Test(text, a_text_shorter_than_a_sequence_is_refused)
{
    struct text *text = counting_text(20);
    uint16_t tokens[21];
    cr_assert(text_batch(text, 1, 1, 0, 1, 19, tokens) == ERR_NONE);
    cr_assert_eq(text_batch(text, 1, 1, 0, 1, 20, tokens), ERR_USAGE);
    cr_assert(strstr(err_message(), "20 bytes"), "%s", err_message());
    text_close(text);
    text = counting_text(0);
    cr_assert_eq(text_batch(text, 1, 1, 0, 1, 1, tokens), ERR_USAGE);
    text_close(text);
}

Test(text, batches_are_reproducible_and_differ_by_seed_step_and_index)
{
    struct text *text = counting_text(100000);
    uint16_t base[4 * 9], again[4 * 9];
    cr_assert(text_batch(text, 1, 1, 0, 4, 8, base) == ERR_NONE);
    cr_assert(text_batch(text, 1, 1, 0, 4, 8, again) == ERR_NONE);
    cr_assert(memcmp(base, again, sizeof base) == 0);
    const uint64_t others[][3] = {{2, 1, 0}, {1, 2, 0}, {1, 1, 1}};
    for (int i = 0; i < 3; i++) {
        cr_assert(text_batch(text, others[i][0], others[i][1], others[i][2], 4, 8, again) == ERR_NONE);
        for (int row = 0; row < 4; row++)
            cr_assert(memcmp(base + row * 9, again + row * 9, 9 * sizeof *base) != 0, "case %d, row %d", i, row);
    }
    text_close(text);
}

// 2 ranks, 2 micro-steps of 3 rows; 4 ranks with 3 rows; 1 rank with 12.
Test(text, the_samples_of_a_step_do_not_depend_on_their_distribution)
{
    struct text *text = counting_text(100000);
    uint16_t parts[12 * 9], whole[12 * 9];
    for (uint64_t index = 0; index < 4; index++)
        cr_assert(text_batch(text, 9, 5, index, 3, 8, parts + index * 3 * 9) == ERR_NONE);
    cr_assert(text_batch(text, 9, 5, 0, 12, 8, whole) == ERR_NONE);
    cr_assert(memcmp(parts, whole, sizeof whole) == 0);
    text_close(text);
}
