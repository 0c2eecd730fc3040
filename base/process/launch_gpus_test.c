// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVML, of two GPUs, gives the process whose id is in the file `holder` 256 MiB on one and 64 on the
// other, once, and none after; and says of every other process that it does not know.
#include "base/err.h"
#include "base/folder_test.h"
#include "base/process/launch.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char stand_in[] =
    "#include <stdio.h>\n"
    "struct holder { unsigned pid; unsigned long long bytes; unsigned gpu, compute; };\n"
    "static int reads;\n"
    "int nvmlInit_v2(void) { return 0; }\n"
    "int nvmlDeviceGetCount_v2(unsigned *out) { return *out = 2, 0; }\n"
    "int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { return *out = (void *)(size_t)(index + 1), 0; }\n"
    "int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct holder *out) {\n"
    "    FILE *file = fopen(\"holder\", \"r\");\n"
    "    *count = 1, out[0] = (struct holder){1, ~0ull, 0, 0};\n"
    "    if (!file || fscanf(file, \"%u\", &out[1].pid) != 1) return 0;\n"
    "    out[1].bytes = reads > 1 ? 0 : device == (void *)1 ? 256ull << 20 : 64ull << 20;\n"
    "    fclose(file), *count = 2;\n"
    "    if (reads++ == 2) fclose(fopen(\"seen\", \"w\"));\n"
    "    return 0; }\n";

static struct launch_result observed(bool counts_sent)
{
    const char *const argv[] = {"sh", "-c", "echo $$ >part; mv part holder; until [ -e seen ]; do sleep 0.02; done",
                                NULL};
    const char *const blind[] = {"sh", "-c", "echo $$ >holder; sleep 0.2", NULL};
    char output[PATH_MAX + 16];
    snprintf(output, sizeof output, "%s/output", own_folder);
    struct launch_setting setting = {
        .argv = counts_sent ? argv : blind, .output_path = output, .time_limit_s = 60, .counts_sent = counts_sent};
    struct launch_result result;
    cr_assert_eq(launch(&setting, &result), ERR_NONE, "%s", err_message());
    cr_expect_eq(result.end, LAUNCH_EXITED, "%s", result.text);
    return result;
}

TestSuite(launch_gpus, .init = folder_enter, .fini = folder_leave);

static void load_stand_in(void)
{
    char path[PATH_MAX + 16];
    folder_write("nvml.c", stand_in, strlen(stand_in));
    cr_assert_eq(system("cc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o nvml.so nvml.c"), 0);
    snprintf(path, sizeof path, "%s/nvml.so", own_folder);
    cr_assert(dlopen(path, RTLD_NOW), "%s", dlerror());
}

Test(launch_gpus, the_most_on_all_gpus_counts_with_the_host)
{
    load_stand_in();
    struct launch_result result = observed(true);
    cr_expect_gt(result.sum_of_peaks_bytes, 320u << 20);
    cr_expect_lt(result.sum_of_peaks_bytes, 352u << 20);
}

Test(launch_gpus, gpus_are_read_where_it_is_asked_alone)
{
    load_stand_in();
    struct launch_result result = observed(false);
    cr_expect_gt(result.sum_of_peaks_bytes, 0);
    cr_expect_lt(result.sum_of_peaks_bytes, 32u << 20);
}
