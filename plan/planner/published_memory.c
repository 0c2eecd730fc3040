// SPDX-License-Identifier: Apache-2.0
// Memory of published runs: peaks, and verdicts about runs that fitted and runs that did not.
#include "plan/planner/published.h"

#include "base/err.h"
#include "plan/planner/plan_print.h"

#include <stdlib.h>

enum { VERDICT_COUNT = PLAN_DOES_NOT_FIT + 1 };

// Rows on one side: fitted to, or held out.
struct side {
    struct published_errors errors;
    size_t verdicts[2][VERDICT_COUNT];  // of runs that fitted, and of those that failed
};

struct printing {
    FILE *out;
    bool json;
    const char *source;  // printed last
    struct side sides[2];
    size_t row_count, beyond_count;
};

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

double published_predicted_gib(const struct published_row *row)
{
    const struct device_memory *device = &row->plan.device;
    if (device->line_count == 0)  // a machine without GPUs
        return gib(row->plan.needed_bytes[TIER_DEVICE]);
    switch (row->memory) {
    case MEMORY_ALLOCATED:
        return gib(device->tensor_bytes);
    case MEMORY_RESERVED:
        return gib(device->reserved_bytes);
    default:
        return gib(device->reserved_bytes + device->context_bytes);
    }
}

static void print_row(struct printing *p, const struct published_row *row)
{
    const struct plan *plan = &row->plan;
    if (p->source != row->source)
        fprintf(p->out, "%s%s\n  %-52s %-9s %9s %9s %8s  %s\n", p->source ? "\n" : "", row->source, "GiB of a device",
                "", "published", "predicted", "", "verdict");
    p->source = row->source;
    fprintf(p->out, "  %-52s %-9s ", row->name, published_memory_name(row->memory));
    if (*row->beyond) {
        fprintf(p->out, "not planned: %s\n", row->beyond);
        return;
    }
    if (row->peak_gib > 0)
        fprintf(p->out, "%9.2f %9.2f %+6.1f %%", row->peak_gib, published_predicted_gib(row),
                100 * (published_predicted_gib(row) / row->peak_gib - 1));
    else
        fprintf(p->out, "%9s %9.2f %8s", "-", published_predicted_gib(row), "");
    fprintf(p->out, "  %s: %.2f to %.2f of %.2f%s\n", plan_verdict_name(plan->verdict),
            gib(plan->needed_bytes[TIER_DEVICE]), gib(plan->at_most_bytes[TIER_DEVICE]),
            gib(plan->available_bytes[TIER_DEVICE]), row->held_out ? "; held out" : "");
}

static int print_one(const struct published_row *row, void *context)
{
    struct printing *p = context;
    struct side *side = &p->sides[row->held_out];
    p->row_count++;
    p->beyond_count += *row->beyond != 0;
    if (!*row->beyond) {
        side->verdicts[row->memory == MEMORY_FAILED][row->plan.verdict]++;
        if (row->peak_gib > 0)
            published_note(&side->errors, published_predicted_gib(row), row->peak_gib);
    }
    if (!p->json) {
        print_row(p, row);
        return ERR_NONE;
    }
    return plan_print_record(
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:b, s:s, s:I, s:I, s:I, s:s*}", "record", "memory", "file",
                  row->source, "row", row->name, "published_gib", row->peak_gib, "predicted_gib",
                  *row->beyond ? 0 : published_predicted_gib(row), "failed", row->memory == MEMORY_FAILED, "held_out",
                  row->held_out, "verdict", plan_verdict_name(row->plan.verdict), "needed_bytes",
                  (json_int_t)row->plan.needed_bytes[TIER_DEVICE], "at_most_bytes",
                  (json_int_t)row->plan.at_most_bytes[TIER_DEVICE], "available_bytes",
                  (json_int_t)row->plan.available_bytes[TIER_DEVICE], "beyond", *row->beyond ? row->beyond : NULL),
        p->out);
}

static void print_side(struct side *side, const char *name, FILE *out)
{
    static const char *const outcomes[] = {"fitted", "failed"};
    published_print_errors(&side->errors, name, out);
    for (int failed = 0; failed < 2; failed++) {
        const size_t *n = side->verdicts[failed];
        if (n[PLAN_FITS] + n[PLAN_TIGHT] + n[PLAN_DOES_NOT_FIT] > 0)
            fprintf(out, "%s: of %zu that %s, %zu are planned as \"fits\", %zu as \"tight\", %zu as \"does not fit\"\n",
                    name, n[PLAN_FITS] + n[PLAN_TIGHT] + n[PLAN_DOES_NOT_FIT], outcomes[failed], n[PLAN_FITS],
                    n[PLAN_TIGHT], n[PLAN_DOES_NOT_FIT]);
    }
}

int published_memory_print(const char *name, bool json, FILE *out)
{
    struct printing *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory for published runs");
    p->out = out;
    p->json = json;
    int rc = published_each(plan_memory_texts, name, print_one, p);
    if (rc == ERR_NONE && !json) {
        fputc('\n', out);
        print_side(&p->sides[0], published_is_own(name) ? "the file's rows" : "fitted", out);
        print_side(&p->sides[1], "held out", out);
        fprintf(out, "%zu published runs, of which %zu are beyond what can be planned\n", p->row_count,
                p->beyond_count);
    }
    free(p);
    return rc;
}
