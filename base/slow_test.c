// SPDX-License-Identifier: Apache-2.0
// Each reason, provoked; and none where nothing is wrong.
#include "base/slow.h"

#include "base/command_test.h"
#include "base/pretended_test.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM ZG_BINARY_DIR "/zerogauge"

static bool is_said(const char *words)
{
    char reasons[SLOW_MAX][SLOW_BYTES];
    size_t count = slow_reasons(reasons);
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found |= strstr(reasons[i], words) != NULL;
    return found;
}

Test(slow, a_governor_that_keeps_the_clock_low_is_a_reason_unless_its_driver_raises_it)
{
    static const char folder[] = "sys/devices/system/cpu/cpu0/cpufreq/";
    char root[PATH_MAX], governor[128], driver[128];
    folder_make(root);
    pretended_machine(root, "pack:1 core:2 pu:1", 1000);
    snprintf(governor, sizeof governor, "%sscaling_governor", folder);
    snprintf(driver, sizeof driver, "%sscaling_driver", folder);
    cr_expect_not(is_said("governor"));
    pretended_file(root, governor, "powersave\n");
    cr_expect(is_said("cpupower frequency-set -g performance"));
    pretended_file(root, driver, "intel_pstate\n");
    cr_expect_not(is_said("governor"));
    pretended_file(root, driver, "acpi-cpufreq\n");
    cr_expect(is_said("governor"));
    pretended_file(root, governor, "schedutil\n");
    cr_expect_not(is_said("governor"));
    folder_remove(root);
}

Test(slow, a_tracer_and_valgrind_and_a_limit_of_onednn_are_reasons)
{
    char root[PATH_MAX];
    folder_make(root);
    pretended_machine(root, "pack:1 core:2 pu:1", 1000);
    pretended_file(root, "proc/self/status", "Name: x\nTracerPid:\t4711\n");
    cr_expect(is_said("process 4711, a debugger"));
    pretended_file(root, "proc/self/status", "TracerPid:\t0\n");
    cr_expect_not(is_said("debugger"));
    setenv("LD_PRELOAD", "/usr/libexec/valgrind/vgpreload_core-amd64-linux.so", 1);
    cr_expect(is_said("valgrind"));
    unsetenv("LD_PRELOAD");
    cr_expect_not(is_said("valgrind"));
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    cr_expect(is_said("not use more than SSE41"));
    setenv("ONEDNN_MAX_CPU_ISA", "ALL", 1);
    cr_expect_not(is_said("oneDNN"));
    folder_remove(root);
}

Test(slow, a_build_without_optimization_is_a_reason)
{
#ifdef __OPTIMIZE__
    cr_expect_not(is_said("without optimization"));
#endif
}

// It is the first line that a user sees.
Test(slow, train_says_it_first)
{
    char output[1 << 14];
    int status =
        command_run("ONEDNN_MAX_CPU_ISA=SSE41 '" PROGRAM "' train --preset zero1 --model linear --steps 1 2>&1", output,
                    sizeof output);
    cr_expect_eq(status, 0, "%s", output);
    cr_expect(strncmp(output, "SLOW: oneDNN may not use more than SSE41", 40) == 0 || strstr(output, "\nSLOW: oneDNN"),
              "%s", output);
}
