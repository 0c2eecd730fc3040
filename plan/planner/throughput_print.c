// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/throughput.h"

#include "base/err.h"
#include "base/size.h"
#include "plan/planner/plan_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HALF_MAX = 2048 };

// The relative errors of a half of the rows.
struct half {
    double errors[HALF_MAX];
    size_t count;
};

struct printing {
    FILE *out;
    bool json;
    const char *file;       // printed last
    struct half halves[2];  // fitted, held out
    size_t row_count, beyond_count, too_large_count;
};

static void print_row(struct printing *p, const struct throughput_row *row)
{
    char text[SIZE_TEXT_BYTES];
    if (p->file != row->file)
        fprintf(p->out, "%s%s\n  %-60s %10s %10s %8s %10s\n", p->file ? "\n" : "", row->file, "tokens/s of a device",
                "published", "predicted", "", "device");
    p->file = row->file;
    if (*row->beyond)
        fprintf(p->out, "  %-60s %10.1f %10s  not planned: %s\n", row->name, row->published, "-", row->beyond);
    else
        fprintf(p->out, "  %-60s %10.1f %10.1f %+6.1f %% %10s%s%s\n", row->name, row->published, row->predicted,
                100 * (row->predicted / row->published - 1), size_short_text(row->needed_bytes, text),
                row->fits ? "" : "  does not fit", row->held_out ? "  held out" : "");
}

static int print_one(const struct throughput_row *row, void *context)
{
    struct printing *p = context;
    struct half *half = &p->halves[row->held_out];
    p->row_count++;
    p->beyond_count += *row->beyond != 0;
    p->too_large_count += !*row->beyond && !row->fits;
    if (!*row->beyond && half->count < HALF_MAX)
        half->errors[half->count++] = fabs(row->predicted / row->published - 1);
    if (!p->json) {
        print_row(p, row);
        return ERR_NONE;
    }
    return plan_print_record(json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:b, s:I, s:s*}", "record", "throughput", "file",
                                       row->file, "row", row->name, "published", row->published, "predicted",
                                       row->predicted, "held_out", row->held_out, "fits", row->fits, "device_bytes",
                                       (json_int_t)row->needed_bytes, "beyond", *row->beyond ? row->beyond : NULL),
                             p->out);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_half(struct half *half, const char *name, FILE *out)
{
    size_t within = 0;
    if (half->count == 0)
        return;
    qsort(half->errors, half->count, sizeof half->errors[0], compare);
    while (within < half->count && half->errors[within] <= 0.25)
        within++;
    fprintf(out, "%s: %zu runs, median error %.1f %%, %.1f %% within 25 %%, largest %.1f %%\n", name, half->count,
            100 * half->errors[half->count / 2], 100 * (double)within / (double)half->count,
            100 * half->errors[half->count - 1]);
}

int throughput_print(const char *name, bool json, FILE *out)
{
    struct printing *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory for published runs");
    p->out = out;
    p->json = json;
    int rc = throughput_each(name, print_one, p);
    if (rc == ERR_NONE && !json) {
        fputc('\n', out);
        print_half(&p->halves[0], "fitted", out);
        print_half(&p->halves[1], "held out", out);
        fprintf(out, "%zu published runs: %zu planned, of which %zu do not fit; %zu are beyond what can be planned\n",
                p->row_count, p->row_count - p->beyond_count, p->too_large_count, p->beyond_count);
    }
    free(p);
    return rc;
}
