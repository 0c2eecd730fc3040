// SPDX-License-Identifier: Apache-2.0
#include "results/page/history.h"

#include "base/gpu.h"
#include "base/page.h"
#include "base/statistics.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdlib.h>

static size_t samples_of(const json_t *record, double values[STATISTICS_COUNT_MAX])
{
    const json_t *samples = json_object_get(record, "samples");
    for (size_t i = 0; i < json_array_size(samples); i++)
        values[i] = json_number_value(json_array_get(samples, i));
    return json_array_size(samples);
}

// The smallest possible p: of all ways to divide the samples into sets of these sizes, two keep the sets apart.
static double least_p(size_t a_count, size_t b_count)
{
    double n = (double)(a_count + b_count), k = (double)a_count;
    return 2 * exp(lgamma(k + 1) + lgamma(n - k + 1) - lgamma(n + 1));
}

enum comparison compare_bench(const json_t *a, const json_t *b, double *p)
{
    double a_values[STATISTICS_COUNT_MAX], b_values[STATISTICS_COUNT_MAX];
    size_t a_count = samples_of(a, a_values), b_count = samples_of(b, b_values);
    double a_median = statistics_median(a_values, a_count), b_median = statistics_median(b_values, b_count);
    *p = statistics_rank_test(a_values, a_count, b_values, b_count);
    if (least_p(a_count, b_count) >= COMPARE_LEVEL)
        return COMPARISON_FEW;
    if (*p >= COMPARE_LEVEL || a_median == b_median)
        return COMPARISON_NOISE;
    bool lower = json_is_true(json_object_get(b, "lower_is_better"));
    return (b_median < a_median) == lower ? COMPARISON_BETTER : COMPARISON_WORSE;
}

// The cases of a file by their keys; of equal ones the first.
static json_t *cases_of(struct page *page, const struct result_file *file)
{
    json_t *cases = json_object();
    for (size_t i = 0; i < file->line_count; i++) {
        if (!view_is(file->lines[i], "bench"))
            continue;
        char *key = case_key(file->lines[i]);
        if (!json_object_get(cases, key))
            page_set(page, cases, key, json_incref(file->lines[i]));
        free(key);
    }
    page->failed |= !cases;
    return cases;
}

static json_t *row_of(struct page *page, const json_t *a, const json_t *b, size_t counts[4])
{
    static const char *const words[] = {"within noise", "better", "worse", "too few samples"};
    char from[NUMBER_TEXT_BYTES], to[NUMBER_TEXT_BYTES];
    double p, a_median = view_number(a, "median"), b_median = view_number(b, "median");
    enum comparison comparison = compare_bench(a, b, &p);
    json_t *row = case_row(b);
    counts[comparison]++;
    page_add(page, row, json_string(number_text(a_median, from)));
    page_add(page, row, json_string(number_text(b_median, to)));
    page_add(page, row, json_string(view_text(b, "unit")));
    page_add(page, row, page_text("%+.1f %%", 100 * (b_median / a_median - 1)));
    page_add(page, row, page_text("%.2g", p));
    page_add(page, row, json_string(words[comparison]));
    return row;
}

// Compares the cases that both files have, in the order of b, and takes them from both.
static void add_common(struct page *page, json_t *a, json_t *b)
{
    size_t counts[4] = {0};
    const char *key;
    json_t *list = json_array(), *record;
    void *next;
    json_object_foreach_safe(b, next, key, record)
    {
        if (!json_object_get(a, key))
            continue;
        page_add(page, list, row_of(page, json_object_get(a, key), record, counts));
        json_object_del(a, key);
        json_object_del(b, key);
    }
    page_set(page, page->data, "meaning",
             page_text("Of %zu common cases, %zu are better in B, %zu worse, %zu within noise, and %zu have too few "
                       "samples.",
                       json_array_size(list), counts[COMPARISON_BETTER], counts[COMPARISON_WORSE],
                       counts[COMPARISON_NOISE], counts[COMPARISON_FEW]));
    page_table(page, "Common cases", "benchmark|case|A|B|unit|change|p|B is", list);
}

static void add_alone(struct page *page, const char *title, json_t *cases)
{
    const char *key;
    json_t *list = json_array(), *record;
    json_object_foreach (cases, key, record)
        page_add(page, list, case_row(record));
    page_table(page, title, "benchmark|case", list);
    json_decref(cases);
}

static void add_file(struct page *page, const char *letter, const struct result_file *file)
{
    page_fact(page, letter,
              page_text("%s, %s, %s", file->path, view_text(json_object_get(file->run, "machine"), "processor"),
                        view_text(file->run, "started")));
}

static const json_t *gpus_of(const struct result_file *file)
{
    return json_object_get(json_object_get(file->run, "machine"), "gpus");
}

// How GPUs are set decides their figures, and heat: what both files say of one, and not alike.
static void add_gpus(struct page *page, const struct result_file *a, const struct result_file *b)
{
    static const char *const settings[] = {"model",     "driver",        "vbios",          "ecc",
                                           "mig",       "power_limit_w", "clock_most_mhz", "memory_clock_most_mhz",
                                           "pcie_lanes"};
    for (size_t i = 0; i < json_array_size(gpus_of(a)) && i < json_array_size(gpus_of(b)); i++) {
        struct gpu in_a, in_b;
        gpu_from_json(json_array_get(gpus_of(a), i), &in_a);
        gpu_from_json(json_array_get(gpus_of(b), i), &in_b);
        if (in_a.values[GPU_SLOWED] + in_b.values[GPU_SLOWED] == 1)
            page_fact(page, "Not comparable where a GPU decides",
                      page_text("GPU %zu was slowed by heat or its power supply in %s alone", i,
                                in_a.values[GPU_SLOWED] > 0 ? "A" : "B"));
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
            json_t *of_a = json_object_get(json_array_get(gpus_of(a), i), settings[k]);
            json_t *of_b = json_object_get(json_array_get(gpus_of(b), i), settings[k]);
            if (!of_a || !of_b || json_equal(of_a, of_b))
                continue;
            char *text_a = json_dumps(of_a, JSON_ENCODE_ANY), *text_b = json_dumps(of_b, JSON_ENCODE_ANY);
            page_fact(page, "Not comparable where a GPU decides",
                      page_text("GPU %zu's %s is %s in A and %s in B", i, settings[k], text_a, text_b));
            free(text_a);
            free(text_b);
        }
    }
}

int result_compare(const struct result_file *a, const struct result_file *b, FILE *out)
{
    struct page page = page_open(json_pack("{s:s}", "verdict", "B against A"));
    json_t *of_a = cases_of(&page, a), *of_b = cases_of(&page, b);
    add_file(&page, "A", a);
    add_file(&page, "B", b);
    add_gpus(&page, a, b);
    page_fact(&page, "Test",
              page_text("Mann-Whitney U of the samples, two-sided, level %g for each case: of 100 cases without a "
                        "difference, about %g appear to have one by chance. It covers the noise within a run, not "
                        "between runs.",
                        COMPARE_LEVEL, 100 * COMPARE_LEVEL));
    add_common(&page, of_a, of_b);
    add_alone(&page, "Only in A", of_a);
    add_alone(&page, "Only in B", of_b);
    return page_markdown(&page, out);
}
