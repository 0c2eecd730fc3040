// SPDX-License-Identifier: Apache-2.0
// Whether a case is exact, found by trying: every rule that permits another order, division or scaling computes the
// same gradients. On a mesh, those of its micro-batches.
#include "conformance/hunt/hunt_case.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/unsharded/unsharded.h"

#include <math.h>
#include <stdlib.h>

struct gradients {
    float *canonical[CASE_PARAM_MAX], *other[CASE_PARAM_MAX];
    struct rule *rules;  // all of the case
    int rule_count;
};

static int open_gradients(const struct check_case *c, struct gradients *out)
{
    *out = (struct gradients){0};
    for (int i = 0; i < c->param_count; i++) {
        if (!case_is_trained(c, i))
            continue;
        out->canonical[i] = calloc(c->params[i].count + 1, sizeof(float));
        out->other[i] = calloc(c->params[i].count + 1, sizeof(float));
        if (!out->canonical[i] || !out->other[i])
            return err_set(ERR_MEMORY, "no memory for the gradients of case %s", c->name);
    }
    return rule_list(c, &out->rules, &out->rule_count);
}

static void close_gradients(struct gradients *gradients)
{
    for (int i = 0; i < CASE_PARAM_MAX; i++) {
        free(gradients->canonical[i]);
        free(gradients->other[i]);
    }
    free(gradients->rules);
}

static bool same(const struct check_case *c, const struct gradients *gradients)
{
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; gradients->other[i] && k < c->params[i].count; k++) {
            float a = gradients->canonical[i][k], b = gradients->other[i][k];
            if (a != b && !(isnan(a) && isnan(b)))
                return false;
        }
    return true;
}

// All rules and their choices in one step, but for the one that rounds in exact cases, too (rule.h).
static int try_step(const struct check_case *c, const struct case_values *values, int step, double scale,
                    struct gradients *gradients, bool *exact)
{
    struct rule first = rule_canonical(c);
    int each = rule_per_gradient(c);
    struct unsharded_choice choice = unsharded_choice_at(c, &first, 0);
    TRY(unsharded_gradient(c, values, &first, &choice, step, scale, gradients->canonical));
    for (int i = 0; i < gradients->rule_count && *exact; i += each) {
        struct rule rule = gradients->rules[i];
        for (int k = 0; rule.tokens != TOKENS_SHARE && k < unsharded_choice_count(c, &rule) && *exact; k++) {
            choice = unsharded_choice_at(c, &rule, k);
            TRY(unsharded_gradient(c, values, &rule, &choice, step, scale, gradients->other));
            *exact = same(c, gradients);
        }
    }
    return ERR_NONE;
}

static int find_exact(struct check_case *c, const struct case_values *values)
{
    struct unsharded_decision decisions[CASE_STEP_MAX];
    struct gradients gradients;
    bool exact = true;
    if (c->expects_refusal)
        return ERR_NONE;
    c->exact = false;  // an exact case has one rule for gradients alone
    TRY(unsharded_decide(c, values, SCALER_DEEPSPEED, decisions));
    int rc = open_gradients(c, &gradients);
    for (int step = case_first_step(c); rc == ERR_NONE && exact && step <= case_last_step(c); step++)
        if (!decisions[step - 1].skipped)
            rc = try_step(c, values, step, decisions[step - 1].scale, &gradients, &exact);
    close_gradients(&gradients);
    c->exact = rc == ERR_NONE && exact;
    return rc;
}

int hunt_case_find_exact(struct hunt_case *h)
{
    struct check_case *logical = malloc(sizeof *logical);
    int rc = logical ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a case");
    for (int i = 0; i < h->part_count && rc == ERR_NONE; i++) {
        case_logical(h->parts[i], logical);
        rc = find_exact(logical, h->values[i]);
        h->parts[i]->exact = logical->exact;
    }
    free(logical);
    return rc;
}
