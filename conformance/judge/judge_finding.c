// SPDX-License-Identifier: Apache-2.0
// What findings tell: a difference; and findings on cases that have no answer to judge.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct difference difference_at(int step, const char *what, int param, size_t element, float expected, float actual)
{
    double magnitude = fmax(fabs((double)expected), fabs((double)actual));
    return (struct difference){
        .step = step,
        .rank = -1,
        .micro = -1,
        .param = param,
        .what = what,
        .element = element,
        .expected_bits = f32_bits(expected),
        .actual_bits = f32_bits(actual),
        .bits = 32,
        .roundings = fabs((double)expected - (double)actual) / (magnitude * 0x1p-24),
    };
}

bool trial_frozen_changed(const struct trial *trial, int step, struct difference *out)
{
    const struct check_case *c = trial->c;
    for (int param = 0; param < c->param_count; param++) {
        if (!c->params[param].frozen || case_owner(c, param) != param)
            continue;
        for (size_t i = 0; i < c->params[param].count; i++) {
            float expected = trial->before.param[param][i], actual = trial->step.param[param][i];
            if (value_same(expected, actual))
                continue;
            *out = difference_at(step, "param", param, i, expected, actual);
            out->roundings = NAN;
            out->differing_count = 1;
            out->compared_count = c->params[param].count;
            return true;
        }
    }
    return false;
}

void finding_differ(struct finding *out, int step, const char *what, double expected, double actual, enum hint hint)
{
    out->verdict = VERDICT_FAIL;
    out->hint = hint;
    out->has_difference = true;
    out->difference = (struct difference){.step = step,
                                          .rank = -1,
                                          .micro = -1,
                                          .param = -1,
                                          .what = what,
                                          .bits = 64,
                                          .roundings = NAN,
                                          .differing_count = 1,
                                          .compared_count = 1};
    memcpy(&out->difference.expected_bits, &expected, sizeof expected);
    memcpy(&out->difference.actual_bits, &actual, sizeof actual);
    snprintf(out->text, sizeof out->text, "%s is %.17g, expected %.17g", what, actual, expected);
}

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

int judge_absent(struct judge *judge, const struct check_case *c, enum absence absence, int lack, const char *why)
{
    struct finding finding = {.c = c, .verdict = VERDICT_UNSUPPORTED, .absence = absence, .lack = lack};
    assert(absence != ABSENT_NOT);
    snprintf(finding.text, sizeof finding.text, "%s", why);
    return add_aspects(judge, &finding, (unsigned)OWN_ASPECTS | (c->twin[0] ? (unsigned)TWIN_ASPECTS : 0));
}
