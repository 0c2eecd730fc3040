// SPDX-License-Identifier: Apache-2.0
// Optional chapters: asked of a program that claims them, and of nobody else.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <string.h>

static char output[1 << 18];
static char folder[PATH_MAX];

// `zerogauge check` of the reference as a foreign program, with claims of a small part of everything.
static int check(const char *more, const char *options)
{
    char command[6 * PATH_MAX], claims[PATH_MAX], text[512];
    folder_make(folder);
    snprintf(claims, sizeof claims, "%.4000s/claims.json", folder);
    snprintf(text, sizeof text,
             "{\"contract\": 1, \"name\": \"mine\", \"version\": \"1\", \"worlds\": [4], \"stages\": [1], "
             "\"precisions\": [\"fp32\"], \"features\": [\"clipping\"]%s%s%s}",
             more ? ", \"optional\": [" : "", more ? more : "", more ? "]" : "");
    folder_write(claims, text, strlen(text));
    snprintf(command, sizeof command,
             "%s/zerogauge check --claims %s %s -- %s/zerogauge answer {cases} {answers} {world} {state} 2>&1",
             ZG_BINARY_DIR, claims, options, ZG_BINARY_DIR);
    int status = command_run(command, output, sizeof output);
    folder_remove(folder);
    return status;
}

static bool says(const char *text)
{
    return strstr(output, text) != NULL;
}

Test(check_option, what_is_not_claimed_is_not_part_of_the_run)
{
    cr_assert_eq(check(NULL, "--case '@(hsdp-clip|clip-above).w4.s1.fp32*'"), 2, "%s", output);
    cr_assert(says("is called \"@(hsdp-clip"), "%s", output);
    cr_assert_eq(check(NULL, "--case '@(tp-clip|red-cancel).w4.s1.f*'"), 0, "%s", output);
    cr_expect(says("1 cases in ") || says("2 cases in "), "%s", output);  // one of them is asked twice
    cr_expect_not(says("R-TP-04"), "%s", output);
    cr_expect_not(says("PARTLY"), "%s", output);
}

Test(check_option, what_is_claimed_is_asked_and_nothing_beyond)
{
    cr_assert_eq(check("\"tensor\"", "--case '@(tp-clip|hsdp-clip|red-cancel).w4.s1.f*'"), 0, "%s", output);
    cr_expect(says("PASS         R-TP-04"), "%s", output);
    cr_expect_not(says("R-MESH-03"), "%s", output);
}

Test(check_option, a_requirement_that_is_not_claimed_cannot_be_asked_for)
{
    cr_assert_eq(check("\"tensor\"", "--requirement R-PP-03"), 2, "%s", output);
    cr_assert(says("R-PP-03 is optional: claims ask for it with \"pipeline\" in the list \"optional\""), "%s", output);
}
