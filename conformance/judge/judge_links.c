// SPDX-License-Identifier: Apache-2.0
// Judges an answer that follows no rule by the worst error of each relation over all steps.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"
#include "conformance/judge/links.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The ratio of the worst error to its limit, which may be 0.
static double excess_of(const struct link_worst *worst)
{
    return worst->limit > 0 ? worst->roundings / worst->limit : worst->roundings > 0 ? INFINITY : 0;
}

// Keeps the worse of two steps for each relation.
static void keep_worst(struct link_result *all, const struct link_result *step)
{
    for (int link = 0; link < LINK_COUNT; link++) {
        const struct link_worst *now = &step->worst[link];
        struct link_worst *worst = &all->worst[link];
        if (now->was_checked && (!worst->was_checked || excess_of(now) > excess_of(worst)))
            *worst = *now;
    }
}

// The worst of each relation that has been checked, against its limit.
static void print_links(const struct trial *trial, const struct link_result *result, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "errors in roundings, with limits: "), begin = used;
    for (int link = 0; link < LINK_COUNT && used < bytes; link++) {
        const struct link_worst *worst = &result->worst[link];
        if (!worst->was_checked)
            continue;
        used += (size_t)snprintf(out + used, bytes - used, "%s%s %.3g (%.3g)", used > begin ? "; " : "",
                                 link_name((enum link)link), worst->roundings, worst->limit);
        if (link_class_of((enum link)link, worst) == LINK_BROKEN && used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, " at %s, element %zu",
                                     trial->c->params[worst->param].name, worst->element);
    }
}

static bool is_broken(const struct link_result *result, enum link link)
{
    return result->worst[link].was_checked && link_class_of(link, &result->worst[link]) == LINK_BROKEN;
}

// A hint that blames the arithmetic of the whole step gives way to what the relations show: a gradient that is wrong in
// both moments, while the parameter follows from them; or nothing that follows from anything.
static enum hint hint_of_links(const struct link_result *result, enum hint hint)
{
    bool gradient = result->worst[LINK_GRADIENT].was_checked
                        ? is_broken(result, LINK_GRADIENT)
                        : is_broken(result, LINK_EXP_AVG) && is_broken(result, LINK_EXP_AVG_SQ);
    bool vague = hint == HINT_OTHER || hint == HINT_OVERWRITTEN;
    if (!vague || !gradient)
        return hint;
    if (!is_broken(result, LINK_PARAM))
        return HINT_GRADIENT;
    return is_broken(result, LINK_EXP_AVG) && is_broken(result, LINK_EXP_AVG_SQ) ? HINT_OVERWRITTEN : hint;
}

int judge_by_links(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct link_result all = {0};
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        TRY(trial_step(trial, step));
        bool speaks = trial->step.has_grad && !trial->decisions[step - 1].skipped;
        const float *const *grad = speaks ? (const float *const *)trial->step.grad : NULL;
        const struct link_step link = {
            .step = step,
            .decisions = trial->decisions,
            .before = &trial->before,
            .after = &trial->after,
            .grad = grad,
            .applied_grad = trial->decisions[step - 1].applies == step ? grad : NULL,
            .may_leave_unused = trial->options->unused != 1,
            .may_decay_unused = trial->options->unused != 0,
        };
        struct link_result one = {0};
        TRY(links_check(c, trial->values, &link, &one));
        keep_worst(&all, &one);
    }
    out->verdict = links_class(&all) == LINK_BROKEN ? VERDICT_FAIL : VERDICT_BOUNDED;
    out->hint = hint_of_links(&all, out->hint);
    size_t used = strlen(out->text);
    print_links(trial, &all, out->text + used, sizeof out->text - used);
    return ERR_NONE;
}
