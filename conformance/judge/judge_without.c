// SPDX-License-Identifier: Apache-2.0
// Findings on cases that have no answer to judge.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>

// Adds a copy of a finding for each of these aspects that some requirement checks in its case.
static int add_aspects(struct judge *judge, const struct finding *finding, unsigned aspects)
{
    aspects &= judge_aspects_of(finding->c);
    for (int aspect = 0; aspect < ASPECT_COUNT; aspect++) {
        struct finding one = *finding;
        one.aspect = (enum aspect)aspect;
        if (aspects >> aspect & 1)
            TRY(findings_add(judge->findings, &one));
    }
    return ERR_NONE;
}

enum {
    TWIN_ASPECTS = 1 << ASPECT_SAME | 1 << ASPECT_STAGES | 1 << ASPECT_WORLDS,
    // Aspects between cases need a second answer.
    OWN_ASPECTS = ~(TWIN_ASPECTS | 1 << ASPECT_REPEAT | 1 << ASPECT_RULE | 1 << ASPECT_MOMENTS)
};

int judge_without(struct judge *judge, const struct check_case *c, enum verdict verdict, const char *why)
{
    struct finding finding = {.c = c, .verdict = verdict};
    assert(verdict >= VERDICT_FAIL);
    snprintf(finding.text, sizeof finding.text, "%s", why);
    if (!c->expects_refusal)
        return add_aspects(judge, &finding, (unsigned)OWN_ASPECTS);
    TRY(add_aspects(judge, &finding, 1u << ASPECT_REFUSAL));
    finding.verdict = VERDICT_UNSUPPORTED;
    return add_aspects(judge, &finding, 1u << ASPECT_ANSWER);
}

int judge_absent(struct judge *judge, const struct check_case *c, enum absence absence, const char *why)
{
    struct finding finding = {.c = c, .verdict = VERDICT_UNSUPPORTED, .absence = absence};
    assert(absence != ABSENT_NOT);
    snprintf(finding.text, sizeof finding.text, "%s", why);
    return add_aspects(judge, &finding, (unsigned)OWN_ASPECTS | (c->twin[0] ? (unsigned)TWIN_ASPECTS : 0));
}
