// SPDX-License-Identifier: Apache-2.0
// Tokens/s of published runs.
#include "plan/planner/published.h"

#include "base/err.h"
#include "base/size.h"
#include "plan/planner/plan_print.h"

#include <stdlib.h>

struct printing {
    FILE *out;
    bool json;
    const char *source;                 // printed last
    struct published_errors errors[2];  // fitted, or of a user's file; held out
    size_t row_count, beyond_count, too_large_count;
};

static double predicted_of(const struct published_row *row)
{
    return *row->beyond ? 0 : (double)row->plan.tokens / row->plan.step_s / row->world;
}

static void print_row(struct printing *p, const struct published_row *row)
{
    char text[SIZE_TEXT_BYTES];
    double predicted = predicted_of(row);
    if (p->source != row->source)
        fprintf(p->out, "%s%s\n  %-60s %10s %10s %8s %10s\n", p->source ? "\n" : "", row->source,
                "tokens/s of a device", "published", "predicted", "", "device");
    p->source = row->source;
    if (*row->beyond)
        fprintf(p->out, "  %-60s %10.1f %10s  not planned: %s\n", row->name, row->tokens_per_s, "-", row->beyond);
    else
        fprintf(p->out, "  %-60s %10.1f %10.1f %+6.1f %% %10s%s%s\n", row->name, row->tokens_per_s, predicted,
                100 * (predicted / row->tokens_per_s - 1), size_short_text(row->plan.needed_bytes[TIER_DEVICE], text),
                row->plan.verdict == PLAN_DOES_NOT_FIT ? "  does not fit" : "", row->held_out ? "  held out" : "");
}

static int print_one(const struct published_row *row, void *context)
{
    struct printing *p = context;
    p->row_count++;
    p->beyond_count += *row->beyond != 0;
    p->too_large_count += row->plan.verdict == PLAN_DOES_NOT_FIT;
    if (!*row->beyond)
        published_note(&p->errors[row->held_out], predicted_of(row), row->tokens_per_s);
    if (!p->json) {
        print_row(p, row);
        return ERR_NONE;
    }
    return plan_print_record(json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:b, s:s, s:I, s:s*}", "record", "throughput",
                                       "file", row->source, "row", row->name, "published", row->tokens_per_s,
                                       "predicted", predicted_of(row), "held_out", row->held_out, "fits",
                                       plan_fits(&row->plan), "verdict", plan_verdict_name(row->plan.verdict),
                                       "device_bytes", (json_int_t)row->plan.needed_bytes[TIER_DEVICE], "beyond",
                                       *row->beyond ? row->beyond : NULL),
                             p->out);
}

int published_speed_print(const char *name, bool json, FILE *out)
{
    struct printing *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory for published runs");
    p->out = out;
    p->json = json;
    int rc = published_each(plan_throughput_texts, name, print_one, p);
    if (rc == ERR_NONE && !json) {
        fputc('\n', out);
        published_print_errors(&p->errors[0], published_is_own(name) ? "the file's rows" : "fitted", out);
        published_print_errors(&p->errors[1], "held out", out);
        fprintf(out, "%zu published runs: %zu planned, of which %zu do not fit; %zu are beyond what can be planned\n",
                p->row_count, p->row_count - p->beyond_count, p->too_large_count, p->beyond_count);
    }
    free(p);
    return rc;
}
