// SPDX-License-Identifier: Apache-2.0
// OpenBLAS is loaded by what multiplies matrices and by nothing else.
#include "base/openblas.h"

#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/model/model.h"

#include <criterion/criterion.h>

#include <cblas.h>
#include <stdio.h>
#include <string.h>

static bool is_mapped(void)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, "libopenblas") != NULL;
    fclose(maps);
    return found;
}

static void open_run(const char *name)
{
    const struct model *model;
    struct model_run *run;
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", err_message());
    cr_assert_eq(model_run_open(model, 1, DTYPE_FP32, false, NULL, &run), ERR_NONE, "%s", err_message());
    model_run_close(run);
}

Test(openblas, a_gpt_loads_it_and_a_linear_model_does_not)
{
    open_run("linear");
    cr_assert_not(is_mapped());
    open_run("gpt-nano");
    cr_assert(is_mapped());
    cr_assert_eq(openblas_get_num_threads(), 1);
}

Test(openblas, a_function_that_describes_it_loads_it)
{
    cr_assert_eq(strncmp(openblas_get_config(), "OpenBLAS ", 9), 0, "%s", openblas_get_config());
    cr_assert(is_mapped());
    cr_assert_eq(openblas_load(), ERR_NONE);
}

Test(openblas, products_are_its_own)
{
    static const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, -1, 2, 0.5f, 0, 4};
    static const float expected[] = {5, 12, 14, 22.5f};
    float c[4];
    cr_assert_eq(matmul_prepare(), ERR_NONE, "%s", err_message());
    matmul(2, 2, 3, 1, (struct matmul_operand){a, 3, false}, (struct matmul_operand){b, 2, false}, 0, c, 2);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(c[i], expected[i], "%d: %g", i, c[i]);
}
