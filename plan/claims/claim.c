// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/claim.h"

#include "base/err.h"
#include "plan/planner/plan_texts.h"
#include "plan/claims/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLAIM_MAX = 1024 };

static const char *const VERDICTS[] = {"true", "true-under", "false", "undecidable", NULL};
static const char *const CLAIM_KEYS[] = {"statement", "?claim",   "?source", "?query", "?condition", "?under",
                                         "?verdict",  "?measure", "?value",  "?unit",  "?reason",    NULL};
static const char *const FILE_KEYS[] = {"source", "claims", NULL};

const char *claim_verdict_name(enum claim_verdict verdict)
{
    return verdict == CLAIM_NONE ? "none" : VERDICTS[verdict];
}

static int read_text(const struct strict_object *o, const char *key, char *out, size_t room)
{
    out[0] = '\0';
    return json_object_get(o->value, key) ? strict_string(o, key, out, room) : ERR_NONE;
}

static bool has(const struct strict_object *o, const char *key)
{
    return json_object_get(o->value, key) != NULL;
}

static int read_claim(const struct strict_object *o, struct claim *claim)
{
    int stored = CLAIM_NONE;
    TRY(strict_keys(o, CLAIM_KEYS));
    TRY(strict_string(o, "statement", claim->statement, sizeof claim->statement));
    TRY(read_text(o, "claim", claim->name, sizeof claim->name));
    if (has(o, "source"))
        TRY(read_text(o, "source", claim->source, sizeof claim->source));
    TRY(read_text(o, "condition", claim->condition, sizeof claim->condition));
    TRY(read_text(o, "reason", claim->reason, sizeof claim->reason));
    TRY(read_text(o, "unit", claim->unit, sizeof claim->unit));
    if (has(o, "verdict"))
        TRY(strict_word(o, "verdict", VERDICTS, &stored));
    claim->stored = (enum claim_verdict)stored;
    claim->stored_value = NAN;
    if (has(o, "value"))
        TRY(strict_real(o, "value", &claim->stored_value));
    return ERR_NONE;
}

// What must be there, and what must not, for the verdict to mean something.
static int check_parts(const struct strict_object *o, const struct claim *claim)
{
    bool undecidable = claim->stored == CLAIM_UNDECIDABLE;
    if (undecidable && has(o, "query"))
        return strict_fail(o, "query", "decides the claim, whose verdict is undecidable");
    if (!undecidable && !has(o, "query"))
        return strict_fail(o, "query", "missing: what decides the claim");
    if (undecidable && !*claim->reason)
        return strict_fail(o, "reason", "missing: why nothing decides the claim");
    if (has(o, "under") != (*claim->condition != '\0'))
        return strict_fail(o, has(o, "under") ? "condition" : "under",
                           "missing: a condition has words (condition) and a query (under)");
    if (claim->stored == CLAIM_TRUE_UNDER && !has(o, "under"))
        return strict_fail(o, "under", "missing: the query under the condition");
    return ERR_NONE;
}

// To the three digits with which it is worth writing down.
static bool is_value(double stored, double value)
{
    return isnan(stored) || (!isnan(value) && fabs(stored - value) <= 0.005 * fabs(value));
}

static int evaluate(const struct strict_object *o, struct claim *claim)
{
    bool holds = false, holds_under = false;
    double measured_under;
    claim->value = NAN;
    TRY(read_claim(o, claim));
    TRY(check_parts(o, claim));
    if (has(o, "query"))
        TRY(query_holds(o, "query", &holds, &claim->value));
    if (has(o, "under"))
        TRY(query_holds(o, "under", &holds_under, &measured_under));
    if (has(o, "measure"))
        TRY(query_number(o, "measure", &claim->value));
    claim->verdict = !has(o, "query") ? CLAIM_UNDECIDABLE
                     : holds          ? CLAIM_TRUE
                     : holds_under    ? CLAIM_TRUE_UNDER
                                      : CLAIM_FALSE;
    claim->follows =
        (claim->stored == CLAIM_NONE || claim->stored == claim->verdict) && is_value(claim->stored_value, claim->value);
    return ERR_NONE;
}

typedef int claim_visit(const struct claim *claim, void *context);

// Claims whose name begins with `prefix`; null: all.
struct selection {
    const char *prefix;
    char source[CLAIM_TEXT_BYTES];  // of those that name none
    claim_visit *visit;
    void *context;
    size_t count;
};

static int visit_one(const struct strict_object *o, struct selection *selection)
{
    const char *name = json_string_value(json_object_get(o->value, "claim"));
    struct claim claim;
    if (selection->prefix && (!name || strncmp(name, selection->prefix, strlen(selection->prefix)) != 0))
        return ERR_NONE;
    selection->count++;
    memcpy(claim.source, selection->source, sizeof claim.source);
    TRY(evaluate(o, &claim));
    return selection->visit(&claim, selection->context);
}

static int visit_all(const struct strict_object *root, struct selection *selection)
{
    const json_t *claims;
    size_t count;
    selection->source[0] = '\0';
    if (!has(root, "claims"))
        return visit_one(root, selection);
    TRY(strict_keys(root, FILE_KEYS));
    TRY(strict_string(root, "source", selection->source, sizeof selection->source));
    TRY(strict_array(root, "claims", 1, CLAIM_MAX, &claims, &count));
    for (size_t i = 0; i < count; i++) {
        struct strict_object o;
        TRY(strict_element(root, "claims", claims, i, &o));
        TRY(visit_one(&o, selection));
    }
    return ERR_NONE;
}

static int visit_text(const char *file, const char *text, size_t bytes, struct selection *selection)
{
    struct json_text parsed;
    TRY(json_text_parse(file, text, bytes, &parsed));
    const struct strict_object root = strict_root(file, &parsed);
    int rc = visit_all(&root, selection);
    json_text_close(&parsed);
    return rc;
}

int claim_each_of(const char *file, const char *text, size_t bytes, claim_visit *visit, void *context)
{
    struct selection selection = {.visit = visit, .context = context};
    return visit_text(file, text, bytes, &selection);
}

static int visit_file(const char *path, struct selection *selection)
{
    char *text;
    size_t bytes;
    TRY(json_read(path, &text, &bytes));
    int rc = visit_text(path, text, bytes, selection);
    free(text);
    return rc;
}

int claim_each(const char *name, claim_visit *visit, void *context)
{
    struct selection selection = {.visit = visit, .context = context};
    if (name && (strchr(name, '/') || access(name, F_OK) == 0))
        return visit_file(name, &selection);
    for (const struct plan_text *file = plan_claim_texts; file->name; file++) {
        selection.prefix = name && strcmp(name, file->name) != 0 ? name : NULL;
        TRY(visit_text(file->name, file->text, file->bytes, &selection));
    }
    return selection.count > 0 ? ERR_NONE
                               : err_set(ERR_USAGE,
                                         "'%.64s' is neither a claim, nor the beginning of one's name, nor a file; "
                                         "`zerogauge plan --claims` lists all",
                                         name);
}
