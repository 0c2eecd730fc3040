// SPDX-License-Identifier: Apache-2.0
// Tests of the command line of `zerogauge plan`.
#include "command_test.h"

#include <criterion/criterion.h>

#include <string.h>

#define PLAN "'" ZG_BINARY_DIR "/zerogauge' plan "

static char output[1 << 18];

static void expect(const char *command, int status, const char *text)
{
    cr_assert_eq(command_run(command, output, sizeof output), status, "%s: %s", command, output);
    cr_assert_not_null(strstr(output, text), "%s: '%s' is not in %s", command, text, output);
}

Test(cmd_plan, all_papers_and_all_claims_end_with_status_0)
{
    expect(PLAN "--paper 2>&1", 0, " 0 differ");
    expect(PLAN "--claims 2>&1", 0, "claims: ");
}

Test(cmd_plan, a_name_selects_a_table_or_a_claim)
{
    expect(PLAN "--paper zero-table-1", 0, "54 cells: 54 agree");
    expect(PLAN "--paper=zero-table-1", 0, "54 cells: 54 agree");
    expect(PLAN "--claims zero1-4x --json", 0, "\"verdict\":\"true-under\"");
    expect(PLAN "--paper no-such 2>&1", 2, "zerogauge plan: no paper's table is called 'no-such'");
    expect(PLAN "--claims no-such 2>&1", 2, "zerogauge plan: 'no-such' is neither a claim");
}

Test(cmd_plan, a_claim_that_does_not_follow_ends_with_status_1)
{
    expect("echo '{\"statement\":\"s\",\"verdict\":\"true\",\"query\":{\"sum\":[1],\"compare\":\"==\",\"value\":2}}' |"
           PLAN "--claims /dev/stdin 2>&1", 1, "1 of 1 claims: what is written down does not follow");
    expect("echo '{\"statement\":\"s\",\"query\":{\"sum\":[1],\"compare\":\"==\"}}' |" PLAN "--claims /dev/stdin 2>&1",
           2, "/dev/stdin:1: query.value: is missing, expected a number");
}

Test(cmd_plan, what_contradicts_itself_is_refused)
{
    expect(PLAN "--paper --claims 2>&1", 2, "--paper and --claims exclude each other");
    expect(PLAN "--paper one two 2>&1", 2, "\"two\" is not an option");
    expect(PLAN "--claims --preset zero1 2>&1", 2, "claims have configurations of their own");
}
