// SPDX-License-Identifier: Apache-2.0
// Comparisons of two result files: better, worse, or within noise.
#include "results/page/history.h"

#include "results/page/rich_test.h"

TestSuite(compare, .init = sample_folder_make, .fini = sample_folder_remove);

static json_t *bench_of(size_t count, const double *values, bool lower)
{
    json_t *samples = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(samples, json_real(values[i]));
    return json_pack("{s:o, s:b}", "samples", samples, "lower_is_better", lower);
}

static void expect(size_t count, const double *a_values, const double *b_values, bool lower, enum comparison expected)
{
    double p;
    json_t *a = bench_of(count, a_values, lower), *b = bench_of(count, b_values, lower);
    cr_expect_eq(compare_bench(a, b, &p), expected, "%zu values, %s is better: p %g", count, lower ? "less" : "more",
                 p);
    json_decref(a);
    json_decref(b);
}

Test(compare, the_unit_decides_which_direction_is_better)
{
    const double slow[] = {5.1, 5.2, 5.3, 5.4, 5.5, 5.6}, fast[] = {4.1, 4.2, 4.3, 4.4, 4.5, 4.6};
    expect(6, slow, fast, true, COMPARISON_BETTER);
    expect(6, fast, slow, true, COMPARISON_WORSE);
    expect(6, slow, fast, false, COMPARISON_WORSE);
    expect(6, fast, slow, false, COMPARISON_BETTER);
    expect(6, fast, fast, true, COMPARISON_NOISE);
}

// Five samples of each can just reach the level; four cannot.
Test(compare, few_samples_decide_nothing)
{
    const double low[] = {1, 2, 3, 4, 5}, high[] = {101, 102, 103, 104, 105}, mixed[] = {1.5, 2.5, 3.5, 4.5, 6};
    expect(5, low, high, true, COMPARISON_WORSE);
    expect(4, low, high, true, COMPARISON_FEW);
    expect(1, low, high, true, COMPARISON_FEW);
    expect(5, low, mixed, true, COMPARISON_NOISE);
}

static char *comparison_of(const char *a_path, const char *b_path)
{
    struct result_file a, b;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(result_open(a_path, &a), ERR_NONE, "%s", err_message());
    cr_assert_eq(result_open(b_path, &b), ERR_NONE, "%s", err_message());
    cr_assert_eq(result_compare(&a, &b, out), ERR_NONE);
    result_close(&a);
    result_close(&b);
    fclose(out);
    return text;
}

Test(compare, a_case_is_matched_by_its_settings)
{
    char a_path[PATH_MAX];
    rich_write(strcpy(a_path, sample_path("a")), NULL, 1);
    rich_write(sample_path("b"), NULL, 1.5);
    char *text = comparison_of(a_path, sample_path("b"));
    cr_expect(strstr(text, "Of 23 common cases, 8 are better in B, 0 worse, 15 within noise, and 0 have too "
                           "few samples."),
              "%s", text);
    cr_expect(strstr(text, "Mann-Whitney U") && strstr(text, "level 0.01"));
    cr_expect(strstr(text, "| -33.3 % |"), "%s", text);
    cr_expect_null(strstr(text, "Only in"));
    free(text);
}

Test(compare, cases_of_only_one_file_are_listed)
{
    static const struct rich_texts others = {.setting = "another", .text = "adam"};
    char a_path[PATH_MAX];
    rich_write(strcpy(a_path, sample_path("a")), NULL, 1);
    rich_write(sample_path("b"), &others, 1);
    char *text = comparison_of(a_path, sample_path("b"));
    cr_expect(strstr(text, "Of 0 common cases"), "%s", text);
    cr_expect(strstr(text, "Only in A") && strstr(text, "Only in B"));
    cr_expect(strstr(text, "| latency | engine=another |"), "%s", text);
    free(text);
}
