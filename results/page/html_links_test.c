// SPDX-License-Identifier: Apache-2.0
// The map of links in a page, from pretended times.
#include "base/err.h"
#include "results/page/result_report.h"
#include "results/page/rich_test.h"
#include "results/record/record_verify.h"

#include <string.h>

TestSuite(html_links, .init = sample_folder_make, .fini = sample_folder_remove);

// A host's result: 10 us with every other one, but `slow_us` with or of host 1.
static json_t *host_record(int host, int count, double slow_us)
{
    char name[16], rank[16];
    json_t *with = json_object();
    for (int other = 0; other < count; other++) {
        snprintf(rank, sizeof rank, "%d", 4 * other);
        if (other != host)
            json_object_set_new(with, rank, json_real(host == 1 || other == 1 ? slow_us : 10));
    }
    snprintf(name, sizeof name, "node%d", host);
    json_t *record = rich_bench("links",
                                json_pack("{s:s, s:i, s:i, s:s, s:i, s:i}", "lane", "ping", "rank", 4 * host, "world",
                                          4 * count, "host", name, "hosts", count, "bytes", 8),
                                "ns", 1e4, 0, (uint64_t)host);
    json_object_set_new(record, "detail", json_pack("{s:o}", "us_with", with));
    return record;
}

// The page of a file with these hosts' results; the caller frees it. spoiled: null, or what replaces host 2's times,
// or, if it is a number, its rank.
static char *page_of(int count, double slow_us, json_t *spoiled)
{
    static const char *const argv[] = {"zerogauge", "bench", "links"}, *const folders[] = {"/", NULL};
    struct record_writer *writer;
    struct result_file file;
    struct result_view view;
    char *page;
    size_t bytes, refusal_count;
    const char *where = json_is_integer(spoiled) ? "case" : "detail",
               *key = json_is_integer(spoiled) ? "rank" : "us_with";
    cr_assert_eq(record_create(sample_path("a"), &writer), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_append(writer, record_run("bench", NULL, 3, argv, folders)), ERR_NONE);
    for (int host = 0; host < count; host++) {
        json_t *record = host_record(host, count, slow_us);
        if (spoiled && host == 2)
            json_object_set_new(json_object_get(record, where), key, spoiled);
        cr_assert_eq(record_append(writer, record), ERR_NONE, "%s", err_message());
    }
    json_t *none = json_array();
    cr_assert_eq(record_end(writer, conclusion_end(none, false, 1e6, 0.01)), ERR_NONE, "%s", err_message());
    json_decref(none);
    record_close(writer);
    FILE *out = open_memstream(&page, &bytes);
    cr_assert_eq(result_open(sample_path("a"), &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(&file, stderr, &refusal_count), ERR_NONE);
    cr_expect_eq(refusal_count, 0);
    cr_assert_eq(result_view_open(&file, &view), ERR_NONE);
    cr_assert_eq(result_html(&view, out), ERR_NONE);
    result_view_close(&view);
    result_close(&file);
    fclose(out);
    cr_assert_eq(unlink(sample_path("a")), 0);
    return page;
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

Test(html_links, every_pair_has_a_cell_and_the_slow_host_its_name)
{
    char *page = page_of(5, 80, NULL);
    cr_expect_eq(count_of(page, "<svg class=\"links\""), 1);
    cr_expect_eq(count_of(page, "</title></rect>"), 5 * 4);
    cr_expect_eq(count_of(page, "stroke=\"#1c1c1c\"><title>"), 2 * 4, "the slow host's row and column");
    cr_expect_eq(count_of(page, "fill=\"rgb(139,26,30)\""), 2 * 4, "eight times as long is the darkest");
    cr_expect_eq(count_of(page, ">node1 (rank 4) and node0 (rank 0): 80 us</title>"), 1);
    cr_expect_eq(count_of(page,
                          "<li>OUTLIER  the link of host node1 (rank 4) takes 8.00 times as long as the median in "
                          "the lane ping: 4 of its 4 links are slow</li>"),
                 1);
    free(page);
}

Test(html_links, equal_hosts_and_two_hosts_have_a_map_and_nobody_is_blamed)
{
    char *page = page_of(64, 10, NULL);
    cr_expect_eq(count_of(page, "</title></rect>"), 64 * 63);
    cr_expect_eq(count_of(page, "64 hosts, median 10 us; no link is slow"), 1);
    free(page);
    page = page_of(2, 1000, NULL);
    cr_expect_eq(count_of(page, "</title></rect>"), 2);
    cr_expect_eq(count_of(page, "OUTLIER"), 0);
    free(page);
}

Test(html_links, times_that_are_none_are_left_out)
{
    char *page = page_of(4, 10, json_pack("{s:s, s:f, s:i, s:b}", "0", "<b>", "4", -1.0, "99999999", 5, "-1", 1));
    // Host 2 has times from the other hosts alone.
    cr_expect_eq(count_of(page, "</title></rect>"), 4 * 3);
    free(page);
}

Test(html_links, a_result_of_no_rank_is_left_out)
{
    char *page = page_of(4, 10, json_integer((json_int_t)1 << 60));
    cr_expect_eq(count_of(page, "</title></rect>"), 3 * 2);
    free(page);
}

Test(html_links, a_result_of_other_benchmarks_has_no_map)
{
    rich_write(sample_path("b"), NULL, 1);
    struct result_file file;
    struct result_view view;
    char *page;
    size_t bytes;
    FILE *out = open_memstream(&page, &bytes);
    cr_assert_eq(result_open(sample_path("b"), &file), ERR_NONE);
    cr_assert_eq(result_view_open(&file, &view), ERR_NONE);
    cr_assert_eq(result_html(&view, out), ERR_NONE);
    fclose(out);
    cr_expect_eq(count_of(page, "Links between hosts"), 0);
    result_view_close(&view);
    result_close(&file);
    free(page);
}
