// SPDX-License-Identifier: Apache-2.0
// Claims: all built-in verdicts follow, a wrong one is detected, and malformed claims are refused.
#include "plan/claims/claim.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The last claim seen, and how many there were.
struct seen {
    struct claim last;
    int count, counts[CLAIM_VERDICT_COUNT], broken;
};

static int see(const struct claim *claim, void *context)
{
    struct seen *seen = context;
    seen->last = *claim;
    seen->count++;
    seen->counts[claim->verdict]++;
    seen->broken += !claim->follows;
    if (!claim->follows)
        fprintf(stderr, "%s: %s, %.17g\n", claim->name, claim_verdict_name(claim->verdict), claim->value);
    return ERR_NONE;
}

static struct claim one(const char *text)
{
    struct seen seen = {0};
    int rc = claim_each_of("c.json", text, strlen(text), see, &seen);
    cr_assert_eq(rc, ERR_NONE, "%s: %s", text, err_message());
    cr_assert_eq(seen.count, 1);
    return seen.last;
}

static void refused(const char *text, const char *message)
{
    struct seen seen = {0};
    cr_assert_eq(claim_each_of("c.json", text, strlen(text), see, &seen), ERR_USAGE, "%s", text);
    cr_assert_str_eq(err_message(), message);
}

static struct seen all_of(const char *name)
{
    struct seen seen = {0};
    cr_assert_eq(claim_each(name, see, &seen), ERR_NONE, "%s", err_message());
    return seen;
}

static char *printed(const char *name, bool json, int *rc)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    *rc = claim_print(name, json, out);
    fclose(out);
    return text;
}

#define HOLDS "\"1 == 1\""
#define FAILS "\"1 == 2\""

Test(claim, every_recorded_verdict_follows)
{
    struct seen seen = all_of(NULL);
    cr_assert_eq(seen.broken, 0);
    cr_assert_geq(seen.count, 66);
    for (int verdict = CLAIM_TRUE; verdict <= CLAIM_UNDECIDABLE; verdict++)
        cr_assert_geq(seen.counts[verdict], 4, "%s", claim_verdict_name(verdict));
    cr_assert_eq(seen.counts[CLAIM_NONE], 0);
}

Test(claim, a_verdict_follows_from_the_queries)
{
    static const char condition[] = "{\"statement\":\"s\",\"query\":%s,\"condition\":\"c\",\"under\":%s}";
    char text[512];
    snprintf(text, sizeof text, condition, HOLDS, FAILS);
    cr_assert_eq(one(text).verdict, CLAIM_TRUE);
    snprintf(text, sizeof text, condition, FAILS, HOLDS);
    cr_assert_eq(one(text).verdict, CLAIM_TRUE_UNDER);
    snprintf(text, sizeof text, condition, FAILS, FAILS);
    cr_assert_eq(one(text).verdict, CLAIM_FALSE);
    cr_assert_eq(one("{\"statement\":\"s\",\"query\":" FAILS "}").verdict, CLAIM_FALSE);
    cr_assert_eq(one("{\"statement\":\"s\",\"verdict\":\"undecidable\",\"reason\":\"r\"}").verdict, CLAIM_UNDECIDABLE);
}

Test(claim, a_verdict_or_a_value_that_does_not_follow_is_detected)
{
    cr_assert(one("{\"statement\":\"s\",\"query\":" HOLDS "}").follows);
    cr_assert(one("{\"statement\":\"s\",\"query\":" HOLDS ",\"verdict\":\"true\",\"value\":1.004}").follows);
    cr_assert_not(one("{\"statement\":\"s\",\"query\":" HOLDS ",\"verdict\":\"false\"}").follows);
    cr_assert_not(one("{\"statement\":\"s\",\"query\":" FAILS ",\"verdict\":\"true\"}").follows);
    cr_assert_not(one("{\"statement\":\"s\",\"query\":" HOLDS ",\"value\":1.006}").follows);
    cr_assert_not(one("{\"statement\":\"s\",\"query\":\"1 == 1 and 1 == 1\",\"value\":1}").follows);
    struct claim measured = one("{\"statement\":\"s\",\"query\":" HOLDS ",\"measure\":\"2 + 5\",\"value\":7}");
    cr_assert(measured.follows);
    cr_assert_eq(measured.value, 7);
}

Test(claim, a_user_writes_one_in_four_lines)
{
    struct claim claim = one("{\"statement\": \"7.5B parameters take 16.6 GB a GPU in ZeRO-2 on 64 GPUs\",\n"
                             " \"given\": {\"zero2\": {\"params\": 7.5e9, \"preset\": \"zero2\", \"world\": 64}},\n"
                             " \"query\": \"zero2.memory.device.state_bytes about 16.6e9 within 0.01\",\n"
                             " \"unit\": \"bytes\"}");
    cr_assert_eq(claim.verdict, CLAIM_TRUE);
    cr_assert_eq(claim.stored, CLAIM_NONE);
    cr_assert(claim.follows);
    cr_assert_float_eq(claim.value, 16.640625e9, 100);
}

Test(claim, names_select_a_claim_a_file_or_all_with_a_prefix)
{
    struct seen claim = all_of("zero1-4x");
    cr_assert_str_eq(claim.last.name, "zero1-4x");
    cr_assert_eq(claim.count, 1);
    cr_assert_gt(all_of("zero1-").count, 1);
    struct seen file = all_of("interview");
    cr_assert_eq(file.count, 19);
    cr_assert_str_eq(file.last.source, "notes for a job interview on ZeRO, with a 130B model on 128 A100 (2025)");
    struct seen none = {0};
    cr_assert_eq(claim_each("nobody-says-so", see, &none), ERR_USAGE);
    cr_assert_str_eq(err_message(),
                     "no claim's name starts with 'nobody-says-so', and there is no such file; `zerogauge "
                     "plan --claims` lists all");
}

Test(claim, a_users_file_is_read_and_fails_where_a_verdict_does_not_follow)
{
    char path[] = "/tmp/claim_test_XXXXXX";
    static const char text[] =
        "{\"source\":\"me\",\"claims\":[{\"statement\":\"one\",\"query\":" HOLDS "},\n"
        "{\"statement\":\"two\",\"source\":\"you\",\"verdict\":\"true\",\"query\":" FAILS ",\"measure\":12345678}]}";
    int fd = mkstemp(path), rc;
    cr_assert_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    char *page = printed(path, false, &rc);
    unlink(path);
    cr_assert_eq(rc, ERR_CHECK);
    cr_assert_str_eq(err_message(), "1 of 2 claims: the recorded verdict or value does not follow");
    cr_assert_str_eq(page, "me\n\n  true\n    \"one\"\n    value: 1\n"
                           "\nyou\n\n  false  DOES NOT FOLLOW\n    \"two\"\n    value: 12,345,678\n"
                           "    recorded verdict: true\n"
                           "\n2 claims: 1 true, 0 true under a condition, 1 false, 0 not decidable\n");
    free(page);
}

Test(claim, a_line_of_json_is_a_claim)
{
    int rc, count = 0;
    char *text = printed("short-notes", true, &rc), *rest = text;
    cr_assert_eq(rc, ERR_NONE, "%s", err_message());
    for (char *line; (line = strsep(&rest, "\n")) && *line; count++) {
        json_t *claim = json_loads(line, 0, NULL);
        cr_assert_str_eq(json_string_value(json_object_get(claim, "record")), "claim");
        cr_assert(json_is_true(json_object_get(claim, "follows")), "%s", line);
        json_decref(claim);
    }
    cr_assert_eq(count, 19);
    free(text);
}

Test(claim, a_mistake_is_named_with_file_line_and_key)
{
    refused("{\"statement\":\"s\"}", "c.json:1: query: missing: the query that decides the claim");
    refused("{\"query\":" HOLDS "}", "c.json:1: statement: missing");
    refused("{\"statement\":\"s\",\"verdict\":\"undecidable\"}",
            "c.json:1: reason: missing: the reason why no query decides the claim");
    refused("{\"statement\":\"s\",\"verdict\":\"undecidable\",\"reason\":\"r\",\n\"query\":" HOLDS "}",
            "c.json:2: query: decides the claim, whose verdict is undecidable");
    refused("{\"statement\":\"s\",\"query\":" HOLDS ",\"condition\":\"c\"}",
            "c.json:1: under: missing: a condition needs a text (condition) and a query (under)");
    refused("{\"statement\":\"s\",\"query\":" HOLDS ",\"under\":" HOLDS "}",
            "c.json:1: condition: missing: a condition needs a text (condition) and a query (under)");
    refused("{\"statement\":\"s\",\"query\":" HOLDS ",\"verdict\":\"true-under\"}",
            "c.json:1: under: missing: the query under the condition");
    refused("{\"statement\":\"s\",\"query\":" HOLDS ",\"verdict\":\"maybe\"}",
            "c.json:1: verdict: is \"maybe\", expected one of \"true\", \"true-under\", \"false\", \"undecidable\"");
    refused("{\"source\":\"me\",\"claims\":[{\"statement\":\"s\",\"query\":" HOLDS "},\n\n{\"statement\":\"s\",\n"
            "\"claim\":\"second\",\"given\":{\"p\":{\"params\":8,\"preset\":\"zero1\",\"world\":\"two\"}},"
            "\"query\":\"p.params == 8\"}]}",
            "claim second: c.json:4: claims.1.given.p.world: is \"two\", expected a whole number from 1 to 100000");
    refused("{\"source\":\"me\",\"claims\":[{\"claim\":\"first\",\"statement\":\"s\",\n\"query\":\"1 == \"}]}",
            "claim first: c.json:2: claims.0.query: expected a number, a name or \"(\" at its end");
    refused("{\"claim\":\"c\",\"statement\":\"s\",\"query\":" HOLDS ",\"measure\":\"gone\"}",
            "claim c: c.json:1: measure: names gone, which is neither given nor an equation of a paper");
    refused("{\"source\":\"me\",\"claims\":[]}", "c.json:1: claims: has 0 elements, expected an array of 1 to 1024 "
                                                 "elements");
    refused("[1]", "c.json:1: is an array, expected a JSON object");
}
