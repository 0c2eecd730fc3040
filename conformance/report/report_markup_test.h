// SPDX-License-Identifier: Apache-2.0
// For tests of reports in XML: another program's reading of them.
#ifndef ZG_REPORT_MARKUP_TEST_H
#define ZG_REPORT_MARKUP_TEST_H

#include "conformance/report/report_test.h"

#include "base/command_test.h"
#include "base/folder_test.h"

static struct reported *reported;
static char xml_folder[PATH_MAX], xml_path[PATH_MAX];

// For TestSuite: a friendly run.
static inline void xml_setup(void)
{
    folder_make(xml_folder);
    cr_assert_lt(snprintf(xml_path, sizeof xml_path, "%.*s/report.xml", PATH_MAX - 16, xml_folder), PATH_MAX);
    reported = reported_open(false);
}

static inline void xml_teardown(void)
{
    folder_remove(xml_folder);
    reported_close(reported);
}

static inline void xml_reported(bool hostile)
{
    reported_close(reported);
    reported = reported_open(hostile);
}

// Writes a report as a file, which is well-formed XML; false if xmllint is not installed: the test is skipped.
static inline bool xml_opens(report_function *report)
{
    char command[2 * PATH_MAX], output[4096], *text = reported_print(reported, report);
    folder_write(xml_path, text, strlen(text));
    free(text);
    if (command_run("xmllint --version >/dev/null 2>&1", output, sizeof output) != 0) {
        printf("TEST SKIPPED: xmllint is not there\n");
        return false;
    }
    snprintf(command, sizeof command, "xmllint --nonet --noout '%s' 2>&1", xml_path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    return true;
}

// The value of an XPath expression; valid until the next call.
static inline const char *xml_get(const char *expression)
{
    static char output[1 << 14];
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "xmllint --nonet --xpath \"%s\" '%s' 2>&1", expression, xml_path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", expression, output);
    size_t length = strlen(output);
    if (length > 0 && output[length - 1] == '\n')
        output[length - 1] = '\0';
    return output;
}

static inline double xml_number(const char *expression)
{
    return atof(xml_get(expression));
}

static inline void xml_is(const char *expression, const char *expected)
{
    cr_assert_str_eq(xml_get(expression), expected, "%s", expression);
}

static inline void xml_has(const char *expression, const char *part)
{
    const char *text = xml_get(expression);
    cr_assert_not_null(strstr(text, part), "%s: no \"%s\" in %s", expression, part, text);
}

static inline void xml_counts(const char *expression, double expected)
{
    cr_assert_eq(xml_number(expression), expected, "%s", expression);
}

#endif
