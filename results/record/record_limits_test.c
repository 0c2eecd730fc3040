// SPDX-License-Identifier: Apache-2.0
// report --verify against files of unusual numbers of records: more than the verifier's limits, and none that judge.
#include "results/record/record_verify.h"

#include "results/record/record_test.h"
#include "results/record/verify_internal.h"

TestSuite(record_limits, .init = sample_folder_make, .fini = sample_folder_remove);

enum { LINE_MAX_COUNT = VERIFY_RANK_MAX + 16, LINE_BYTES = 1024 };

static const char *lines[LINE_MAX_COUNT];
static size_t count;

static void add(const char *line)
{
    cr_assert_lt(count + 1, LINE_MAX_COUNT);
    lines[count++] = line;
}

// Adds copies of a line in which %zu, if it has one, is their number from 0.
static void add_copies(const char *format, size_t copies)
{
    for (size_t i = 0; i < copies; i++) {
        char *line = malloc(LINE_BYTES);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(line, LINE_BYTES, format, i);
#pragma GCC diagnostic pop
        add(line);
    }
}

static void expect_refusal(const char *what)
{
    struct result_file file;
    size_t refusals, bytes;
    char *text;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(result_open(sample_write("a", lines), &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(&file, out, &refusals), ERR_NONE);
    result_close(&file);
    fclose(out);
    cr_expect(strstr(text, what), "expected \"%s\", not: %.2000s", what, text);
    free(text);
}

Test(record_limits, more_accepted_ranges_than_the_limit_are_refused)
{
    add(SAMPLE_RUN);
    add_copies("{\"record\":\"band\",\"id\":\"range-%zu\",\"bench\":\"adam\",\"case\":{},\"metric\":\"ratio\","
               "\"unit\":null,\"at_least\":0.4,\"at_most\":null,\"source\":\"this test\"}",
               VERIFY_RANGE_MAX + 1);
    add(SAMPLE_END);
    expect_refusal("exceeds the limit of 1024 `band` records");
}

Test(record_limits, more_ranks_than_the_limit_are_refused)
{
    add(SAMPLE_RUN);
    add_copies("{\"record\":\"bench\",\"name\":\"ranks\",\"case\":{\"lane\":\"compute\",\"rank\":%zu,\"host\":\"h\","
               "\"processor\":0,\"together\":false},\"samples\":[1],\"median\":1,\"p10\":1,\"p90\":1,\"unit\":\"ns\","
               "\"lower_is_better\":true,\"items\":1,\"elapsed_s\":1,\"verified\":true,\"yardstick\":null,"
               "\"ratio\":null}",
               VERIFY_RANK_MAX + 1);
    add(SAMPLE_END);
    expect_refusal("exceeds the limit of 16384 results of ranks or hosts");
}

Test(record_limits, more_parts_than_the_limit_are_refused)
{
    static const char program[] = "\"program\":\"trial\"";
    static char run[8192];
    const char *at = strstr(SAMPLE_RUN, program);
    snprintf(run, sizeof run, "%.*s\"program\":\"validate\"%s", (int)(at - SAMPLE_RUN), SAMPLE_RUN,
             at + strlen(program));
    add(run);
    add_copies("{\"record\":\"part\",\"name\":\"bench-adam-%zu\",\"command\":[\"zerogauge\",\"bench\",\"adam\","
               "\"--quick\"],\"begin_s\":1,\"end_s\":2,\"status\":1,\"signal\":null,\"reason\":\"failed\"}",
               65);
    add(SAMPLE_END);
    expect_refusal("name: is bench-adam-64, expected at most 64 parts");
}

Test(record_limits, a_run_that_judges_nothing_is_refused)
{
    add(SAMPLE_RUN);
    add("{\"record\":\"end\",\"status\":\"complete\",\"verdict\":null,\"reasons\":[],\"elapsed_s\":20,"
        "\"other_load\":0.02,\"lines\":1,\"digest\":\"0123456789abcdef0123456789abcdef\"}");
    expect_refusal("verdict: is null, expected findings of a run that judges");
}
