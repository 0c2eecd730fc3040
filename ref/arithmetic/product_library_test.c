// SPDX-License-Identifier: Apache-2.0
// A library that takes kernels for an older processor gets the name of the right ones before it is loaded again.
#include "base/command_test.h"
#include "ref/arithmetic/isa.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define INFO "LD_LIBRARY_PATH='" ZG_BINARY_DIR "/openblas_stand_in' '" ZG_BINARY_DIR "/zerogauge' info 2>&1"

static void expect_line(const char *command, const char *expected)
{
    static char output[1 << 16];
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect(strstr(output, expected), "%s: no \"%s\" in\n%s", command, expected, output);
}

#ifndef __aarch64__
Test(product_library, an_openblas_that_does_not_know_the_processor_gets_the_right_core)
{
    static const char *const cores[] = {"Prescott\n", "Haswell, ", "SkylakeX, "};
    char expected[64];
    snprintf(expected, sizeof expected, "OpenBLAS 0.3.21, kernels for %s", cores[isa_best()]);
    expect_line("unset OPENBLAS_CORETYPE; " INFO, expected);
}

Test(product_library, the_users_choice_of_a_core_stays)
{
    expect_line("OPENBLAS_CORETYPE=Nehalem " INFO, "kernels for Nehalem\n");
}
#endif
