// SPDX-License-Identifier: Apache-2.0
// The history of nodes: which fail for how often they failed, what is kept, and what a repair forgets.
#include "base/clock.h"
#include "base/command_test.h"
#include "base/err.h"
#include "base/folder_test.h"
#include "validate/health/preflight.h"

#include <criterion/criterion.h>
#include <string.h>

enum { NODE_MAX = 4, DAY_S = 24 * 60 * 60 };
static const int64_t begin_s = 1790000000;
static char folder[PATH_MAX], path[PATH_MAX + 16];

static void make_history(void)
{
    folder_make(folder);
    snprintf(path, sizeof path, "%s/history.jsonl", folder);
}

static void remove_history(void)
{
    folder_remove(folder);
}

TestSuite(preflight_history, .init = make_history, .fini = remove_history);

// Whose name a rank has, in place of a letter of its own.
static const char *hosts = "abcd";

static int64_t late_s;  // of the nodes' clocks, but not of the one that keeps the history

// A preflight on a day, of nodes a, b, ...: '.' is ok, 'F' fails. Returns, in the same places, 'h' for those that their
// history fails.
static const char *on_day(double day, const char *states, bool repaired)
{
    static char named[NODE_MAX + 1];
    struct preflight p = {
        .history = path, .after_repair = repaired ? path : NULL, .started_s = begin_s + (int64_t)(day * DAY_S)};
    json_t *nodes[NODE_MAX];
    int count = (int)strlen(states);
    char started[CLOCK_UTC_BYTES];
    clock_utc_text(p.started_s - late_s, started);
    for (int i = 0; i < count; i++) {
        nodes[i] = json_pack("{s:s#, s:s, s:s, s:[{s:s, s:s, s:s}]}", "host", &hosts[i], 1, "started", started,
                             "verdict", "ok", "checks", "check", "memory", "state", "ok", "text", "");
        if (states[i] == 'F')
            preflight_fail(nodes[i], "disk", "slow");
    }
    cr_assert_eq(preflight_history(&p, nodes, count), ERR_NONE, "%s", err_message());
    for (int i = 0; i < count; i++) {
        const json_t *checks = json_object_get(nodes[i], "checks");
        const json_t *last = json_array_get(checks, json_array_size(checks) - 1);
        named[i] = strcmp(json_string_value(json_object_get(last, "check")), "history") == 0 ? 'h' : '-';
        json_decref(nodes[i]);
    }
    named[count] = '\0';
    return named;
}

static size_t line_count(void)
{
    char text[1 << 14] = "", command[PATH_MAX + 32];
    snprintf(command, sizeof command, "grep -c '\"preflight-history\"' %s", path);
    cr_assert_eq(command_run(command, text, sizeof text), 0, "%s", text);
    return strtoul(text, NULL, 10);
}

Test(preflight_history, the_third_failure_within_thirty_days_is_a_reason_also_where_it_passes_now)
{
    cr_expect_str_eq(on_day(0, "F.F", false), "---");
    cr_expect_str_eq(on_day(10, "F..", false), "---");
    cr_expect_str_eq(on_day(29, "FF.", false), "h--");
    cr_expect_str_eq(on_day(29.5, "...", false), "h--");
    // The first is more than thirty days ago.
    cr_expect_str_eq(on_day(31, "...", false), "---");
    cr_expect_str_eq(on_day(31, "F.F", false), "h--");
}

Test(preflight_history, a_repair_begins_anew_with_its_own_result)
{
    for (int day = 0; day < 3; day++)
        (void)on_day(day, "FF", false);
    cr_expect_str_eq(on_day(3, ".F", true), "--");
    cr_expect_str_eq(on_day(4, "FF", false), "--");
    cr_expect_str_eq(on_day(5, "FF", false), "-h");
}

// Several ranks on a host are one failure a preflight, and one line.
Test(preflight_history, ranks_of_one_host_count_once)
{
    hosts = "aaab";
    cr_expect_str_eq(on_day(0, "FFFF", false), "----");
    cr_expect_eq(line_count(), 2);
    cr_expect_str_eq(on_day(1, "..F.", false), "----");
    cr_expect_str_eq(on_day(2, ".F..", false), "h---");
}

Test(preflight_history, nodes_whose_clocks_have_lost_the_year_keep_their_failures)
{
    late_s = begin_s;
    cr_expect_str_eq(on_day(0, "F.", false), "--");
    cr_expect_str_eq(on_day(1, "F.", false), "--");
    cr_expect_str_eq(on_day(2, "F.", false), "h-");
    cr_expect_eq(line_count(), 6);
}

// Of what count clocks say, the texts of those that are named.
static void expect_named(const int64_t clocks_s[], int count, const char *const expected[])
{
    for (int i = 0; i < count; i++) {
        char text[160];
        preflight_judge_clock(clocks_s, count, i, text);
        cr_expect_str_eq(text, expected[i], "clock %d of %d", i, count);
    }
}

Test(preflight_clock, a_clock_that_is_not_that_of_most_nodes_is_named)
{
    expect_named((const int64_t[]){begin_s, begin_s - 3600, begin_s + 60, begin_s + 30}, 4,
                 (const char *const[]){"", "this node's clock is 3600 s behind those of most nodes", "", ""});
    expect_named((const int64_t[]){begin_s + 61, begin_s, begin_s + 1, begin_s, begin_s - 90}, 5,
                 (const char *const[]){"this node's clock is 61 s ahead of those of most nodes", "", "", "",
                                       "this node's clock is 90 s behind those of most nodes"});
    expect_named((const int64_t[]){begin_s, begin_s + 3600}, 2,
                 (const char *const[]){"this node's clock is 3600 s behind the other node's",
                                       "this node's clock is 3600 s ahead of the other node's"});
}

Test(preflight_history, lines_of_more_than_ninety_days_go)
{
    (void)on_day(0, "F.", false);
    (void)on_day(60, "F.", false);
    cr_expect_eq(line_count(), 4);
    (void)on_day(91, "..", false);
    cr_expect_eq(line_count(), 4);
}

Test(preflight_history, another_file_is_refused_and_left_as_it_is)
{
    static const char *const others[] = {"{}", "text", "{\"record\": \"preflight-history\", \"host\": \"a\"}",
                                         "{\"record\": \"preflight-history\", \"started\": \"yesterday\"}"};
    struct preflight p = {.history = path, .started_s = begin_s};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[256] = "", command[PATH_MAX + 32];
        FILE *file = fopen(path, "w");
        cr_assert(file && fputs(others[i], file) >= 0 && fclose(file) == 0);
        cr_expect_eq(preflight_history(&p, NULL, 0), ERR_USAGE, "%s", others[i]);
        cr_expect(strstr(err_message(), "history.jsonl: line 1 is none of a preflight"), "%s", err_message());
        snprintf(command, sizeof command, "cat %s", path);
        cr_assert_eq(command_run(command, text, sizeof text), 0);
        cr_expect_str_eq(text, others[i]);
    }
}
