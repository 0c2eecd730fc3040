// SPDX-License-Identifier: Apache-2.0
// Test support for reports: a run with every verdict, its texts friendly or hostile.
#pragma once

#include "conformance/report/report.h"

#include "base/err.h"
#include "conformance/spec/requirement_parse.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEST_REST(check, mutant) "\n\n- Source: s\n- Check: " check "\n- Mutants: `" mutant "`\n\n"
// A row is a requirement.
// clang-format off
static const char reported_text[] =
    "## Arithmetic\n\n"
    "### R-ARI-01 MUST: Sums are right" TEST_REST("state of `ari-*`", "a")
    "### R-ARI-02 MUST: Means are right" TEST_REST("gradient, norm of `ari-*`", "b")
    "### R-ARI-03 SHOULD: Padding is small" TEST_REST("padding of `ari-one`", "c")
    "## Copies <of> \"A\" & 'B'\n\n"
    "### R-COP-01 MUST: Copies are <fresh> & \"whole\" ]]>" TEST_REST("seen of `cop-*`", "d")
    "### R-COP-02 MUST: Norms are near" TEST_REST("norm of `cop-two`", "e")
    "### R-COP-03 MUST: There is an answer" TEST_REST("answer of `cop-three`", "f")
    "### R-COP-04 MUST: Twice is alike" TEST_REST("repeat of `*`", "g")
    "### R-COP-05 MUST: t is the number of updates" TEST_REST("decision of `cop-two`", "h")
    "## Absent\n\n"
    "### R-ABS-01 MUST: It may be declined" TEST_REST("state of `abs-one`", "i")
    "### R-ABS-02 MUST: It may not occur" TEST_REST("state of `abs-two`", "j");
// clang-format on

enum { REPORTED_COUNT = 10 };

// All that a report function takes.
struct reported {
    struct check_case cases[8];
    int case_count;
    struct requirements requirements;
    struct run_facts facts;
    struct findings findings;
    struct requirement_verdict verdicts[REPORTED_COUNT];
};

// Text that tries to leave its place: markup, ends of comments and sections, controls, terminal
// escapes (also C1), a reversal of direction, bytes that are no UTF-8, an overlong '<', a surrogate, a line that looks
// like a verdict.
#define HOSTILE                                                                                                        \
    "</failure><script>alert('1')</script> & \"q\" ]]> --> <!-- \x01\x08\x1b[2J\x7f \xc2\x9b"                          \
    "31m \xe2\x80\xaetxet "                                                                                            \
    "\xff\xfe \xc0\xbc \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82 \xef\xbf\xbe \xe2\x82\xac\r\n"                           \
    "CONFORMS: every MUST\n\ttab %s%n"

static inline const struct check_case *reported_case(struct reported *reported, const char *name, enum dtype precision)
{
    struct check_case *c = &reported->cases[reported->case_count++];
    snprintf(c->name, sizeof c->name, "%s", name);
    c->precision = precision;
    c->phase = strstr(name, ".resume") ? PHASE_RESUME : PHASE_WHOLE;
    c->param_count = 2;
    snprintf(c->params[0].name, sizeof c->params[0].name, "embed");
    snprintf(c->params[1].name, sizeof c->params[1].name, "layer.0.weight");
    return c;
}

static inline struct finding *tell(struct reported *reported, const struct check_case *c, enum aspect aspect,
                                   enum verdict verdict, const char *text)
{
    struct finding finding = {.c = c, .aspect = aspect, .verdict = verdict};
    snprintf(finding.text, sizeof finding.text, "%s", text);
    cr_assert_eq(findings_add(&reported->findings, &finding), ERR_NONE);
    return &reported->findings.list[reported->findings.count - 1];
}

static inline void tell_difference(struct reported *reported, const struct check_case *c, enum aspect aspect,
                                   enum verdict verdict, const char *text, enum hint hint, struct difference difference)
{
    struct finding *finding = tell(reported, c, aspect, verdict, text);
    finding->has_difference = true;
    finding->hint = hint;
    finding->difference = difference;
}

static inline void reported_judge(struct reported *reported)
{
    for (int i = 0; i < REPORTED_COUNT; i++)
        reported->verdicts[i] = verdict_of(&reported->findings, &reported->requirements.list[i]);
}

static inline struct reported *reported_open(bool hostile)
{
    static const char *const rules[] = {"device, bf16: torch-cpu, ranks folded in order, sum divided once",
                                        "cpu, fp32: torch-fused", NULL};
    static const char *const hostile_rules[] = {HOSTILE, NULL};
    struct reported *reported = calloc(1, sizeof *reported);
    cr_assert_eq(requirements_parse("T", reported_text, strlen(reported_text), &reported->requirements), ERR_NONE, "%s",
                 err_message());
    cr_assert_eq(reported->requirements.count, REPORTED_COUNT);
    reported->facts = (struct run_facts){.implementation = hostile ? HOSTILE : "Example Trainer",
                                         .version = hostile ? HOSTILE : "1.2.3",
                                         .level = hostile ? HOSTILE : "quick",
                                         .part = hostile ? HOSTILE : NULL,
                                         .command = hostile ? HOSTILE : "-- ./adapter {cases} {answers} {world}",
                                         .rules = hostile ? hostile_rules : rules,
                                         .seed = UINT64_MAX,
                                         .seconds = 12.25,
                                         .case_count = 7,
                                         .repeat_count = 1,
                                         .launch_count = 3,
                                         .requirement_count = REPORTED_COUNT,
                                         .suite_version = 1};
    const struct check_case *one = reported_case(reported, "ari-one", DTYPE_FP32);
    const struct check_case *again = reported_case(reported, "ari-one~2", DTYPE_FP32);
    const struct check_case *copy = reported_case(reported, "cop-one.resume", DTYPE_BF16);
    const struct check_case *two = reported_case(reported, "cop-two", DTYPE_FP16);
    tell(reported, one, ASPECT_STATE, VERDICT_PASS, "");
    tell(reported, again, ASPECT_STATE, VERDICT_PASS, "");
    tell(reported, one, ASPECT_GRADIENT, VERDICT_EQUIVALENT, hostile ? HOSTILE : "ranks in a ring");
    tell(reported, again, ASPECT_GRADIENT, VERDICT_EQUIVALENT, hostile ? HOSTILE : "ranks in a ring");
    tell(reported, one, ASPECT_NORM, VERDICT_PASS, "");
    tell(reported, again, ASPECT_NORM, VERDICT_EQUIVALENT, "norm in pairs");
    // Differences: step, rank, micro-step, parameter; what, element; bits expected and got, how wide; roundings; how
    // many elements differ, of how many.
    tell_difference(reported, one, ASPECT_PADDING, VERDICT_FAIL, "12 bytes where 8 are allowed", HINT_NONE,
                    (struct difference){1, 1, -1, -1, "padding", 0, 8, 12, 64, NAN, 0, 0});
    tell(reported, two, ASPECT_SEEN, VERDICT_PASS, "");
    tell_difference(reported, copy, ASPECT_SEEN, VERDICT_FAIL, hostile ? HOSTILE : "", HINT_STALE_COPY,
                    (struct difference){3, 1, 0, 1, "seen", 16, 0x3f80, 0xc000, 16, 384.5, 3, 128});
    tell(reported, copy, ASPECT_SEEN, VERDICT_FAIL, "again");
    tell_difference(
        reported, two, ASPECT_NORM, VERDICT_BOUNDED, "2 roundings of 4", HINT_NONE,
        (struct difference){2, -1, -1, -1, "norm", 0, 0x3ff8000000000000, 0x7ff8000000000000, 64, INFINITY, 0, 0});
    tell(reported, reported_case(reported, "cop-three", DTYPE_FP32), ASPECT_ANSWER, VERDICT_BROKEN,
         hostile ? HOSTILE : "step-2.safetensors is not there");
    tell_difference(reported, again, ASPECT_REPEAT, VERDICT_FAIL, "the first answer differs", HINT_LEFT_OVER,
                    (struct difference){2, -1, -1, 0, "exp_avg", 7, 0x3f800000, 0x3f800001, 32, 1, 1, 7});
    tell_difference(reported, two, ASPECT_DECISION, VERDICT_FAIL, "", HINT_STEP_COUNT,
                    (struct difference){4, -1, -1, -1, "t", 0, 4, 5, 64, NAN, 0, 0});
    tell(reported, reported_case(reported, "abs-one", DTYPE_FP32), ASPECT_STATE, VERDICT_UNSUPPORTED,
         hostile ? HOSTILE : "declined: no moments");
    reported_judge(reported);
    return reported;
}

static inline void reported_close(struct reported *reported)
{
    findings_free(&reported->findings);
    requirements_close(&reported->requirements);
    free(reported);
}

typedef int report_function(const struct run_facts *facts, const struct findings *findings,
                            const struct requirement_verdict verdicts[], int count, FILE *out);

// A report's text; the caller frees it.
static inline char *reported_print(const struct reported *reported, report_function *report)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_not_null(out);
    cr_assert_eq(report(&reported->facts, &reported->findings, reported->verdicts, REPORTED_COUNT, out), ERR_NONE, "%s",
                 err_message());
    cr_assert_eq(fclose(out), 0);
    cr_assert_eq(strlen(text), bytes, "a NUL byte");
    return text;
}
