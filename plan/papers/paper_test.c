// SPDX-License-Identifier: Apache-2.0
// Cells of papers: the built-in tables agree, and one that does not is detected.
#include "plan/papers/paper.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *printed(const char *name, bool json, int *rc)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    *rc = paper_print(name, json, out);
    fclose(out);
    return text;
}

// Counts by verdict, and the sum of the computed values.
struct tally {
    int counts[PAPER_VERDICT_COUNT], count;
    double ours[64];
    int errata[64];
};

static int tally_cell(const struct paper_cell *cell, void *context)
{
    struct tally *tally = context;
    tally->counts[cell->verdict]++;
    if (tally->count < 64) {
        tally->ours[tally->count] = cell->ours;
        tally->errata[tally->count] = cell->erratum;
    }
    tally->count++;
    return ERR_NONE;
}

static struct tally tally_of(const char *text)
{
    struct tally tally = {0};
    int rc = paper_each_of("t.json", text, strlen(text), tally_cell, &tally);
    cr_assert_eq(rc, ERR_NONE, "%s", err_message());
    return tally;
}

static void refused(const char *text, const char *message)
{
    struct tally tally = {0};
    cr_assert_eq(paper_each_of("t.json", text, strlen(text), tally_cell, &tally), ERR_USAGE, "%s", text);
    cr_assert_str_eq(err_message(), message);
}

// A file of one table; COLUMNS and ROWS are the elements of their arrays.
#define TABLE(REST) "{\"paper\":\"p\",\"source\":\"s\",\"tables\":[{\"table\":\"t\",\"title\":\"a table\"," REST "}]}"

Test(paper, every_cell_of_every_paper_agrees_or_is_a_listed_erratum)
{
    struct tally tally = {0};
    cr_assert_eq(paper_each(NULL, tally_cell, &tally), ERR_NONE, "%s", err_message());
    cr_assert_eq(tally.counts[PAPER_DIFFERS], 0);
    cr_assert_geq(tally.counts[PAPER_AGREES], 270);
    cr_assert_eq(tally.counts[PAPER_ERRATUM], 21);
    cr_assert_eq(tally.counts[PAPER_MEASURED], 33);
}

Test(paper, zero_table_1_has_54_cells_and_all_agree)
{
    static const double first_block[] = {120, 120, 120};
    struct tally tally = {0};
    cr_assert_eq(paper_each("zero-table-1", tally_cell, &tally), ERR_NONE, "%s", err_message());
    cr_assert_eq(tally.count, 54);
    cr_assert_eq(tally.counts[PAPER_AGREES], 54);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(tally.ours[i], first_block[i]);
    // 64 ranks, 7.5B: 4 Psi + 12 Psi/64, 2 Psi + 14 Psi/64, 16 Psi/64.
    cr_assert_float_eq(tally.ours[27], 31.40625, 1e-6);
    cr_assert_float_eq(tally.ours[28], 16.640625, 1e-6);
    cr_assert_float_eq(tally.ours[29], 1.875, 1e-6);
}

Test(paper, the_last_cell_of_offload_table_1_is_a_misprint)
{
    struct tally tally = {0};
    cr_assert_eq(paper_each("offload-table-1", tally_cell, &tally), ERR_NONE, "%s", err_message());
    cr_assert_eq(tally.count, 8);
    cr_assert_eq(tally.counts[PAPER_ERRATUM], 1);
    cr_assert_eq(tally.ours[6], 2);
    cr_assert_eq(tally.errata[6], 1);
}

Test(paper, rules_round_as_the_paper_did)
{
    static const struct {
        const char *rule, *printed, *ours;
        bool agrees;
    } cases[] = {
        {"nearest", "41.3", "41.25", true},    {"nearest", "41.2", "41.25", true},
        {"nearest", "41.3", "41.24", false},   {"nearest", "41.3", "41.36", false},
        {"truncated", "513", "513.99", true},  {"truncated", "513", "514", false},
        {"truncated", "513", "512.99", false}, {"at_least", ">50", "50.6", true},
        {"at_least", ">50", "49.9", false},    {"at_most", "<1", "0.9", true},
        {"at_most", "<1", "1.1", false},       {"nearest", "7.6B", "7.64e9", true},
        {"nearest", "7.6B", "7.66e9", false},  {"nearest", "0.5T", "512e9", true},
        {"nearest", "4K", "4096", true},       {"nearest", "13M", "13.6e6", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 TABLE("\"columns\":[{\"column\":\"c\"}],\"query\":\"%s\",\"rule\":\"%s\","
                       "\"rows\":[{\"row\":\"r\",\"printed\":[\"%s\"]}]"),
                 cases[i].ours, cases[i].rule, cases[i].printed);
        struct tally tally = tally_of(text);
        cr_assert_eq(tally.counts[cases[i].agrees ? PAPER_AGREES : PAPER_DIFFERS], 1, "%s", text);
    }
}

Test(paper, a_row_gives_before_a_column_and_a_column_before_the_table)
{
    struct tally tally =
        tally_of(TABLE("\"query\":\"a * b\",\"given\":{\"a\":2,\"b\":3},"
                       "\"columns\":[{\"column\":\"c\"},{\"column\":\"d\",\"given\":{\"b\":5},\"scale\":2},"
                       "{\"column\":\"e\",\"query\":null}],"
                       "\"rows\":[{\"row\":\"r\",\"printed\":[\"6\",\"5\",\"9\"]},"
                       "{\"row\":\"s\",\"given\":{\"b\":7,\"a\":\"1 + d\",\"d\":10},"
                       "\"printed\":[\"77\",null,null]}]"));
    cr_assert_eq(tally.count, 4);
    cr_assert_eq(tally.counts[PAPER_AGREES], 3);
    cr_assert_eq(tally.counts[PAPER_MEASURED], 1);
    cr_assert_eq(tally.ours[0], 6);
    cr_assert_eq(tally.ours[1], 5);
    cr_assert(isnan(tally.ours[2]));
    cr_assert_eq(tally.ours[3], 77);
}

Test(paper, an_erratum_of_a_cell_that_agrees_is_a_difference)
{
    struct tally tally =
        tally_of(TABLE("\"query\":3,\"columns\":[{\"column\":\"c\"},{\"column\":\"d\"}],"
                       "\"rows\":[{\"row\":\"r\",\"printed\":[\"3\",\"4\"]}],"
                       "\"errata\":[{\"cells\":[[\"r\",\"x\"]],\"class\":\"paper\",\"text\":\"no cell of these\"},"
                       "{\"cells\":[[\"r\",\"c\"],[\"r\",\"d\"]],\"class\":\"rounding\",\"text\":\"both\"}]"));
    cr_assert_eq(tally.counts[PAPER_DIFFERS], 1);
    cr_assert_eq(tally.counts[PAPER_ERRATUM], 1);
    cr_assert_eq(tally.errata[1], 2);
}

Test(paper, a_formula_is_compared_with_its_value)
{
    static const char text[] = TABLE("\"rule\":\"equal\",\"query\":\"%s\","
                                     "\"columns\":[{\"column\":\"c\",\"theirs\":"
                                     "\"fsdp_full\"}],\"given\":{\"size\":1,\"world\":4},"
                                     "\"rows\":[{\"row\":\"r\",\"printed\":[\"3M(W-1)/W\"]}]");
    char filled[sizeof text + 16];
    snprintf(filled, sizeof filled, text, "2.25");
    cr_assert_eq(tally_of(filled).counts[PAPER_AGREES], 1);
    snprintf(filled, sizeof filled, text, "2.2501");
    cr_assert_eq(tally_of(filled).counts[PAPER_DIFFERS], 1);
}

Test(paper, errors_in_a_file_are_named_with_their_location)
{
    refused(TABLE("\"columns\":[{\"column\":\"c\"}],\"rows\":[{\"row\":\"r\",\"printed\":[]}]"),
            "t.json:1: tables.0.rows.0.printed: has 0 elements, expected an array of 1 to 1 elements");
    refused(TABLE("\"columns\":[{\"column\":\"c\"}],\"query\":\"1\","
                  "\"rows\":[{\"row\":\"r\",\"printed\":[\"many\"]}]"),
            "t.json:1: tables.0.rows.0.printed: has 'many', expected a number");
    refused(TABLE("\"columns\":[{\"column\":\"c\",\"rule\":\"up\"}],\"query\":\"1\","
                  "\"rows\":[{\"row\":\"r\",\"printed\":[\"1\"]}]"),
            "t.json:1: tables.0.columns.0.rule: is \"up\", expected one of \"nearest\", \"truncated\", \"at_least\", "
            "\"at_most\", \"equal\"");
    refused(TABLE("\"columns\":[{\"column\":\"c\"}],\"query\":\"gone\","
                  "\"rows\":[{\"row\":\"r\",\"printed\":[\"1\"]}]"),
            "t, r, c: t.json:1: tables.0.query: names gone, which is neither given nor an equation of a paper");
    refused(TABLE("\"columns\":[{\"column\":\"c\"}],"
                  "\"rows\":[{\"row\":\"r\",\"query\":\"a\",\"given\":{\"a\":\"a\"},\"printed\":[\"1\"]}]"),
            "t, r, c: t.json:1: tables.0.rows.0.given.a: needs too many terms, maybe because a name denotes itself, "
            "at \"a\"");
}

Test(paper, an_unknown_table_is_refused_with_a_list_of_the_known_ones)
{
    int rc;
    char *text = printed("zero-table-9", false, &rc);
    cr_assert_eq(rc, ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "there are fsdp-section-3, megatron-table-1"), "%s", err_message());
    free(text);
}

Test(paper, the_page_counts_each_verdict)
{
    int rc;
    char *text = printed("offload-table-4", false, &rc);
    cr_assert_eq(rc, ERR_NONE);
    static const char counts[] = "21 cells: 4 agree, 2 are listed errata, 15 are measurements, 0 differ";
    cr_assert_not_null(strstr(text, counts), "%s", text);
    cr_assert_not_null(strstr(text, "2 (rounding): 1.39 s / 0.22 s = 6.32x"));
    free(text);
    text = printed("zero-table-2", false, &rc);
    cr_assert_not_null(strstr(text, " 7.64179B       7.6B "), "%s", text);
    free(text);
}

Test(paper, a_line_of_json_is_a_cell)
{
    int rc, count = 0;
    char *text = printed("zero-table-2", true, &rc), *rest = text;
    cr_assert_eq(rc, ERR_NONE);
    for (char *line; (line = strsep(&rest, "\n")) && *line; count++) {
        json_t *cell = json_loads(line, 0, NULL);
        cr_assert_str_eq(json_string_value(json_object_get(cell, "table")), "zero-table-2", "%s", line);
        const char *verdict = json_string_value(json_object_get(cell, "verdict"));
        cr_assert_eq(strcmp(verdict, "erratum") == 0, json_is_string(json_object_get(cell, "erratum")), "%s", line);
        json_decref(cell);
    }
    cr_assert_eq(count, 30);
    free(text);
}
