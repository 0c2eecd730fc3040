// SPDX-License-Identifier: Apache-2.0
// Cases on meshes are read from their folders: each rank's part of every gradient is the one that was written.
#include "base/err.h"
#include "base/file.h"
#include "base/folder_test.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_values.h"
#include "conformance/suite/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char folder[PATH_MAX];

static void setup(void)
{
    folder_make(folder);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(case_values_read, .init = setup, .fini = teardown);

static void expect_parts(const struct check_case *c, const struct case_values *written, const struct case_values *read,
                         int step, int rank, int use)
{
    size_t count = case_part_count(c, use);
    float *expected = calloc(count + 1, sizeof *expected), *actual = calloc(count + 1, sizeof *actual);
    case_part_gradient(c, written, step, c->accumulation - 1, rank, use, expected);
    case_part_gradient(c, read, step, c->accumulation - 1, rank, use, actual);
    for (size_t i = 0; i < count; i++)
        cr_assert(actual[i] == expected[i] || (isnan(actual[i]) && !isfinite(expected[i])),
                  "%s: step %d, rank %d, %s[%zu] is %g, expected %g", c->name, step, rank, c->params[use].name, i,
                  (double)actual[i], (double)expected[i]);
    free(expected);
    free(actual);
}

// Writes a case and reads its numbers. ERR_USAGE: as case_values_read.
static int read_again(const struct check_case *c, const struct case_values *written, struct case_values **out)
{
    char path[PATH_MAX];
    cr_assert_eq(case_write(c, written, folder), ERR_NONE, "%s", err_message());
    cr_assert_eq(file_join(folder, c->name, path), ERR_NONE);
    return case_values_read(c, path, out);
}

static int visit(void *context, const struct check_case *c)
{
    struct case_values *written, *read;
    int *count = context;
    if (!case_has_mesh(c))
        return ERR_NONE;
    ++*count;
    cr_assert_eq(case_values_open(c, &written), ERR_NONE, "%s", err_message());
    cr_assert_eq(read_again(c, written, &read), ERR_NONE, "%s", err_message());
    for (int step = case_first_step(c); step <= case_last_step(c); step++)
        for (int rank = 0; rank < c->world; rank++)
            for (int use = 0; use < c->param_count; use++)
                if (case_is_used(c, use) && case_holds(c, rank, use))
                    expect_parts(c, written, read, step, rank, use);
    case_values_close(read);
    case_values_close(written);
    return ERR_NONE;
}

Test(case_values_read, parts_of_every_case_on_a_mesh)
{
    int count = 0;
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_QUICK}, visit, &count), ERR_NONE, "%s",
                 err_message());
    cr_assert_gt(count, 100);
}

// A gradient that is whole on each of two tensor ranks, in a file that was changed on the second.
Test(case_values_read, copies_that_differ_are_refused)
{
    struct check_case c = {.name = "copies",
                           .world = 2,
                           .mesh = {1, 1, 2, 1, 1},
                           .steps = 1,
                           .accumulation = 1,
                           .param_count = 1,
                           .group_count = 1};
    struct case_values *written, *read;
    char path[PATH_MAX];
    c.params[0] =
        (struct case_param){.name = "a", .shape = {2}, .shape_rank = 1, .count = 2, .used = true, .tied_to = -1};
    cr_assert_eq(case_values_blank(&c, &written), ERR_NONE);
    case_values_gradient(written, 1, 0, 0, 0)[1] = 3;
    cr_assert_eq(read_again(&c, written, &read), ERR_NONE, "%s", err_message());
    cr_expect_eq(case_gradient(read, 1, 0, 0, 0)[1], 3.0f);
    case_values_close(read);
    snprintf(path, sizeof path, "%.4000s/copies/grads-1.safetensors", folder);
    FILE *file = fopen(path, "r+b");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, -1, SEEK_END), 0);  // in the last element of the last rank
    cr_assert_eq(fputc(0x41, file), 0x41);
    fclose(file);
    char copies[PATH_MAX];
    cr_assert_eq(file_join(folder, "copies", copies), ERR_NONE);
    cr_expect_eq(case_values_read(&c, copies, &read), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "rank 1 has another element 1 of \"a\""), "%s", err_message());
    case_values_close(written);
}
