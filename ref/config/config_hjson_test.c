// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_hjson.h"

#include "base/err.h"
#include "ref/config/config.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static void becomes(const char *text, const char *json)
{
    size_t bytes;
    char *out = config_json_of_hjson(text, strlen(text), &bytes);
    cr_assert_not_null(out);
    cr_expect_eq(bytes, strlen(out));
    cr_expect_str_eq(out, json, "%s became %s", text, out);
    free(out);
}

Test(config_hjson, comments_become_spaces_and_lines_stay)
{
    becomes("{\"a\": 1} // b", "{\"a\": 1}     ");
    becomes("# x\n{\"a\": 1, /* y\nz */ \"b\": 2}", "   \n{\"a\": 1,     \n     \"b\": 2}");
    becomes("{\"a\": \"# no // comment /* \\\" // */\"}", "{\"a\": \"# no // comment /* \\\" // */\"}");
    becomes("{\"a\": 1 /* open }", "{\"a\": 1, /* open }");
}

Test(config_hjson, trailing_commas_and_missing_root_braces_are_accepted)
{
    becomes("{\"a\": [1, 2, ], }", "{\"a\": [1, 2  ]  }");
    becomes("\"a\": 1,\n\"b\": 2,\n", "{\"a\": 1,\n\"b\": 2 \n}");
    becomes("{\"a\": 1,, \"b\": 2}", "{\"a\": 1,, \"b\": 2}");
    becomes("[1]", "[1]");
    becomes("", "");
}

Test(config_hjson, keys_and_strings_need_no_quotes_and_values_on_lines_no_commas)
{
    becomes("{a: 1}", "{\"a\": 1}");
    becomes("a: 1\nb: {c: 'x' d: null}\n", "{\"a\": 1,\n\"b\": {\"c\": \"x\", \"d\": null}\n}");
    becomes("{a: {b: cpu # not a comment\n}\n c: [1 , 2\n3]}",
            "{\"a\": {\"b\": \"cpu # not a comment\"\n},\n \"c\": [1 , 2,\n3]}");
    becomes("a: 5e8 // many\nb: 5e8x\nc: false/**/", "{\"a\": 5e8,        \n\"b\": \"5e8x\",\n\"c\": false    }");
    becomes("{'a': 'it\\'s \"so\"', b: \"\\u0041\\\"\"}", "{\"a\": \"it's \\\"so\\\"\", \"b\": \"\\u0041\\\"\"}");
    becomes("a: \\d \"e\"\t\n", "{\"a\": \"\\\\d \\\"e\\\"\"\t\n}");
    becomes("a: 01\nb: -", "{\"a\": \"01\",\n\"b\": \"-\"}");
    becomes("\xef\xbb\xbf{a: 1}", "{\"a\": 1}");
}

Test(config_hjson, text_of_several_lines_loses_its_indent_and_keeps_the_lines_behind_it)
{
    becomes("a:\n  '''\n  x\n    y'z\n  '''\nb: 1", "{\"a\":\n  \"x\\n  y'z\"\n\n\n,\n\"b\": 1}");
    becomes("a: '''x'''", "{\"a\": \"x\"}");
    becomes("a: '''x", "{\"a\": \"x");
}

Test(config_hjson, what_hjson_refuses_stays_for_the_json_parser)
{
    becomes("{a b: 1}", "{a b: 1}");
    becomes("{: 1}", "{: 1}");
    becomes("{a: ]}", "{\"a\": ]}");
    becomes("{a: 1} b", "{\"a\": 1} b");
}

// The first of them ends the search for comments, which would otherwise take a square of steps.
Test(config_hjson, a_text_of_open_comments_stays_as_it_is)
{
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES + 1);
    cr_assert_not_null(text);
    for (int i = 0; i < BYTES; i++)
        text[i] = i % 4 == 0 ? '/' : i % 4 == 1 ? '*' : ' ';
    text[BYTES] = '\0';
    becomes(text, text);
    free(text);
}

static int load(const char *text, struct config *out)
{
    const struct config_options options = {.world = 2};
    return config_load_text("c.json", text, strlen(text), &options, out, NULL);
}

Test(config_hjson, a_configuration_may_have_them_and_errors_keep_their_lines)
{
    struct config config;
    cr_assert_eq(load("# ours\n\"zero_optimization\": {\n  \"stage\": 3, // all\n},\n\"train_batch_size\": 8", &config),
                 ERR_NONE, "%s", err_message());
    cr_expect_eq(config.stage, 3);
    cr_expect_eq(config.train_batch, 8);
    cr_expect_eq(load("{\n// one\n\"train_batch_size\": 8, # two\n\"zero_optimization\": {\"stage\": 4}}", &config),
                 ERR_USAGE);
    cr_expect(strstr(err_message(), "c.json:4: zero_optimization.stage"), "%s", err_message());
    cr_assert_eq(load("train_batch_size: 8\nzero_optimization: {\n  stage: 2\n}", &config), ERR_NONE, "%s",
                 err_message());
    cr_expect_eq(config.stage, 2);
    cr_expect_eq(load("train_batch_size: 8\nzero_optimization: {\n  stage: two\n}", &config), ERR_USAGE);
    cr_expect(strstr(err_message(), "c.json:3: zero_optimization.stage: is \"two\""), "%s", err_message());
}
