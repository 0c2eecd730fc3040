// SPDX-License-Identifier: Apache-2.0
// Answers against one another: cases given twice, and twins, which must end every step in the same bits.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

static bool is_repetition(const struct check_case *a, const struct check_case *b)
{
    const char *tilde = strchr(b->name, '~');
    return tilde && strlen(a->name) == (size_t)(tilde - b->name) &&
           strncmp(a->name, b->name, (size_t)(tilde - b->name)) == 0;
}

// The first step that both speak of and in which they differ; 0: none.
static int differing_step(const struct kept *a, const struct kept *b)
{
    int first = case_first_step(a->c) > case_first_step(b->c) ? case_first_step(a->c) : case_first_step(b->c);
    int last = case_last_step(a->c) < case_last_step(b->c) ? case_last_step(a->c) : case_last_step(b->c);
    for (int step = first; step <= last; step++)
        if (memcmp(a->digests[step - 1], b->digests[step - 1], sizeof a->digests[0]) != 0)
            return step;
    return 0;
}

// Of two that should be the same one is wrong by itself, as a rule: that says why.
static enum hint hint_of_either(const struct judge *judge, const struct kept *a, const struct kept *b)
{
    for (size_t i = 0; i < judge->findings->count; i++) {
        const struct finding *finding = &judge->findings->list[i];
        if ((finding->c == a->c || finding->c == b->c) && finding->aspect == ASPECT_STATE && finding->hint != HINT_NONE)
            return finding->hint;
    }
    return case_first_step(b->c) > 1 ? HINT_RESUME : HINT_OTHER;
}

static int compare(struct judge *judge, const struct kept *a, const struct kept *b, enum aspect aspect)
{
    struct finding finding = {.c = b->c, .aspect = aspect, .verdict = VERDICT_PASS};
    int step = differing_step(a, b);
    if (step > 0) {
        finding.verdict = VERDICT_FAIL;
        finding.hint = hint_of_either(judge, a, b);
        snprintf(finding.text, sizeof finding.text, "differs from %s from step %d on", a->c->name, step);
    }
    return findings_add(judge->findings, &finding);
}

int judge_twins(struct judge *judge)
{
    for (size_t i = 0; i < judge->kept_count; i++) {
        const struct kept *b = &judge->kept[i];
        for (size_t j = 0; j < judge->kept_count; j++)
            if (is_repetition(judge->kept[j].c, b->c))
                TRY(compare(judge, &judge->kept[j], b, ASPECT_REPEAT));
        for (size_t j = 0; j < i && b->c->twin[0]; j++) {
            const struct kept *a = &judge->kept[j];
            bool meet = case_first_step(a->c) <= case_last_step(b->c) && case_first_step(b->c) <= case_last_step(a->c);
            if (!meet || strcmp(a->c->twin, b->c->twin) != 0)
                continue;
            TRY(compare(judge, a, b, ASPECT_SAME));
            break;
        }
    }
    return ERR_NONE;
}
