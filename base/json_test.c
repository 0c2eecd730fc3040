// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_text parse(const char *text)
{
    struct json_text out;
    cr_assert_eq(json_text_parse("x.json", text, strlen(text), &out), ERR_NONE, "%s", err_message());
    return out;
}

static void expect_refused(const char *text, const char *message)
{
    struct json_text out;
    cr_expect_eq(json_text_parse("x.json", text, strlen(text), &out), ERR_USAGE);
    cr_expect_str_eq(err_message(), message);
    cr_expect_null(out.root);
}

struct key {
    const char *path;
    int line;
};

// The last key has no path.
static void expect_lines(const char *json, const struct key *keys)
{
    struct json_text text = parse(json);
    for (; keys->path; keys++)
        cr_expect_eq(json_text_line(&text, keys->path), keys->line, "%s: %d", keys->path,
                     json_text_line(&text, keys->path));
    json_text_close(&text);
}

Test(json, every_key_has_its_line_and_a_missing_key_that_of_the_object_around_it)
{
    expect_lines("{\n\"a\": 1, \"b\":\n{\"c\":\n \"d\",\n\"a\": [ [], {\"e\": 1} ]\n},\n\n\"f\": {}}",
                 (struct key[]){{"a", 2}, {"b", 2}, {"b.c", 3}, {"b.a", 5}, {"f", 8}, {0}});
    expect_lines("\n{\n\"b\": {\n\"c\": 1}}", (struct key[]){{"b.x.y", 3}, {"x", 2}, {"", 2}, {0}});
    expect_lines("{\"a\": [1, {\n\"x\": 1},\n[\n{\"y\": 2, \"x\":\n3}]]}", (struct key[]){{"a.1.x", 2},
                                                                                          {"a.2", 3},
                                                                                          {"a.2.0.y", 4},
                                                                                          {"a.2.0.z", 4},
                                                                                          {"a.0", 1},
                                                                                          {"a.1x", 1},
                                                                                          {"a.99999999999999999999", 1},
                                                                                          {0}});
    // A key with a dot is found by its name.
    expect_lines("{\"a\": {\"b\": 1},\n\"a.b\": 2}", (struct key[]){{"a.b", 2}, {0}});
}

Test(json, strings_that_look_like_structure_do_not_shift_lines)
{
    expect_lines("{\"a\": \"{\\\"x\\\":[\\\\\",\n\"}],\\n\": 2,\n\"b\\u0062\": 3}",
                 (struct key[]){{"}],\n", 2}, {"bb", 3}, {0}});
    expect_lines("{\"a\": \"\\\"{\",\n\"b\": [\"\\\\\"],\n\"c\": 1}", (struct key[]){{"b", 2}, {"c", 3}, {0}});
}

Test(json, duplicate_keys_are_refused_at_any_depth)
{
    expect_refused("{\"a\": 1,\n\"b\": 2,\n\"a\": 3,\n\"a\": 4}",
                   "x.json:3: a: given twice, first on line 1; expected it once");
    expect_refused("{\"b\": 1, \"a\": 1,\n\"b\": 2,\n\"a\": 2}",
                   "x.json:2: b: given twice, first on line 1; expected it once");
    expect_refused("{\"a\": [0, {\"b\": 1},\n{\"b\": 1, \"c\": {}},\n{\"b\": 1,\n\"b\": 2}]}",
                   "x.json:4: a.3.b: given twice, first on line 3; expected it once");
    expect_refused("{\"caf\xc3\xa9\": 1,\n\"caf\\u00e9\": 2}",
                   "x.json:2: caf\xc3\xa9: given twice, first on line 1; expected it once");
    expect_refused("{\"\": 1, \"\": 2}", "x.json:1: : given twice, first on line 1; expected it once");
}

Test(json, equal_keys_in_different_objects_are_accepted)
{
    struct json_text text = parse("{\"a\": {\"a\": {\"a\": 1}}, \"b\": [{\"a\": 1}, {\"a\": 2}], "
                                  "\"ab\": [\"a\", \"a\", \"a\"]}");
    json_text_close(&text);
}

Test(json, text_other_than_an_object_is_refused)
{
    expect_refused("", "x.json:1: is empty, expected JSON");
    expect_refused("[]", "x.json:1: is an array, expected a JSON object");
    struct json_text out;
    cr_expect_eq(json_text_parse("x.json", "{\n\0}", 4, &out), ERR_USAGE);
    cr_expect_str_eq(err_message(), "x.json:2: holds a NUL byte, expected JSON");
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
    // The deepest nesting that the parser accepts, with a duplicate key at the bottom.
    depth = 2000;
    memcpy(text + 5 * depth, "{\"b\":0,\"b\":1}", 13);
    memset(text + 5 * depth + 13, '}', depth);
    cr_expect_eq(json_text_parse("x.json", text, 6 * depth + 13, &out), ERR_USAGE);
    cr_expect(strstr(err_message(), ".a.b: given twice"), "%s", err_message());
    free(text);
}

Test(json, a_hundred_thousand_keys_parse_quickly)
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

// All lengths of a long path, so that it is truncated in every way.
Test(json, the_path_of_a_duplicate_is_cut_at_the_front)
{
    for (int length = 1; length < 300; length++) {
        char text[2000], expected[600];
        snprintf(text, sizeof text, "{\"%0*d\": {\"bc\": [{\"k\": 0,\n\"k\": 0}]}}", length, 0);
        snprintf(expected, sizeof expected, "x.json:2: %.*s%sbc.0.k: given twice, first on line 1; expected it once",
                 length <= 248 ? length : 0, text + 2, length <= 248 ? "." : "");
        expect_refused(text, expected);
    }
}

Test(json, lines_of_a_part_of_a_file_count_from_its_first_line)
{
    json_t *value;
    const char *twice = "[1,\n{\"a\": 1,\n\"a\": 2}]";
    cr_expect_eq(json_parse("x.jsonl", 7, "[1,\n2]", 6, &value), ERR_NONE, "%s", err_message());
    cr_expect_eq(json_array_size(value), 2);
    json_decref(value);
    cr_expect_eq(json_parse("x.jsonl", 7, twice, strlen(twice), &value), ERR_USAGE);
    cr_expect_str_eq(err_message(), "x.jsonl:9: 1.a: given twice, first on line 8; expected it once");
    cr_expect_eq(json_parse("x.jsonl", 7, "[1,\n2", 5, &value), ERR_USAGE);
    cr_expect(strstr(err_message(), "x.jsonl:8: is not JSON: "), "%s", err_message());
    cr_expect_null(value);
}

Test(json, truncated_text_is_refused_without_a_read_beyond_its_end)
{
    const char *text = "{\"a\": [1, {\"b\\u0062\": \"c\\\"\", \"d\": {}}], \"e\": [[]], \"e\": 2}";
    for (size_t bytes = 1; bytes <= strlen(text); bytes++) {
        char *part = malloc(bytes);
        json_t *value;
        memcpy(part, text, bytes);
        cr_expect_eq(json_parse("x.json", 1, part, bytes, &value), ERR_USAGE);
        free(part);
    }
}

Test(json, messages_shorten_values)
{
    const char *const rows[][2] = {{"[4]", "4"},
                                   {"[\"two\"]", "\"two\""},
                                   {"[[1,2]]", "[1,2]"},
                                   {"[{}]", "an empty object"},
                                   {"[{\"a\": 1}]", "an object"},
                                   {"[0.1]", "0.1"},
                                   {"[]", "missing"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[TEXT_MESSAGE_BYTES];
        json_t *value;
        cr_assert_eq(json_parse("x.json", 1, rows[i][0], strlen(rows[i][0]), &value), ERR_NONE, "%s", err_message());
        cr_expect_str_eq(json_message(out, json_array_get(value, 0)), rows[i][1]);
        json_decref(value);
    }
}
