// SPDX-License-Identifier: Apache-2.0
// Test support: the report of a fleet whose files lie in the folder of samples, and what it has to name.
#pragma once

#include "results/page/result_report.h"

#include "bench/harness/printed_test.h"
#include "conformance/cases/schema_valid_test.h"
#include "results/record/record_test.h"

// Returns the report's lines, which the caller frees.
static char *fleet(int expected_status, const char *page)
{
    const char *argv[] = {"report", "--fleet", sample_folder, page ? "--html" : NULL, page, NULL};
    struct printed printed = printed_begin();
    int status = report_main(page ? 5 : 3, argv);
    char *text = printed_end(printed);
    cr_expect_eq(status, expected_status, "%d: %.2000s", status, text);
    return text;
}

struct expected {
    const char *host, *verdict, *what, *text;  // all reasons; a text in the first
};

// Each line is as the schema says; the hosts that are not in service are these, in this order.
static void expect_named(const char *text, size_t host_count, const struct expected *expected, size_t count)
{
    json_t *schema = json_load_file(ZG_SOURCE_DIR "/results/record/fleet.schema.json", 0, NULL), *line, *reason;
    size_t named = 0, hosts = 0, i;
    for (; (line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL)); text = strchr(text, '\n') + 1, hosts++) {
        char what[256] = "";
        json_t *reasons = json_object_get(line, "reasons");
        const char *host = json_string_value(json_object_get(line, "host"));
        const char *verdict = json_string_value(json_object_get(line, "verdict"));
        cr_assert(schema && schema_takes(schema, schema, line), "%s", host);
        json_array_foreach (reasons, i, reason)
            strcat(strcat(what, i ? " " : ""), json_string_value(json_object_get(reason, "what")));
        cr_expect_eq(strcmp(verdict, "in service") == 0, *what == '\0', "%s: %s", host, what);
        if (*what && named < count) {
            const char *said = json_string_value(json_object_get(json_array_get(reasons, 0), "text"));
            cr_expect_str_eq(host, expected[named].host);
            cr_expect_str_eq(verdict, expected[named].verdict, "%s: %s", host, said);
            cr_expect_str_eq(what, expected[named].what, "%s: %s", host, said);
            cr_expect(strstr(said, expected[named].text), "%s: %s", host, said);
            cr_expect(json_is_string(json_object_get(line, "next")), "%s", host);
        }
        named += *what != '\0';
        json_decref(line);
        if (!strchr(text, '\n'))
            break;
    }
    cr_expect_eq(named, count, "%zu named", named);
    cr_expect_eq(hosts, host_count);
    json_decref(schema);
}

static void expect_next(const char *text, const char *host, const char *command)
{
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"host\":\"%s\"", host);
    const char *line = strstr(text, quoted), *next = line ? strstr(line, "\"next\":") : NULL;
    snprintf(quoted, sizeof quoted, "\"next\":\"%s\"", command);
    cr_expect(next && strncmp(next, quoted, strlen(quoted)) == 0, "%s: %.80s", host, next ? next : "");
}
