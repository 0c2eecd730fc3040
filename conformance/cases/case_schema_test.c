// SPDX-License-Identifier: Apache-2.0
// The schemas of case.json and order.json: they take what the suite writes, and what the readers refuse, as far as a
// schema can say it, they refuse.
#include "conformance/cases/case_folders.h"
#include "conformance/suite/suite.h"
#include "base/err.h"
#include "base/folder_test.h"
#include "conformance/cases/schema_test.h"
#include "conformance/cases/schema_valid_test.h"

static struct check_case parsed;

static int read_case(const char *text, size_t bytes)
{
    return case_parse("case.json", text, bytes, &parsed);
}

// No two of its keys depend on one another; what may be null is.
static const char plain[] =
    "{\"contract\": 1, \"name\": \"plain\", \"note\": \"Plain.\", \"requirements\": [\"R-ANS-01\"], \"world\": 2, "
    "\"mesh\": null, \"tokens\": null, \"steps\": 3, \"accumulation\": 1, \"stage\": 3, \"precision\": \"fp32\", "
    "\"communication_dtype\": \"fp32\", "
    "\"accumulation_dtype\": \"fp32\", \"gather_dtype\": null, "
    "\"params\": [{\"name\": \"a\", \"shape\": [1], \"group\": 0, \"frozen\": false, "
    "\"used\": true, \"tied_to\": null, \"unused_in\": null, \"adapts\": null, \"placement\": null}], \"groups\": "
    "[{\"optimizer\": "
    "\"Adam\", \"lr\": 0.5, \"betas\": [0.9, 0.95], "
    "\"eps\": 1e-8, \"weight_decay\": 0, \"bias_correction\": true}], \"gradient_clipping\": 0, "
    "\"loss_scale\": {\"kind\": \"none\"}, \"overflow_check\": false, \"buckets\": {\"reduce\": 1, \"allgather\": 1, "
    "\"prefetch\": 1, \"sub_group\": 1}, \"hints\": {\"overlap\": false, \"contiguous_gradients\": false, "
    "\"reduce_scatter\": false}, \"offload\": {\"optimizer\": \"none\", \"param\": \"none\"}, \"delayed_update\": 0, "
    "\"checkpoint\": null, \"exact\": true, \"expect\": \"answer\"}";

static const char muon[] =
    "{\"contract\": 1, \"name\": \"plain\", \"note\": \"Plain.\", \"world\": 2, \"steps\": 3, "
    "\"accumulation\": 1, \"stage\": 1, \"precision\": \"fp32\", \"communication_dtype\": \"fp32\", "
    "\"accumulation_dtype\": \"fp32\", \"params\": [{\"name\": \"a\", \"shape\": [%s], \"group\": 0, "
    "\"frozen\": false, \"used\": true, \"tied_to\": null}], \"groups\": [{\"optimizer\": \"Muon\", "
    "\"lr\": 0.5, %s\"nesterov\": true, \"ns_steps\": 5, \"adjust_lr_fn\": \"original\", "
    "\"weight_decay\": 0}], \"gradient_clipping\": 0, \"loss_scale\": {\"kind\": \"none\"}, "
    "\"overflow_check\": false, \"buckets\": {\"reduce\": 1, \"allgather\": 1, \"prefetch\": 1, "
    "\"sub_group\": 1}, \"hints\": {\"overlap\": false, \"contiguous_gradients\": false, "
    "\"reduce_scatter\": false}, \"offload\": {\"optimizer\": \"none\", \"param\": \"none\"}, "
    "\"delayed_update\": 0, \"checkpoint\": null, \"expect\": \"answer\"}";

// A matrix of Muon has a momentum; a vector is refused, and so are Adam's betas.
Test(case_schema, muon_is_of_matrices)
{
    static const struct {
        const char *shape, *momentum, *why;
    } rows[] = {{"2, 3", "\"momentum\": 0.5, ", NULL},
                {"6", "\"momentum\": 0.5, ", "group: is of Muon, expected a matrix that is not tied"},
                {"2, 3", "\"momentum\": 1, ", "momentum: is 1, expected a number from 0 to below 1"},
                {"2, 3", "", "momentum: missing"},
                {"2, 3", "\"momentum\": 0.5, \"betas\": [0.9, 0.9], ", "betas: unknown key"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[sizeof muon + 128];
        int bytes = snprintf(text, sizeof text, muon, rows[i].shape, rows[i].momentum);
        int code = read_case(text, (size_t)bytes);
        cr_expect_eq(code, rows[i].why ? ERR_USAGE : ERR_NONE, "%zu: %s", i, err_message());
        cr_expect(!rows[i].why || strstr(err_message(), rows[i].why), "%s: %s", rows[i].why, err_message());
    }
}

Test(case_schema, the_schema_says_what_the_reader_takes)
{
    int changes = schema_check("conformance/schema/case.schema.json", NULL, plain, read_case);
    cr_expect_gt(changes, 200, "%d", changes);
}

struct change {
    const char *from, *to;
};

static char *changed(const struct change *change)
{
    char *text = NULL;
    const char *at = strstr(plain, change->from);
    cr_assert_not_null(at, "%s", change->from);
    cr_assert_geq(asprintf(&text, "%.*s%s%s", (int)(at - plain), plain, change->to, at + strlen(change->from)), 0);
    return text;
}

// The reader and the schema take the text with each change, or refuse it.
static void expect_all(const struct change changes[], size_t count, bool takes)
{
    json_t *schema = schema_load("case.schema.json");
    for (size_t i = 0; i < count; i++) {
        char *text = changed(&changes[i]);
        cr_expect_eq(read_case(text, strlen(text)), takes ? ERR_NONE : ERR_USAGE, "%s: %s", changes[i].to,
                     err_message());
        cr_expect_eq(schema_takes_text(schema, text), takes, "%s", changes[i].to);
        free(text);
    }
    json_decref(schema);
}

#define DYNAMIC(more)                                                                                                  \
    "\"loss_scale\": {\"kind\": \"dynamic\", \"initial_scale\": 8, \"window\": 2, \"hysteresis\": 1, " more "}"
#define CHECKPOINT(phase, step, more)                                                                                  \
    "\"checkpoint\": {\"phase\": \"" phase "\", \"step\": " step ", \"weights_only\": false" more "}"
#define NO_SCALE "\"loss_scale\": {\"kind\": \"none\"}"

Test(case_schema, what_may_be_one_thing_or_another_is_taken_as_each)
{
    static const struct change changes[] = {
        {"\"lr\": 0.5", "\"lr\": [0.5, 1, 2e-3]"},
        {NO_SCALE, "\"loss_scale\": {\"kind\": \"static\", \"scale\": 0.25}"},
        {NO_SCALE, DYNAMIC("\"min_scale\": 1")},
        {"\"checkpoint\": null", CHECKPOINT("save", "2", "")},
        {"\"checkpoint\": null", CHECKPOINT("resume", "1", "")},
        {"\"placement\": null}", "\"placement\": null}, {\"name\": \"b\", \"shape\": [1], \"group\": 0, "
                                 "\"frozen\": false, \"used\": true, \"tied_to\": \"a\"}"},
        {"\"name\": \"plain\"", "\"name\": \"plain.w2~2\""},
        {"\"shape\": [1]", "\"shape\": []"},
        {"\"expect\": \"answer\"", "\"expect\": \"refusal\""},
    };
    expect_all(changes, sizeof changes / sizeof *changes, true);
}

Test(case_schema, what_is_neither_is_refused_by_both)
{
    static const struct change changes[] = {
        {"\"lr\": 0.5", "\"lr\": \"0.5\""},
        {"\"lr\": 0.5", "\"lr\": [0.5, null, 1]"},
        {"\"lr\": 0.5", "\"lr\": []"},
        {NO_SCALE, "\"loss_scale\": {\"kind\": \"none\", \"scale\": 2}"},
        {NO_SCALE, "\"loss_scale\": {\"kind\": \"static\"}"},
        {NO_SCALE, "\"loss_scale\": {\"kind\": \"static\", \"scale\": \"2\"}"},
        {NO_SCALE, "\"loss_scale\": {\"kind\": \"some\"}"},
        {NO_SCALE, "\"loss_scale\": null"},
        {NO_SCALE, DYNAMIC("\"min\": 1")},
        {NO_SCALE, DYNAMIC("\"min_scale\": 1, \"scale\": 8")},
        {"\"checkpoint\": null", CHECKPOINT("load", "2", "")},
        {"\"checkpoint\": null", CHECKPOINT("save", "0", "")},
        {"\"checkpoint\": null", CHECKPOINT("save", "2", ", \"path\": \"/\"")},
        {"\"checkpoint\": null", "\"checkpoint\": false"},
        {"\"tied_to\": null", "\"tied_to\": 0"},
        {"\"tied_to\": null", "\"tied_to\": \"../a\""},
        {"\"name\": \"a\"", "\"name\": \"a/b\""},
        {"\"name\": \"plain\"", "\"name\": \"../plain\""},
        {"\"name\": \"plain\"", "\"name\": \"\""},
        {"\"R-ANS-01\"", "\"R ANS\""},
        {"\"shape\": [1]", "\"shape\": [1, 1, 1, 1, 1]"},
        {"\"betas\": [0.9, 0.95]", "\"betas\": [0.9, 0.95, 0.99]"},
        {"\"world\": 2", "\"world\": 2, \"world\": 2"},
        {"{\"contract\"", "[{\"contract\""},
    };
    expect_all(changes, sizeof changes / sizeof *changes, false);
}

Test(case_schema, a_case_of_one_step_has_no_checkpoint)
{
    char *text = changed(&(struct change){"\"checkpoint\": null", CHECKPOINT("save", "1", "")});
    char *steps = strstr(text, "\"steps\": 3");
    steps[strlen("\"steps\": ")] = '1';
    cr_expect_eq(read_case(text, strlen(text)), ERR_USAGE);
    cr_expect_str_eq(err_message(), "case.json:1: checkpoint: is given in a case of one step, which has none after it");
    free(text);
}

struct visit {
    json_t *schema;
    int count;
};

static int expect_taken(void *context, const struct check_case *c)
{
    struct visit *visit = context;
    char *text;
    size_t bytes;
    cr_assert_eq(case_text(c, &text, &bytes), ERR_NONE);
    cr_assert(schema_takes_text(visit->schema, text), "%s", text);
    free(text);
    visit->count++;
    return ERR_NONE;
}

Test(case_schema, every_case_is_what_the_schema_says)
{
    struct visit visit = {.schema = schema_load("case.schema.json")};
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_FULL}, expect_taken, &visit), ERR_NONE, "%s",
                 err_message());
    cr_assert_gt(visit.count, 1000);
    json_decref(visit.schema);
}

Test(case_schema, the_order_is_a_list_of_names)
{
    static const char *const good[] = {"[]", "[\"a\"]", "[\"red-exact.w2.s0.fp32\", \"red-exact.w2.s0.fp32~2\"]"};
    static const char *const bad[] = {"{}",       "\"a\"",     "[1]",       "[null]", "[\"\"]",
                                      "[\"..\"]", "[\"a/b\"]", "[[\"a\"]]", "[\"a\"", "[\".a\"]"};
    char folder[PATH_MAX], path[PATH_MAX];
    json_t *order, *schema = schema_load("order.schema.json");
    folder_make(folder);
    snprintf(path, sizeof path, "%.4000s/order.json", folder);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        folder_write(path, good[i], strlen(good[i]));
        cr_expect_eq(case_order_read(folder, &order), ERR_NONE, "%s", good[i]);
        cr_expect(schema_takes_text(schema, good[i]), "%s", good[i]);
        json_decref(order);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        folder_write(path, bad[i], strlen(bad[i]));
        cr_expect_eq(case_order_read(folder, &order), ERR_USAGE, "%s", bad[i]);
        cr_expect_not(schema_takes_text(schema, bad[i]), "%s", bad[i]);
    }
    cr_expect_not(schema_takes_text(schema, "[\"a\", \"a\"]"), "each once");
    json_decref(schema);
    folder_remove(folder);
}

Test(case_schema, every_json_file_of_the_contract_has_a_schema)
{
    size_t bytes;
    int count = 0;
    char *text = folder_read(ZG_SOURCE_DIR "/conformance/CONTRACT.md", &bytes), *rest = text;
    text[bytes] = '\0';
    for (char *word; (word = strsep(&rest, "`/ \n"));) {
        size_t length = strlen(word);
        bool named = length > 5 && strcmp(word + length - 5, ".json") == 0 && strncmp(word, "NAME.", 5) != 0;
        if (!named || strchr(word, '{'))
            continue;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/conformance/schema/%.*s.schema.json", ZG_SOURCE_DIR, (int)length - 5, word);
        cr_expect_eq(access(path, R_OK), 0, "%s", path);
        count++;
    }
    cr_expect_geq(count, 4);
    free(text);
}
