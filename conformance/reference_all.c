// SPDX-License-Identifier: Apache-2.0
// All cases of a folder, one after the other.
#include "reference.h"

#include "err.h"
#include "file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_BYTES_MAX = 1 << 24 };

static int read_order(const char *cases, json_t **out)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    json_error_t error;
    TRY(file_join(cases, "order.json", path));
    TRY(file_read_text(path, ORDER_BYTES_MAX, &text, &bytes));
    *out = json_loadb(text, bytes, 0, &error);
    free(text);
    if (!*out)
        return err_set(ERR_USAGE, "%s:%d: %s", path, error.line, error.text);
    bool names = json_is_array(*out);
    for (size_t i = 0; names && i < json_array_size(*out); i++) {
        const char *name = json_string_value(json_array_get(*out, i));
        names = name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < CASE_NAME_BYTES;
    }
    if (names)
        return ERR_NONE;
    json_decref(*out);
    return err_set(ERR_USAGE, "%s: expected a list of the names of folders beside it", path);
}

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
    TRY(read_order(cases, &order));
    size_t count = json_array_size(order);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(order, i));
        if (progress)
            fprintf(stderr, "\r\033[Kcase %zu/%zu  %s", i + 1, count, name);
        if (answer_one(options, cases, answers, world, state, name) == ERR_NONE)
            continue;
        failed++;
        fprintf(stderr, "%szerogauge answer: %s: %s\n", progress ? "\r\033[K" : "", name, err_message());
    }
    if (progress)
        fprintf(stderr, "\r\033[K");
    json_decref(order);
    return failed == 0 ? ERR_NONE : err_set(ERR_CHECK, "%zu of %zu cases have no answer", failed, count);
}
