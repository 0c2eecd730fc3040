// SPDX-License-Identifier: Apache-2.0
// Any text as case.json: it is refused with a message that begins with the file's name, or what is written of it is
// read again to the same.
#include "conformance/cases/case.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The numbers of a case are not read here.
const float *case_initial(const struct case_values *values, int param)
{
    (void)values, (void)param;
    return NULL;
}

const float *case_gradient(const struct case_values *values, int step, int micro, int rank, int param)
{
    (void)values, (void)step, (void)micro, (void)rank, (void)param;
    return NULL;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct check_case c, again;
    if (case_parse("fuzz", (const char *)data, size, &c) != ERR_NONE) {
        if (strncmp(err_message(), "fuzz:", 5) != 0)
            abort();
        return 0;
    }
    char *text;
    size_t bytes;
    if (case_first_step(&c) > case_last_step(&c) || case_text(&c, &text, &bytes) != ERR_NONE)
        abort();
    if (case_parse("again", text, bytes, &again) != ERR_NONE || memcmp(&c, &again, sizeof c) != 0) {
        fprintf(stderr, "%s\n%s\n", err_message(), text);
        abort();
    }
    free(text);
    return 0;
}
