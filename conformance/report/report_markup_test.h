// SPDX-License-Identifier: Apache-2.0
// For tests of reports in XML: another program's reading of them.
#ifndef ZG_REPORT_MARKUP_TEST_H
#define ZG_REPORT_MARKUP_TEST_H

#include "conformance/report/report_test.h"

#include "base/command_test.h"
#include "base/folder_test.h"

// True if xmllint is installed; otherwise the test is skipped.
static inline bool xml_can_be_read(void)
{
    char output[64];
    if (command_run("xmllint --version >/dev/null 2>&1", output, sizeof output) == 0)
        return true;
    printf("TEST SKIPPED: xmllint is not there\n");
    return false;
}

struct xml {
    char folder[PATH_MAX], path[PATH_MAX];
};

// A report as a file that is well-formed XML.
static inline struct xml xml_open(const struct reported *reported, report_function *report)
{
    struct xml xml;
    char command[2 * PATH_MAX], output[4096], *text = reported_print(reported, report);
    folder_make(xml.folder);
    cr_assert_lt(snprintf(xml.path, sizeof xml.path, "%.*s/report.xml", PATH_MAX - 16, xml.folder), PATH_MAX);
    folder_write(xml.path, text, strlen(text));
    free(text);
    snprintf(command, sizeof command, "xmllint --nonet --noout '%s' 2>&1", xml.path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    return xml;
}

// The value of an XPath expression; valid until the next call.
static inline const char *xml_get(const struct xml *xml, const char *expression)
{
    static char output[1 << 14];
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "xmllint --nonet --xpath \"%s\" '%s' 2>&1", expression, xml->path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", expression, output);
    size_t length = strlen(output);
    if (length > 0 && output[length - 1] == '\n')
        output[length - 1] = '\0';
    return output;
}

static inline double xml_number(const struct xml *xml, const char *expression)
{
    return atof(xml_get(xml, expression));
}

static inline void xml_close(struct xml *xml)
{
    folder_remove(xml->folder);
}

#endif
