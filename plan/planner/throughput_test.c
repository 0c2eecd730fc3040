// SPDX-License-Identifier: Apache-2.0
// Published runs: all that were done fit, and the half that fitted nothing is predicted well.
#include "plan/planner/throughput.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAX = 1024 };

struct runs {
    double errors[ROW_MAX];  // of the held-out half
    size_t count, held_out_count, beyond_count;
};

static int note(const struct throughput_row *row, void *context)
{
    struct runs *runs = context;
    runs->count++;
    runs->beyond_count += *row->beyond != 0;
    if (*row->beyond) {
        cr_expect_eq(row->predicted, 0, "%s", row->name);
        return ERR_NONE;
    }
    cr_expect(row->fits, "%s was done, but does not fit: %g GiB", row->name, (double)row->needed_bytes / (1 << 30));
    if (row->held_out)
        runs->errors[runs->held_out_count++] = fabs(row->predicted / row->published - 1);
    return ERR_NONE;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

Test(throughput, held_out_runs_have_a_median_error_of_at_most_a_tenth_and_nine_in_ten_are_within_a_quarter)
{
    static struct runs runs;
    cr_assert_eq(throughput_each(NULL, note, &runs), ERR_NONE, "%s", err_message());
    cr_expect_geq(runs.count, 250);
    cr_expect_geq(runs.beyond_count, 20);
    cr_assert_geq(runs.held_out_count, 100);
    qsort(runs.errors, runs.held_out_count, sizeof runs.errors[0], compare);
    cr_expect_leq(runs.errors[runs.held_out_count / 2], 0.1);
    cr_expect_leq(runs.errors[runs.held_out_count * 9 / 10], 0.25);
}

Test(throughput, an_unknown_file_is_refused)
{
    static struct runs runs;
    cr_expect_eq(throughput_each("nobody", note, &runs), ERR_USAGE);
    cr_expect(strstr(err_message(), "nobody"), "%s", err_message());
}
