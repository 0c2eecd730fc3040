// SPDX-License-Identifier: Apache-2.0
// Escaping of untrusted text: plain text stays unchanged, all other text becomes visible and harmless.
#include "base/safe_text.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void terminal(FILE *out, const char *text)
{
    text_terminal(out, text, 3);
}

static char *printed(void (*print)(FILE *out, const char *text), const char *text)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&out, &bytes);
    print(file, text);
    fclose(file);
    return out;
}

// A text and its expected result in each format; null: that in a terminal.
static const struct {
    const char *text, *terminal, *markup, *json;
} rows[] = {
    {"", "", NULL, NULL},
    {NULL, "", NULL, NULL},
    {"x", "x", NULL, NULL},
    {"a \"b\" 'c' <d> & e", "a \"b\" 'c' <d> & e", "a &quot;b&quot; &#39;c&#39; &lt;d&gt; &amp; e", NULL},
    {"]]>", "]]>", "]]&gt;", NULL},
    {"a\nb\n", "a\n   b\n   ", "a&#10;b&#10;", "a\nb\n"},
    {"a\tb\r", "a b\\x0d", NULL, NULL},
    {"\x01\x1b[31m\x7f", "\\x01\\x1b[31m\\x7f", NULL, NULL},
    // Two, three and four bytes: the least, the largest, and common characters.
    {"\xc2\xa0\xdf\xbf\xc3\xa9", "\xc2\xa0\xdf\xbf\xc3\xa9", NULL, NULL},
    {"\xe0\xa0\x80\xef\xbf\xbd\xe2\x82\xac", "\xe0\xa0\x80\xef\xbf\xbd\xe2\x82\xac", NULL, NULL},
    {"\xf0\x90\x80\x80\xf0\x9f\x8c\x8d", "\xf0\x90\x80\x80\xf0\x9f\x8c\x8d", NULL, NULL},
    // The neighbours of the surrogates, which are not characters.
    {"\xed\x9f\xbf\xed\xa0\x80\xed\xbf\xbf\xee\x80\x80", "\xed\x9f\xbf\\xed\\xa0\\x80\\xed\\xbf\\xbf\xee\x80\x80", NULL,
     NULL},
    // Overlong encodings.
    {"\xc0\x80\xc1\xbf\xe0\x9f\xbf\xf0\x8f\xbf\xbf", "\\xc0\\x80\\xc1\\xbf\\xe0\\x9f\\xbf\\xf0\\x8f\\xbf\\xbf", NULL,
     NULL},
    // Beyond the last code point.
    {"\xf4\x90\x80\x80\xf8\x88\x80\x80\x80\xff", "\\xf4\\x90\\x80\\x80\\xf8\\x88\\x80\\x80\\x80\\xff", NULL, NULL},
    // A lone continuation byte, and characters truncated by the end or by another character.
    {"\x80<\xe2\x82<\xe2<\xf0\x9f\x8c", "\\x80<\\xe2\\x82<\\xe2<\\xf0\\x9f\\x8c",
     "\\x80&lt;\\xe2\\x82&lt;\\xe2&lt;\\xf0\\x9f\\x8c", NULL},
    // C1 controls, writing directions, zero width, noncharacters.
    {"\xc2\x80\xc2\x9f\xe2\x80\x8b\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xef\xbf\xbe\xef\xbf\xbf\xf0\x9f\xbf\xbe",
     "\\u{0080}\\u{009f}\\u{200b}\\u{202e}\\u{2066}\\u{feff}\\u{fffe}\\u{ffff}\\u{1fffe}", NULL, NULL},
    {"\xc2\xad\xd8\x9b\xd8\x9c\xd8\x9d", "\\u{00ad}\xd8\x9b\\u{061c}\xd8\x9d", NULL, NULL},
    {"\xf4\x8f\xbf\xbd\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbd\\u{10ffff}", NULL, NULL},
    {"%s%n\\", "%s%n\\", NULL, NULL},
};

Test(safe_text, every_format_keeps_plain_text_and_escapes_the_rest)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        // A copy of the exact size, so that a sanitizer detects reads beyond the end.
        char *text = rows[i].text ? strdup(rows[i].text) : NULL, *out = printed(terminal, text);
        cr_assert_str_eq(out, rows[i].terminal, "row %zu: %s", i, out);
        free(out);
        out = printed(text_markup, text);
        cr_assert_str_eq(out, rows[i].markup ? rows[i].markup : rows[i].terminal, "row %zu: %s", i, out);
        free(out);
        json_t *json = text_json(text);
        cr_assert_str_eq(json_string_value(json), rows[i].json ? rows[i].json : rows[i].terminal, "row %zu: %s", i,
                         json_string_value(json));
        json_decref(json);
        free(text);
    }
}

Test(safe_text, any_bytes_become_json_that_reads_back_and_markup_without_markup)
{
    uint64_t state = 1;
    for (int trial = 0; trial < 20000; trial++) {
        char text[32];
        int length = trial % 31;
        for (int i = 0; i < length; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            // Half of the bytes are lead or continuation bytes of multi-byte characters.
            unsigned byte = (unsigned)(state >> 56);
            text[i] = (char)(byte ? byte : 1);
        }
        text[length] = '\0';
        json_t *json = text_json(text);
        cr_assert_not_null(json);
        json_decref(json);
        char *out = printed(text_markup, text);
        cr_assert_null(strpbrk(out, "<>\"'\n\x1b\x7f"));
        json = json_string(out);
        cr_assert_not_null(json, "no UTF-8");
        json_decref(json);
        free(out);
    }
}

Test(safe_text, a_message_is_truncated_at_characters_and_has_no_control_bytes)
{
    char out[TEXT_MESSAGE_BYTES];
    cr_expect_str_eq(text_message(out, "plain", 80), "plain");
    cr_expect_str_eq(text_message(out, "plain", 5), "plain");
    cr_expect_str_eq(text_message(out, "plain", 4), "plai...");
    cr_expect_str_eq(text_message(out, "a\n\t\x1b[2J\x7f", 80), "a\\x0a\\x09\\x1b[2J\\x7f");
    cr_expect_str_eq(text_message(out, "\xc3\xa9\xc3\xa9", 3), "\xc3\xa9...");
    cr_expect_str_eq(text_message(out, "\xc3", 80), "\\xc3");
    cr_expect_str_eq(text_message(out, "a\xc2\x9bz\xc2\xa0", 80), "a\\u{009b}z\xc2\xa0");
    cr_expect_str_eq(text_message(out, "\xff\xe2\x82", 80), "\\xff\\xe2\\x82");
    char longest[2000];
    memset(longest, '\1', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cr_expect_lt(strlen(text_message(out, longest, SIZE_MAX)), TEXT_MESSAGE_BYTES);
}

// A datagram is one write.
Test(safe_text, what_is_said_is_written_in_one_piece)
{
    int ends[2];
    char said[256];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    int before = dup(STDERR_FILENO);
    dup2(ends[0], STDERR_FILENO);
    text_say("%s: two\nlines, %c", "rank 1", 7);
    dup2(before, STDERR_FILENO);
    ssize_t bytes = recv(ends[1], said, sizeof said, MSG_DONTWAIT);
    cr_assert_gt(bytes, 0);
    cr_expect_arr_eq(said, "rank 1: two\n    lines, \\x07\n", (size_t)bytes, "%.*s", (int)bytes, said);
    cr_expect_lt(recv(ends[1], said, sizeof said, MSG_DONTWAIT), 0, "and nothing else");
    close(before);
    close(ends[0]);
    close(ends[1]);
}
