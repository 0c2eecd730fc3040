// SPDX-License-Identifier: Apache-2.0
#include "results/page/compare.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/result_report.h"
#include "results/page/result_text.h"
#include "base/statistics.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

// One case of a file; cases with equal keys are the same.
struct row {
    char *key;
    const json_t *record;
    bool matched;
};

struct rows {
    struct row *list;
    size_t count;
};

static int compare_rows(const void *left, const void *right)
{
    return strcmp(((const struct row *)left)->key, ((const struct row *)right)->key);
}

static void rows_close(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free(rows->list[i].key);
    free(rows->list);
}

// Name, unit and settings, independent of their order in the file.
static char *key_of(const json_t *record)
{
    json_t *key = json_pack("[O, O, O]", json_object_get(record, "name"), json_object_get(record, "unit"),
                            json_object_get(record, "case"));
    char *text = key ? json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    json_decref(key);
    return text;
}

static int rows_open(const struct result_file *file, struct rows *out)
{
    *out = (struct rows){.list = calloc(file->line_count, sizeof *out->list)};
    for (size_t i = 0; out->list && i < file->line_count; i++) {
        if (strcmp(view_text(file->lines[i], "record"), "bench") != 0)
            continue;
        struct row *row = &out->list[out->count];
        row->record = file->lines[i];
        if (!(row->key = key_of(row->record)))
            break;
        out->count++;
    }
    return out->list ? ERR_NONE : err_set(ERR_MEMORY, "no memory to compare %s", file->path);
}

static void put_case(const json_t *record, FILE *out)
{
    char *text = settings_text(json_object_get(record, "case"));
    text_markdown(out, view_text(record, "name"));
    fputs(" | ", out);
    text_markdown(out, text);
    free(text);
}

static void put_row(const json_t *a, const json_t *b, FILE *out, size_t counts[4])
{
    static const char *const words[] = {"within noise", "**better**", "**worse**", "too few samples"};
    char from[NUMBER_TEXT_BYTES], to[NUMBER_TEXT_BYTES];
    double p, a_median = view_number(a, "median"), b_median = view_number(b, "median");
    enum comparison comparison = compare_bench(a, b, &p);
    counts[comparison]++;
    fputs("| ", out);
    put_case(b, out);
    fprintf(out, " | %s | %s | ", number_text(a_median, from), number_text(b_median, to));
    text_markdown(out, view_text(b, "unit"));
    fprintf(out, " | %+.1f %% | %.2g | %s |\n", 100 * (b_median / a_median - 1), p, words[comparison]);
}

static void put_alone(const struct rows *rows, const char *whose, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->list[i].matched)
            continue;
        if (!any)
            fprintf(out, "\nOnly in %s:\n\n| benchmark | case |\n| --- | --- |\n", whose);
        any = true;
        fputs("| ", out);
        put_case(rows->list[i].record, out);
        fputs(" |\n", out);
    }
}

static void put_file(const char *letter, const struct result_file *file, FILE *out)
{
    const json_t *machine = json_object_get(file->run, "machine");
    fprintf(out, "- %s: ", letter);
    text_markdown(out, file->path);
    fputs(", ", out);
    text_markdown(out, view_text(machine, "processor"));
    fputs(", ", out);
    text_markdown(out, view_text(file->run, "started"));
    fputc('\n', out);
}

static void put_table(struct rows *a, struct rows *b, FILE *out)
{
    size_t counts[4] = {0}, total = 0;
    // Rows of a are sorted for the search; b keeps its order. A repeated case is compared once.
    qsort(a->list, a->count, sizeof *a->list, compare_rows);
    fputs("\n| benchmark | case | A | B | unit | change | p | B is |\n"
          "| --- | --- | ---: | ---: | --- | ---: | ---: | --- |\n",
          out);
    for (size_t i = 0; i < b->count; i++) {
        struct row *row = bsearch(&b->list[i], a->list, a->count, sizeof *a->list, compare_rows);
        if (!row || row->matched)
            continue;
        row->matched = b->list[i].matched = true;
        put_row(row->record, b->list[i].record, out, counts);
        total++;
    }
    fprintf(out,
            "\nOf %zu common cases, %zu are better in B, %zu worse, %zu within noise, and %zu have too few samples.\n"
            "Test: Mann-Whitney U of the samples, two-sided, level %g for each case: of 100 cases without a "
            "difference, about %g appear to have one by chance. The test covers the noise within a run, not between "
            "runs.\n",
            total, counts[COMPARISON_BETTER], counts[COMPARISON_WORSE], counts[COMPARISON_NOISE],
            counts[COMPARISON_FEW], COMPARE_LEVEL, 100 * COMPARE_LEVEL);
}

int result_compare(const struct result_file *a, const struct result_file *b, FILE *out)
{
    struct rows of_a, of_b;
    int rc = rows_open(a, &of_a), rc_b = rows_open(b, &of_b);
    if (rc == ERR_NONE && rc_b == ERR_NONE) {
        put_file("A", a, out);
        put_file("B", b, out);
        put_table(&of_a, &of_b, out);
        put_alone(&of_a, "A", out);
        put_alone(&of_b, "B", out);
        rc = file_flush(out, "the comparison");
    }
    rows_close(&of_a);
    rows_close(&of_b);
    return rc != ERR_NONE ? rc : rc_b;
}
