// SPDX-License-Identifier: Apache-2.0
// Outliers among ranks, links and hosts, from given times and rates.
#include "results/limits/outlier.h"

#include "base/err.h"
#include "validate/validate_test.h"
#include "results/limits/bench_finding.h"

#include <criterion/criterion.h>
#include <math.h>

static size_t outliers_of(const double *times, size_t count, size_t *last)
{
    size_t found = 0;
    double centre;
    for (size_t i = 0; i < count; i++)
        if (outlier_is(times, count, i, &centre)) {
            found++;
            *last = i;
        }
    return found;
}

Test(outlier, the_slower_of_two_ranks_is_an_outlier_beyond_the_floor)
{
    size_t last = 99;
    cr_expect_eq(outliers_of((double[]){10, 13.4}, 2, &last), 0);
    cr_expect_eq(outliers_of((double[]){10, 13.6}, 2, &last), 1);
    cr_expect_eq(last, 1);
    cr_expect_eq(outliers_of((double[]){25, 10}, 2, &last), 1);
    cr_expect_eq(last, 0);
    cr_expect_eq(outliers_of((double[]){10, 10}, 2, &last), 0);
}

Test(outlier, one_of_many_is_found_despite_the_spread_of_the_others)
{
    size_t last = 99;
    cr_expect_eq(outliers_of((double[]){10, 10.1, 20, 9.9, 10}, 5, &last), 1);
    cr_expect_eq(last, 2);
    cr_expect_eq(outliers_of((double[]){10, 10, 10}, 3, &last), 0);
    cr_expect_eq(outliers_of((double[]){10, 10, 30}, 3, &last), 1);
    // The median is 11, the MAD 1: with a deviation of 1.4826, 16.19 is the limit.
    cr_expect_eq(outliers_of((double[]){8, 10, 11, 12, 16.1}, 5, &last), 0);
    cr_expect_eq(outliers_of((double[]){8, 10, 11, 12, 16.3}, 5, &last), 1);
    cr_expect_eq(last, 4);
    // With almost half of them slow the centre is still a fast rank's time.
    cr_expect_eq(outliers_of((double[]){10, 10, 10, 10, 40, 40, 40}, 7, &last), 3);
}

Test(outlier, a_fast_rank_is_no_outlier)
{
    size_t last;
    cr_expect_eq(outliers_of((double[]){10, 10, 1, 10, 10}, 5, &last), 0);
}

static struct result_line lines[16];
static size_t line_count;
static struct bench_findings found;

static void add(const char *lane, int rank, bool together, double median, double waited)
{
    char of_case[256];
    snprintf(of_case, sizeof of_case,
             "\"lane\":\"%s\",\"rank\":%d,\"world\":2,\"host\":\"here\",\"processor\":%d,\"together\":%s", lane, rank,
             rank + 4, together ? "true" : "false");
    lines[line_count] = (struct result_line){10 + line_count, trial_record("ranks", of_case, median)};
    json_object_set_new(lines[line_count].record, "detail", json_pack("{s:f}", "waited_share", waited));
    line_count++;
}

static void add_link(const char *lane, int rank, const char *host, double median)
{
    char of_case[256];
    snprintf(of_case, sizeof of_case, "\"lane\":\"%s\",\"rank\":%d,\"world\":3,\"host\":\"%s\",\"bytes\":8", lane, rank,
             host);
    lines[line_count] = (struct result_line){10 + line_count, trial_record("links", of_case, median)};
    line_count++;
}

static void find(void)
{
    cr_assert_eq(outliers_find(lines, line_count, &found), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < line_count; i++)
        json_decref(lines[i].record);
}

Test(outlier, equal_ranks_have_one_valid_finding_a_lane)
{
    add("memory", 0, false, 10, 0);
    add("compute", 0, false, 5, 0);
    add("memory", 1, false, 11, 0);
    add("compute", 1, false, 5, 0);
    find();
    cr_assert_eq(found.count, 2);
    cr_expect_str_eq(found.list[0].id, "ranks-memory-alone");
    cr_expect_eq(found.list[0].verdict, FINDING_VALID);
    cr_expect_float_eq(found.list[0].value, 1.1, 1e-6);
    cr_expect_eq(found.list[0].line, 10, "the line of the slowest");
    cr_expect_str_eq(found.list[1].id, "ranks-compute-alone");
    bench_findings_free(&found);
}

// Rates: the rank with fewer GB/s is the slow one.
Test(outlier, the_slow_rank_is_named_with_its_host_processor_lane_and_how_much)
{
    add("memory", 0, false, 10, 0);
    add("memory", 1, false, 4, 0.55);
    add("memory", 0, true, 10, 0);
    add("memory", 1, true, 2, 0.01);
    find();
    cr_assert_eq(found.count, 2);
    cr_expect_eq(found.list[0].verdict, FINDING_INVALID);
    cr_expect_eq(found.list[0].line, 11);
    cr_expect_float_eq(found.list[0].value, 2.5, 1e-6);
    cr_expect_str_eq(found.list[0].text,
                     "ranks-memory-alone: rank 1 (host here, processor 5) takes 2.50 times as long as the other rank "
                     "in the lane memory, each alone; for 55 % of the time its thread waited for the processor");
    cr_expect_eq(found.list[1].line, 13);
    cr_expect_str_eq(found.list[1].text,
                     "ranks-memory-together: rank 1 (host here, processor 5) takes 5.00 times as long as the other "
                     "rank in the lane memory, all together; it reaches 50 % of what it does alone");
    bench_findings_free(&found);
}

Test(outlier, one_rank_and_other_benchmarks_are_not_compared)
{
    add("memory", 0, false, 10, 0);
    lines[line_count] = (struct result_line){20, trial_record("nvme", "\"lane\":\"memory\",\"host\":\"here\"", 1)};
    line_count++;
    find();
    cr_expect_eq(found.count, 0);
}

// Rates of links, and ranks whose lane has the same name.
Test(outlier, the_slow_link_is_named_by_its_host)
{
    add_link("memory", 0, "one", 10);
    add("memory", 0, false, 10, 0);
    add_link("memory", 2, "two", 0.5);
    add("memory", 1, false, 10, 0);
    add_link("memory", 4, "three", 9);
    find();
    cr_assert_eq(found.count, 2);
    cr_expect_eq(found.list[0].verdict, FINDING_INVALID);
    cr_expect_str_eq(found.list[0].id, "links-memory");
    cr_expect_eq(found.list[0].line, 12);
    cr_expect_str_eq(found.list[0].text, "links-memory: the link of host two (rank 2) takes 18.00 times as long as the "
                                         "links' median in the lane memory");
    cr_expect_eq(found.list[1].verdict, FINDING_VALID);
    cr_expect_str_eq(found.list[1].id, "ranks-memory-alone");
    bench_findings_free(&found);
}

Test(outlier, the_two_ends_of_one_link_are_not_compared)
{
    add_link("memory", 0, "one", 10);
    add_link("memory", 1, "two", 1);
    find();
    cr_assert_eq(found.count, 1);
    cr_expect_eq(found.list[0].verdict, FINDING_VALID);
    bench_findings_free(&found);
}

static void add_host(const char *name, int rank, double median, const char *more)
{
    char of_case[256];
    snprintf(of_case, sizeof of_case, "\"block\":4096%s,\"rank\":%d,\"host\":\"node%d\"", more, rank, rank);
    lines[line_count] = (struct result_line){10 + line_count, trial_record(name, of_case, median)};
    line_count++;
}

// Each host has three samples: 0.9, 1.0 and 1.1 times the median.
Test(outlier, a_host_that_is_slow_in_a_common_case_is_named)
{
    add_host("nvme", 0, 3, "");
    add_host("nvme", 2, 3.1, "");
    add_host("nvme", 4, 1, "");
    add_host("nvme", 0, 3, ",\"depth\":2");
    add_host("nvme", 4, 2.9, ",\"depth\":2");
    add_host("swap", 4, 0.1, "");
    find();
    cr_assert_eq(found.count, 1);
    cr_expect_eq(found.list[0].verdict, FINDING_INVALID);
    cr_expect_eq(found.list[0].line, 12);
    cr_expect_float_eq(found.list[0].value, 3, 1e-6);
    cr_expect_str_eq(found.list[0].text,
                     "hosts-nvme: rank 4 (host node4) takes 3.00 times as long as the hosts' median in nvme "
                     "{\"block\":4096}");
    bench_findings_free(&found);
}

Test(outlier, a_host_whose_samples_overlap_with_the_others_is_no_outlier)
{
    add_host("nvme", 0, 3, "");
    add_host("nvme", 1, 2, "");
    json_object_set_new(lines[1].record, "p90", json_real(2.9));
    find();
    cr_expect_eq(found.count, 0, "its best tenth is as fast as the other's worst");
    line_count = 0;
    add_host("nvme", 0, 3, "");
    add_host("nvme", 1, 2, "");
    json_object_set_new(lines[1].record, "p90", json_real(2.7));
    find();
    cr_assert_eq(found.count, 1);
    cr_expect(strstr(found.list[0].text, "rank 1 (host node1) takes 1.50 times as long as the other host"), "%s",
              found.list[0].text);
    bench_findings_free(&found);
}

static struct bench_findings findings;

static void add_finding(enum finding_verdict verdict, const char *text)
{
    struct bench_finding finding = {.kind = "band", .verdict = verdict, .id = "x", .line = 7, .value = 0.5};
    snprintf(finding.text, sizeof finding.text, "%s", text);
    cr_assert_eq(bench_findings_add(&findings, &finding), ERR_NONE);
}

Test(finding, the_worst_decides_and_all_are_reported_in_order)
{
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_VALID, "no findings");
    add_finding(FINDING_VALID, "good");
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_VALID);
    add_finding(FINDING_INCOMPLETE, "unknown");
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_INCOMPLETE);
    add_finding(FINDING_INVALID, "slow");
    for (int i = 0; i < 200; i++)
        add_finding(FINDING_VALID, "good");
    add_finding(FINDING_INVALID, "slower");
    add_finding(FINDING_INCOMPLETE, "unknown, too");
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_INVALID);
    json_t *array = bench_findings_json(&findings);
    cr_assert_eq(json_array_size(array), 205);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(array, 2), "text")), "slow");
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(array, 203), "text")), "slower");
    json_decref(array);
    bench_findings_free(&findings);
}

Test(finding, a_record_without_line_or_value_has_null)
{
    struct bench_finding finding = {
        .kind = "part", .verdict = FINDING_INCOMPLETE, .id = "bench-adam", .value = NAN, .text = "t"};
    json_t *record = bench_finding_json(&finding);
    cr_assert_not_null(record);
    cr_expect(json_is_null(json_object_get(record, "line")));
    cr_expect(json_is_null(json_object_get(record, "value")));
    cr_expect_str_eq(json_string_value(json_object_get(record, "verdict")), "INCOMPLETE");
    json_decref(record);
    finding.line = 3;
    finding.value = 0.25;
    record = bench_finding_json(&finding);
    cr_expect_eq(json_integer_value(json_object_get(record, "line")), 3);
    cr_expect_eq(json_real_value(json_object_get(record, "value")), 0.25);
    json_decref(record);
}
