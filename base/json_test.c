// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_text parse(const char *text)
{
    struct json_text out;
    cr_assert_eq(json_text_parse("x.json", text, strlen(text), &out), ERR_NONE, "%s", err_message());
    return out;
}

static void expect_refused(const char *text, size_t bytes, const char *message)
{
    struct json_text out;
    cr_expect_eq(json_text_parse("x.json", text, bytes, &out), ERR_USAGE);
    cr_expect_str_eq(err_message(), message);
    cr_expect_null(out.root);
}

Test(json, every_key_knows_its_line)
{
    struct json_text text = parse("{\n\"a\": 1, \"b\":\n{\"c\":\n \"d\",\n\"a\": [ [], {\"e\": 1} ]\n},\n\n\"f\": {}}");
    const struct {
        const char *path;
        int line;
    } KEYS[] = {{"a", 2}, {"b", 2}, {"b.c", 3}, {"b.a", 5}, {"f", 8}};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        cr_expect_eq(json_text_line(&text, KEYS[i].path), KEYS[i].line, "%s: %d", KEYS[i].path,
                     json_text_line(&text, KEYS[i].path));
    json_text_close(&text);
}

Test(json, a_key_that_is_not_there_has_the_line_of_the_object_around_it)
{
    struct json_text text = parse("\n{\n\"b\": {\n\"c\": 1}}");
    cr_expect_eq(json_text_line(&text, "b.x.y"), 3);
    cr_expect_eq(json_text_line(&text, "x"), 2);
    cr_expect_eq(json_text_line(&text, ""), 2);
    json_text_close(&text);
}

Test(json, strings_that_look_like_structure_do_not_shift_lines)
{
    struct json_text text = parse("{\"a\": \"{\\\"x\\\":[\\\\\",\n\"}],\\n\": 2,\n\"b\\u0062\": 3}");
    cr_expect_eq(json_text_line(&text, "}],\n"), 2);
    cr_expect_eq(json_text_line(&text, "bb"), 3);
    json_text_close(&text);
    text = parse("{\"a\": [1, {\n\"x\": 1},\n[\n{\"y\": 2, \"x\":\n3}]]}");
    cr_expect_eq(json_text_line(&text, "a.1.x"), 2);
    cr_expect_eq(json_text_line(&text, "a.2"), 3);
    cr_expect_eq(json_text_line(&text, "a.2.0.y"), 4);
    cr_expect_eq(json_text_line(&text, "a.2.0.z"), 4);
    cr_expect_eq(json_text_line(&text, "a.0"), 1);
    cr_expect_eq(json_text_line(&text, "a.1x"), 1);
    cr_expect_eq(json_text_line(&text, "a.99999999999999999999"), 1);
    json_text_close(&text);
    text = parse("{\"a\": \"\\\"{\",\n\"b\": [\"\\\\\"],\n\"c\": 1}");
    cr_expect_eq(json_text_line(&text, "b"), 2);
    cr_expect_eq(json_text_line(&text, "c"), 3);
    json_text_close(&text);
}

Test(json, a_key_with_a_dot_is_found_by_its_name)
{
    struct json_text text = parse("{\"a\": {\"b\": 1},\n\"a.b\": 2}");
    cr_expect_eq(json_text_line(&text, "a.b"), 2);
    json_text_close(&text);
}

Test(json, duplicate_keys_are_refused_at_any_depth)
{
    const char *top = "{\"a\": 1,\n\"b\": 2,\n\"a\": 3,\n\"a\": 4}";
    expect_refused(top, strlen(top), "x.json:3: a: given twice, first on line 1; expected it once");
    const char *two = "{\"b\": 1, \"a\": 1,\n\"b\": 2,\n\"a\": 2}";
    expect_refused(two, strlen(two), "x.json:2: b: given twice, first on line 1; expected it once");
    const char *nested = "{\"a\": [0, {\"b\": 1},\n{\"b\": 1, \"c\": {}},\n{\"b\": 1,\n\"b\": 2}]}";
    expect_refused(nested, strlen(nested), "x.json:4: a.3.b: given twice, first on line 3; expected it once");
    const char *escaped = "{\"caf\xc3\xa9\": 1,\n\"caf\\u00e9\": 2}";
    expect_refused(escaped, strlen(escaped), "x.json:2: caf\xc3\xa9: given twice, first on line 1; expected it once");
    const char *empty = "{\"\": 1, \"\": 2}";
    expect_refused(empty, strlen(empty), "x.json:1: : given twice, first on line 1; expected it once");
}

Test(json, equal_names_in_different_objects_are_no_duplicates)
{
    struct json_text text = parse("{\"a\": {\"a\": {\"a\": 1}}, \"b\": [{\"a\": 1}, {\"a\": 2}], "
                                  "\"ab\": [\"a\", \"a\", \"a\"]}");
    json_text_close(&text);
}

Test(json, what_is_no_object_is_refused)
{
    expect_refused("", 0, "x.json:1: is empty, expected a JSON object");
    expect_refused("[]", 2, "x.json:1: is an array, expected a JSON object");
    expect_refused("{\n\0}", 4, "x.json:2: holds a NUL byte, expected JSON");
}

Test(json, nesting_beyond_the_parsers_limit_is_refused)
{
    size_t depth = 200000;
    char *text = malloc(6 * depth);
    for (size_t i = 0; i < depth; i++)
        memcpy(text + 5 * i, "{\"a\":", 5);
    struct json_text out;
    cr_expect_eq(json_text_parse("x.json", text, 5 * depth, &out), ERR_USAGE);
    cr_expect(strstr(err_message(), "x.json:1: is not JSON: maximum parsing depth reached"), "%s", err_message());
    // As deep as the parser goes, and a duplicate at the bottom.
    depth = 2000;
    memcpy(text + 5 * depth, "{\"b\":0,\"b\":1}", 13);
    memset(text + 5 * depth + 13, '}', depth);
    cr_expect_eq(json_text_parse("x.json", text, 6 * depth + 13, &out), ERR_USAGE);
    cr_expect(strstr(err_message(), ".a.b: given twice"), "%s", err_message());
    free(text);
}

Test(json, a_hundred_thousand_keys_take_no_noticeable_time)
{
    char *text = malloc(JSON_TEXT_BYTES_MAX);
    size_t used = 0;
    for (int i = 0; i < 80000; i++)
        used += (size_t)sprintf(text + used, "%c\"k%d\":%d", i ? ',' : '{', i, i % 10);
    memcpy(text + used, ",\n\"k777\":1}", 11);
    struct json_text out;
    cr_expect_eq(json_text_parse("x.json", text, used + 11, &out), ERR_USAGE);
    cr_expect_str_eq(err_message(), "x.json:2: k777: given twice, first on line 1; expected it once");
    free(text);
}

Test(json, a_text_beyond_the_limit_is_refused)
{
    size_t bytes = 100u << 20;
    char *text = malloc(bytes);
    memset(text, 'a', bytes);
    memcpy(text, "{\"a\": \"", 7);
    memcpy(text + bytes - 2, "\"}", 2);
    expect_refused(text, bytes, "x.json: is larger than 1048576 bytes, expected a JSON object of at most that");
    struct json_text out;
    memcpy(text + JSON_TEXT_BYTES_MAX - 2, "\"}", 2);
    cr_expect_eq(json_text_parse("x.json", text, JSON_TEXT_BYTES_MAX, &out), ERR_NONE, "%s", err_message());
    json_text_close(&out);
    free(text);
}

Test(json, shown_text_is_cut_at_characters_and_free_of_control_bytes)
{
    char out[JSON_SHOW_BYTES];
    cr_expect_str_eq(json_show(out, "plain", 80), "plain");
    cr_expect_str_eq(json_show(out, "plain", 5), "plain");
    cr_expect_str_eq(json_show(out, "plain", 4), "plai...");
    cr_expect_str_eq(json_show(out, "a\n\x1b[2J\x7f", 80), "a\\x0a\\x1b[2J\\x7f");
    cr_expect_str_eq(json_show(out, "\xc3\xa9\xc3\xa9", 3), "\xc3\xa9...");
    cr_expect_str_eq(json_show(out, "\xc3", 80), "\\xc3");
    cr_expect_str_eq(json_show(out,
                               "a\xc2\x9b"
                               "1\xc2\xa0",
                               80),
                     "a\\xc2\\x9b1\xc2\xa0");
    cr_expect_str_eq(json_show(out, "\xff\xe2\x82", 80), "\\xff\\xe2\\x82");
    char longest[2000];
    memset(longest, '\1', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cr_expect_lt(strlen(json_show(out, longest, SIZE_MAX)), JSON_SHOW_BYTES);
}
