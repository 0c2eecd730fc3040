// SPDX-License-Identifier: Apache-2.0
// Claims as a page, or as JSON lines.
#include "plan/claims/claim.h"

#include "base/err.h"
#include "base/size.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct printing {
    FILE *out;
    bool json;
    char source[CLAIM_TEXT_BYTES];  // the last one
    size_t counts[CLAIM_VERDICT_COUNT], count, broken;
};

static void print_value(struct printing *p, const struct claim *claim)
{
    char text[SIZE_TEXT_BYTES];
    if (claim->value >= 1e4 && claim->value < 1e18)
        size_text((uint64_t)claim->value, text);
    else
        snprintf(text, sizeof text, "%.4g", claim->value);
    fprintf(p->out, "    value: %s%s%s\n", text, *claim->unit ? " " : "", claim->unit);
}

static void print_text(struct printing *p, const struct claim *claim)
{
    if (strcmp(p->source, claim->source) != 0)
        fprintf(p->out, "%s%s\n\n", p->count > 1 ? "\n" : "", *claim->source ? claim->source : "without a source");
    memcpy(p->source, claim->source, sizeof p->source);
    fprintf(p->out, "  %s%s%s%s\n    \"%s\"\n", claim_verdict_name(claim->verdict), *claim->name ? "  " : "",
            claim->name, claim->follows ? "" : "  DOES NOT FOLLOW", claim->statement);
    if (!isnan(claim->value))
        print_value(p, claim);
    if (claim->verdict == CLAIM_TRUE_UNDER)
        fprintf(p->out, "    condition: %s\n", claim->condition);
    if (*claim->reason)
        fprintf(p->out, "    %s\n", claim->reason);
    if (!claim->follows && claim->stored != claim->verdict && claim->stored != CLAIM_NONE)
        fprintf(p->out, "    written down is the verdict %s\n", claim_verdict_name(claim->stored));
    else if (!claim->follows)
        fprintf(p->out, "    written down is the value %.6g\n", claim->stored_value);
}

static json_t *number_or_null(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static int print_json(struct printing *p, const struct claim *claim)
{
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:b}", "record", "claim", "claim",
                             claim->name, "statement", claim->statement, "source", claim->source, "verdict",
                             claim_verdict_name(claim->verdict), "condition", claim->condition, "reason", claim->reason,
                             "value", number_or_null(claim->value), "unit", claim->unit, "follows", claim->follows);
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a claim");
    fprintf(p->out, "%s\n", text);
    free(text);
    return ERR_NONE;
}

static int print_one(const struct claim *claim, void *context)
{
    struct printing *p = context;
    p->counts[claim->verdict]++;
    p->count++;
    p->broken += !claim->follows;
    if (p->json)
        return print_json(p, claim);
    print_text(p, claim);
    return ERR_NONE;
}

int claim_print(const char *name, bool json, FILE *out)
{
    struct printing p = {.out = out, .json = json};
    TRY(claim_each(name, print_one, &p));
    if (!json)
        fprintf(out, "\n%zu claim%s: %zu true, %zu true under a condition, %zu false, %zu not decidable\n", p.count,
                p.count == 1 ? "" : "s", p.counts[CLAIM_TRUE], p.counts[CLAIM_TRUE_UNDER], p.counts[CLAIM_FALSE],
                p.counts[CLAIM_UNDECIDABLE]);
    return p.broken == 0
               ? ERR_NONE
               : err_set(ERR_CHECK, "%zu of %zu claims: what is written down does not follow", p.broken, p.count);
}
