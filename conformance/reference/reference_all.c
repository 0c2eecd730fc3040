// SPDX-License-Identifier: Apache-2.0
// All cases of a folder, one after the other.
#include "conformance/reference/reference.h"

#include "conformance/cases/case_folders.h"
#include "base/err.h"
#include "base/file.h"
#include "base/terminal.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int answer_one(const struct reference_options *options, const char *cases, const char *answers, int world,
                      const char *state, const char *name)
{
    char folder[PATH_MAX], answer[PATH_MAX];
    TRY(file_join(cases, name, folder));
    TRY(file_join(answers, name, answer));
    return reference_answer(options, folder, answer, world, state);
}

int reference_answer_all(const struct reference_options *options, const char *cases, const char *answers, int world,
                         const char *state, bool progress)
{
    json_t *order;
    size_t failed = 0;
    TRY(case_order_of_world(cases, world, &order));
    size_t count = json_array_size(order);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(order, i));
        if (options->interrupted && *options->interrupted) {
            json_decref(order);
            return err_set(ERR_USAGE, "interrupted");
        }
        if (progress)
            terminal_progress("case %zu/%zu  %s", i + 1, count, name);
        int rc = answer_one(options, cases, answers, world, state, name);
        if (rc == ERR_NONE)
            continue;
        failed++;
        if (progress)
            terminal_progress("%s", "");
        fprintf(stderr, "zerogauge answer: %s: %s\n", name, err_message());
        // An error ends the communication between processes.
        if (options->comm)
            break;
    }
    if (progress)
        terminal_progress("%s", "");
    json_decref(order);
    if (failed > 0 && options->comm)
        return err_set(ERR_CHECK, "the ranks stop at the first case without an answer");
    return failed == 0 ? ERR_NONE : err_set(ERR_CHECK, "%zu of %zu cases have no answer", failed, count);
}
