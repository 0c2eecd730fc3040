// SPDX-License-Identifier: Apache-2.0
// Which line of a command's output is the reason that a report shows.
#include "conformance/run/crash.h"

#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <string.h>

#define TRACE "Traceback (most recent call last):\n  File \"mine.py\", line 1\n"
#define DURING "\nDuring handling of the above exception, another exception occurred:\n\n"
#define CAUSE "\nThe above exception was the direct cause of the following exception:\n\n"

Test(crash, the_reason_is_the_last_exception_of_the_first_chain)
{
    static const struct {
        const char *output, *reason;
    } rows[] = {
        {"loading\n" TRACE "ValueError: no\nbye\n", "ValueError: no"},
        {TRACE "StopIteration\n" DURING TRACE "ImportError: no zero\n", "ImportError: no zero"},
        {TRACE "KeyError: 1\n" CAUSE TRACE "KeyError: 2\n" DURING TRACE "OSError: 3\n" TRACE "OSError: 4\n",
         "OSError: 3"},
        // Another rank, with and without a launcher's prefix.
        {TRACE "AssertionError: first\n" TRACE "RuntimeError: peer closed\n" DURING TRACE "OSError: later\n",
         "AssertionError: first"},
        {"[rank1]: " TRACE "[rank1]: AssertionError: first\n[rank0]: " TRACE "[rank0]: OSError: peer\n"
         "[rank0]: During handling of the above exception, another exception occurred:\n[rank0]: " TRACE
         "[rank0]: OSError: later\n",
         "AssertionError: first"},
        {"[rank1]: " TRACE "[rank1]: KeyError: first\n[rank0]: OSError: peer\n"
         "[rank1]: During handling of the above exception, another exception occurred:\n[rank1]: " TRACE
         "[rank1]: ValueError: last\n",
         "ValueError: last"},
        // Two ranks whose lines are mixed.
        {"KeyError: 1\n" TRACE CAUSE TRACE "RuntimeError: no device\nRuntimeError: no device\n",
         "RuntimeError: no device"},
        {"fatal: no repository\nRuntimeError: worker died\n", "fatal: no repository"},
    };
    char folder[PATH_MAX], path[PATH_MAX], text[256];
    folder_make(folder);
    snprintf(path, sizeof path, "%.3000s/output", folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folder_write(path, rows[i].output, strlen(rows[i].output));
        cr_expect_str_eq(crash_text(path, text, sizeof text), rows[i].reason, "%zu: %s", i, text);
    }
    folder_remove(folder);
}
