// SPDX-License-Identifier: Apache-2.0
// Optional chapters: asked of a program that claims them, and of nobody else.
#include "conformance/run/check_test.h"

TestSuite(check_option, .init = check_setup, .fini = check_teardown);

// `zerogauge check` of the reference as a foreign program, with claims of a small part of everything.
static int check_claims(const char *more, const char *options)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"contract\": 1, \"name\": \"mine\", \"version\": \"1\", \"worlds\": [4], \"stages\": [1], "
             "\"precisions\": [\"fp32\"], \"features\": [\"clipping\"], \"optional\": [%s]}",
             more);
    write_text("claims.json", text);
    return check("--claims claims.json %s -- " ZG_BINARY_DIR "/zerogauge answer {cases} {answers} {world} {state}",
                 options);
}

Test(check_option, what_is_not_claimed_is_not_part_of_the_run)
{
    cr_assert_eq(check_claims("", "--case '@(hsdp-clip|clip-above).w4.s1.fp32*'"), 2, "%s", output);
    has("is called \"@(hsdp-clip");
    cr_assert_eq(check_claims("", "--case '@(tp-clip|red-cancel).w4.s1.f*'"), 0, "%s", output);
    cr_expect(strstr(output, "1 cases in ") || strstr(output, "2 cases in "), "%s", output);  // one is asked twice
    lacks("R-TP-04");
    lacks("PARTLY");
}

Test(check_option, what_is_claimed_is_asked_and_nothing_beyond)
{
    cr_assert_eq(check_claims("\"tensor\"", "--case '@(tp-clip|hsdp-clip|red-cancel).w4.s1.f*'"), 0, "%s", output);
    has("PASS         R-TP-04");
    lacks("R-MESH-03");
}

Test(check_option, a_requirement_that_is_not_claimed_cannot_be_asked_for)
{
    cr_assert_eq(check_claims("\"tensor\"", "--requirement R-PP-03"), 2, "%s", output);
    has("R-PP-03 is optional: claims ask for it with \"pipeline\" in the list \"optional\"");
}
