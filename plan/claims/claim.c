// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/claim.h"

#include "base/err.h"
#include "base/size.h"
#include "plan/planner/plan_print.h"
#include "plan/planner/plan_texts.h"
#include "plan/claims/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLAIM_MAX = 1024 };

static const char *const VERDICTS[] = {"true", "true-under", "false", "undecidable", NULL};

const char *claim_verdict_name(enum claim_verdict verdict)
{
    return verdict == CLAIM_NONE ? "none" : VERDICTS[verdict];
}

static int read_claim(const struct strict_object *o, struct claim *claim)
{
    static const char *const keys[] = {"statement", "?claim", "?source", "?query",  "?condition", "?under", "?verdict",
                                       "?measure",  "?value", "?unit",   "?reason", "?given",     NULL};
    const struct {
        const char *key;
        char *out;
        size_t bytes;
    } texts[] = {{"statement", claim->statement, sizeof claim->statement},
                 {"claim", claim->name, sizeof claim->name},
                 {"source", claim->source, sizeof claim->source},
                 {"condition", claim->condition, sizeof claim->condition},
                 {"reason", claim->reason, sizeof claim->reason},
                 {"unit", claim->unit, sizeof claim->unit}};
    int stored = CLAIM_NONE;
    TRY(strict_keys(o, keys));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (query_has(o, texts[i].key))
            TRY(strict_string(o, texts[i].key, texts[i].out, texts[i].bytes));
    if (query_has(o, "verdict"))
        TRY(strict_word(o, "verdict", VERDICTS, &stored));
    claim->stored = (enum claim_verdict)stored;
    claim->stored_value = NAN;
    return query_has(o, "value") ? strict_real(o, "value", &claim->stored_value) : ERR_NONE;
}

// Checks that the claim has the keys that its verdict needs, and no others.
static int check_parts(const struct strict_object *o, const struct claim *claim)
{
    bool undecidable = claim->stored == CLAIM_UNDECIDABLE;
    if (undecidable && query_has(o, "query"))
        return strict_fail(o, "query", "decides the claim, whose verdict is undecidable");
    if (!undecidable && !query_has(o, "query"))
        return strict_fail(o, "query", "missing: the query that decides the claim");
    if (undecidable && !*claim->reason)
        return strict_fail(o, "reason", "missing: the reason why no query decides the claim");
    if (query_has(o, "under") != (*claim->condition != '\0'))
        return strict_fail(o, query_has(o, "under") ? "condition" : "under",
                           "missing: a condition needs a text (condition) and a query (under)");
    if (claim->stored == CLAIM_TRUE_UNDER && !query_has(o, "under"))
        return strict_fail(o, "under", "missing: the query under the condition");
    return ERR_NONE;
}

static int evaluate(const struct strict_object *o, struct claim *claim)
{
    const struct query_scope scope = {o, NULL, NULL};
    bool holds = false, holds_under = false;
    double measured_under;
    claim->value = NAN;
    TRY(read_claim(o, claim));
    TRY(check_parts(o, claim));
    if (query_has(o, "query"))
        TRY(query_holds(&scope, o, "query", &holds, &claim->value));
    if (query_has(o, "under"))
        TRY(query_holds(&scope, o, "under", &holds_under, &measured_under));
    if (query_has(o, "measure"))
        TRY(query_number(&scope, o, "measure", &claim->value));
    claim->verdict = !query_has(o, "query") ? CLAIM_UNDECIDABLE
                     : holds                ? CLAIM_TRUE
                     : holds_under          ? CLAIM_TRUE_UNDER
                                            : CLAIM_FALSE;
    // Recorded values have three digits. A comparison with NAN, no value, is false.
    claim->follows =
        (claim->stored == CLAIM_NONE || claim->stored == claim->verdict) &&
        (isnan(claim->stored_value) || fabs(claim->stored_value - claim->value) <= 0.005 * fabs(claim->value));
    return ERR_NONE;
}

// Claims whose name begins with `prefix`; null: all.
struct selection {
    const char *prefix;
    claim_visit *visit;
    void *context;
    size_t count;
};

static int visit_one(const struct strict_object *o, const char *source, struct selection *selection)
{
    const char *name = json_string_value(json_object_get(o->value, "claim"));
    struct claim claim = {0};
    if (selection->prefix && (!name || strncmp(name, selection->prefix, strlen(selection->prefix)) != 0))
        return ERR_NONE;
    selection->count++;
    snprintf(claim.source, sizeof claim.source, "%s", source);
    int rc = evaluate(o, &claim);
    if (rc != ERR_NONE)
        return *claim.name ? err_prefix(rc, "claim %s", claim.name) : rc;
    return selection->visit(&claim, selection->context);
}

static int visit_root(const struct strict_object *root, void *selection)
{
    static const char *const keys[] = {"source", "claims", NULL};
    char source[CLAIM_TEXT_BYTES];
    const json_t *claims;
    size_t count;
    if (!query_has(root, "claims"))
        return visit_one(root, "", selection);
    TRY(strict_keys(root, keys));
    TRY(strict_string(root, "source", source, sizeof source));
    TRY(strict_array(root, "claims", 1, CLAIM_MAX, &claims, &count));
    for (size_t i = 0; i < count; i++) {
        struct strict_object o;
        TRY(strict_element(root, "claims", claims, i, &o));
        TRY(visit_one(&o, source, selection));
    }
    return ERR_NONE;
}

int claim_each_of(const char *file, const char *text, size_t bytes, claim_visit *visit, void *context)
{
    return query_text(file, text, bytes, visit_root, &(struct selection){.visit = visit, .context = context});
}

int claim_each(const char *name, claim_visit *visit, void *context)
{
    struct selection selection = {.visit = visit, .context = context};
    if (name && (strchr(name, '/') || access(name, F_OK) == 0)) {
        char *text;
        size_t bytes;
        TRY(json_read(name, &text, &bytes));
        int rc = query_text(name, text, bytes, visit_root, &selection);
        free(text);
        return rc;
    }
    for (const struct plan_text *file = plan_claim_texts; file->name; file++) {
        selection.prefix = name && strcmp(name, file->name) != 0 ? name : NULL;
        TRY(query_text(file->name, file->text, file->bytes, visit_root, &selection));
    }
    return selection.count > 0 ? ERR_NONE
                               : err_set(ERR_USAGE,
                                         "no claim's name starts with '%.64s', and there is no such file; `zerogauge "
                                         "plan --claims` lists all",
                                         name);
}

struct printing {
    FILE *out;
    bool json;
    char source[CLAIM_TEXT_BYTES];  // of the claim printed last
    size_t counts[CLAIM_VERDICT_COUNT], count, broken;
};

static void print_text(struct printing *p, const struct claim *claim)
{
    char value[SIZE_TEXT_BYTES];
    if (strcmp(p->source, claim->source) != 0)
        fprintf(p->out, "%s%s\n\n", p->count > 1 ? "\n" : "", *claim->source ? claim->source : "without a source");
    memcpy(p->source, claim->source, sizeof p->source);
    fprintf(p->out, "  %s%s%s%s\n    \"%s\"\n", claim_verdict_name(claim->verdict), *claim->name ? "  " : "",
            claim->name, claim->follows ? "" : "  DOES NOT FOLLOW", claim->statement);
    if (claim->value >= 1e4 && claim->value < 1e18)
        size_text((uint64_t)claim->value, value);
    else
        snprintf(value, sizeof value, "%.4g", claim->value);
    if (!isnan(claim->value))
        fprintf(p->out, "    value: %s%s%s\n", value, *claim->unit ? " " : "", claim->unit);
    if (claim->verdict == CLAIM_TRUE_UNDER)
        fprintf(p->out, "    condition: %s\n", claim->condition);
    if (*claim->reason)
        fprintf(p->out, "    %s\n", claim->reason);
    if (!claim->follows && claim->stored != claim->verdict && claim->stored != CLAIM_NONE)
        fprintf(p->out, "    recorded verdict: %s\n", claim_verdict_name(claim->stored));
    else if (!claim->follows)
        fprintf(p->out, "    recorded value: %.6g\n", claim->stored_value);
}

static int print_one(const struct claim *claim, void *context)
{
    struct printing *p = context;
    p->counts[claim->verdict]++;
    p->count++;
    p->broken += !claim->follows;
    if (!p->json)
        print_text(p, claim);
    return !p->json ? ERR_NONE
                    : plan_print_record(
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:b}", "record", "claim", "claim",
                                    claim->name, "statement", claim->statement, "source", claim->source, "verdict",
                                    claim_verdict_name(claim->verdict), "condition", claim->condition, "reason",
                                    claim->reason, "value", isnan(claim->value) ? json_null() : json_real(claim->value),
                                    "unit", claim->unit, "follows", claim->follows),
                          p->out);
}

int claim_print(const char *name, bool json, FILE *out)
{
    struct printing p = {.out = out, .json = json};
    TRY(claim_each(name, print_one, &p));
    if (!json)
        fprintf(out, "\n%zu claim%s: %zu true, %zu true under a condition, %zu false, %zu not decidable\n", p.count,
                p.count == 1 ? "" : "s", p.counts[CLAIM_TRUE], p.counts[CLAIM_TRUE_UNDER], p.counts[CLAIM_FALSE],
                p.counts[CLAIM_UNDECIDABLE]);
    return p.broken == 0 ? ERR_NONE
                         : err_set(ERR_CHECK, "%zu of %zu claims: the recorded verdict or value does not follow",
                                   p.broken, p.count);
}
