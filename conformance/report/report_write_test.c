// SPDX-License-Identifier: Apache-2.0
// Tests of reports that cannot be written: wherever a file ends before its report does, the report is an error.
#include "conformance/report/report_test.h"

static report_function *const reports[] = {report_table, report_json, report_junit, report_html};
static const char *const names[] = {"the table", "the JSON report", "the JUnit report", "the page"};
enum { REPORT_COUNT = 4 };

static int print(const struct reported *reported, report_function *report, FILE *out)
{
    return report(&reported->facts, &reported->findings, reported->verdicts, REPORTED_COUNT, out);
}

Test(report_write, a_full_disk_is_an_error_of_every_report_whatever_is_buffered)
{
    struct reported *reported = reported_open(false);
    static const int modes[] = {_IOFBF, _IOFBF, _IONBF};  // the first with the buffer that a file has
    for (int i = 0; i < REPORT_COUNT * 3; i++) {
        static char buffer[1 << 20];
        FILE *out = fopen("/dev/full", "w");
        cr_assert_not_null(out);
        if (i % 3)
            setvbuf(out, buffer, modes[i % 3], sizeof buffer);
        cr_assert_eq(print(reported, reports[i / 3], out), ERR_IO, "%s, mode %d", names[i / 3], i % 3);
        cr_assert_not_null(strstr(err_message(), names[i / 3]), "%s", err_message());
        fclose(out);
    }
    reported_close(reported);
}

// A file with room for `room` bytes.
struct narrow {
    size_t room;
};

static ssize_t narrow_write(void *cookie, const char *data, size_t bytes)
{
    struct narrow *narrow = cookie;
    (void)data;
    if (bytes > narrow->room)
        return 0;
    narrow->room -= bytes;
    return (ssize_t)bytes;
}

Test(report_write, a_file_that_ends_anywhere_is_an_error)
{
    struct reported *reported = reported_open(false);
    for (int i = 0; i < REPORT_COUNT; i++) {
        char *text = reported_print(reported, reports[i]);
        size_t whole = strlen(text);
        free(text);
        // In steps of a prime, and byte by byte at the end.
        for (size_t room = 0; room <= whole; room += room + 499 < whole ? 499 : 1) {
            if (room + 3 < whole && room + 499 >= whole)
                room = whole - 3;
            struct narrow narrow = {.room = room};
            FILE *out = fopencookie(&narrow, "w", (cookie_io_functions_t){.write = narrow_write});
            setvbuf(out, NULL, _IONBF, 0);
            cr_assert_eq(print(reported, reports[i], out), room < whole ? ERR_IO : ERR_NONE, "%s, %zu of %zu", names[i],
                         room, whole);
            fclose(out);
        }
    }
    reported_close(reported);
}
