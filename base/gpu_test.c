// SPDX-License-Identifier: Apache-2.0
// What a management library says of GPUs reaches `info`, result files and the judges of counters. The library is
// ci/standin/nvml.c, whose GPUs a file describes.
#include "base/gpu.h"

#include "base/command_test.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEALTHY(gpu, uuid)                                                                                             \
    gpu ".model NVIDIA H100 80GB HBM3\n" gpu ".uuid GPU-" uuid "\n" gpu ".vbios 96.00.5E.00.01\n" gpu ".ecc 1\n" gpu   \
        ".mig 0\n" gpu ".power_limit_mw 700000\n" gpu ".power_default_mw 700000\n" gpu ".clock 345\n" gpu              \
        ".clock_most 1980\n" gpu ".memory_clock_most 2619\n" gpu ".generation 3\n" gpu ".generation_most 5\n" gpu      \
        ".lanes 16\n" gpu ".lanes_most 16\n" gpu ".throttle_reasons 1\n" gpu ".ecc_corrected 7\n" gpu                  \
        ".ecc_uncorrected 0\n" gpu ".rows 1\n" gpu ".replays 2\n" gpu ".nvlink 3\n" gpu ".temperature 41\n" gpu        \
        ".power_mw 71500\n"
#define TWO HEALTHY("0", "5a-first") HEALTHY("1", "5a-second")

static char output[1 << 17];

// Runs `zerogauge COMMAND` with these GPUs; a later line of one name counts. Returns the exit status.
static int run_with(const char *gpus, const char *command)
{
    char folder[PATH_MAX], line[3 * PATH_MAX];
    folder_make(folder);
    snprintf(line, sizeof line, "%s/gpus.txt", folder);
    FILE *file = fopen(line, "w");
    cr_assert(file && fputs(gpus, file) >= 0 && fclose(file) == 0);
    snprintf(line, sizeof line,
             "LD_LIBRARY_PATH='" ZG_BINARY_DIR "/nvml_stand_in' ZG_NVML_STAND_IN=%s/gpus.txt '" ZG_BINARY_DIR
             "/zerogauge' %s 2>&1",
             folder, command);
    int status = command_run(line, output, sizeof output);
    folder_remove(folder);
    return status;
}

static void expect(const char *words)
{
    cr_expect(strstr(output, words), "no \"%s\" in\n%s", words, output);
}

Test(gpu, info_says_what_each_gpu_is_and_names_no_uuid)
{
    cr_assert_eq(run_with(TWO, "info"), 0, "%s", output);
    expect("GPU         NVIDIA H100 80GB HBM3, driver 580.95.05, 700 of 700 W, 1980 MHz at most, ECC on, PCIe 5 x16\n");
    cr_expect_not(strstr(output, "SLOW"), "%s", output);
    cr_assert_eq(run_with(TWO, "info --json"), 0, "%s", output);
    json_t *info = json_loads(output, 0, NULL), *gpus = json_object_get(json_object_get(info, "machine"), "gpus");
    cr_assert_eq(json_array_size(gpus), 2, "%s", output);
    const json_t *first = json_array_get(gpus, 0), *second = json_array_get(gpus, 1);
    const char *ids[] = {json_string_value(json_object_get(first, "id")),
                         json_string_value(json_object_get(second, "id"))};
    cr_assert(ids[0] && ids[1]);
    cr_expect_str_neq(ids[0], ids[1]);
    cr_expect_not(strstr(output, "5a-first"), "a UUID is in %s", output);
    cr_expect_eq(json_number_value(json_object_get(first, "power_limit_w")), 700);
    cr_expect_eq(json_number_value(json_object_get(first, "pcie_generation")), 3);
    cr_expect_eq(json_number_value(json_object_get(first, "memory_clock_most_mhz")), 2619);
    cr_expect_eq(json_number_value(json_object_get(first, "throttle_reasons")), 1, "idle");
    cr_expect(json_is_null(json_object_get(first, "memory_clock_mhz")), "no line says it");
    struct gpu gpu;
    gpu_from_json(second, &gpu);
    cr_expect_eq(gpu.values[GPU_CLOCK_MOST_MHZ], 1980);
    cr_expect_eq(gpu.values[GPU_SLOWED], 0);
    cr_expect(isnan(gpu.values[GPU_MEMORY_CLOCK_MHZ]));
    json_decref(info);
}

Test(gpu, one_below_the_figures_of_its_model_is_named)
{
    static const char *const cases[][2] = {
        {"1.power_limit_mw 400000\n",
         "GPU 1: NVIDIA H100 80GB HBM3 may take 400 W of its 700: nvidia-smi -pl 700 (1 of 2"},
        {"0.throttle_reasons 64\n", "GPU 0: NVIDIA H100 80GB HBM3 is slowed by heat or its power supply"},
        {"1.lanes 8\n", "GPU 1: NVIDIA H100 80GB HBM3 has 8 of its 16 PCIe lanes"},
        {"0.mig 1\n", "GPU 0: NVIDIA H100 80GB HBM3 is partitioned (MIG)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char gpus[2048];
        snprintf(gpus, sizeof gpus, "%s%s", TWO, cases[i][0]);
        cr_expect_eq(run_with(gpus, "train --preset zero1 --model linear --world 1 --steps 1"), 0, "%s", output);
        expect("SLOW: ");
        expect(cases[i][1]);
    }
}

Test(gpu, counts_that_grow_during_a_preflight_fail_it)
{
    static const char *const cases[][2] = {
        {"1.ecc_corrected 7 3\n", "corrected memory errors of GPUs: 3 during the run"},
        {"0.ecc_uncorrected 0 1\n", "uncorrected memory errors of GPUs: 1 during the run"},
        {"0.rows 1 2\n", "remapped memory rows of GPUs: 2 during the run"},
        {"1.replays 2 9\n", "PCIe replays of GPUs: 9 during the run"},
        {"1.nvlink 3 4\n", "NVLink errors: 4 during the run"},
        {"0.throttle_reasons 0 64\n", "GPUs slowed by heat or power: 1 during the run"},
    };
    cr_expect_eq(run_with(TWO, "preflight --seconds 0.1 --json"), 0, "%s", output);
    expect("\"gpu_ecc_corrected\": {\"before\": 14.0, \"after\": 14.0}");
    expect("\"gpu_temperature_c\": {\"before\": 41.0, \"after\": 41.0}");
    expect("\"gpu_power_w\": {\"before\": 143.0, \"after\": 143.0}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char gpus[2048];
        snprintf(gpus, sizeof gpus, "%s%s", TWO, cases[i][0]);
        cr_expect_eq(run_with(gpus, "preflight --seconds 0.1"), 1, "%s", output);
        expect(cases[i][1]);
    }
}

Test(gpu, a_soak_keeps_heat_power_and_clocks)
{
    static const struct {
        const char *key;
        double value;
    } sensors[] = {{"gpu_temperature_c", 55}, {"gpu_power_w", 143}, {"gpu_clock_mhz", 300}};
    cr_expect_eq(run_with(TWO "1.clock 300\n1.temperature 55\n", "soak --hours 1e-9 --json"), 0, "%s", output);
    json_t *report = json_loads(output, 0, NULL), *series = json_object_get(report, "series");
    cr_expect_eq(json_array_size(series), 1, "%s", output);
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        cr_expect_eq(json_number_value(json_object_get(json_array_get(series, 0), sensors[i].key)), sensors[i].value,
                     "%s: %s", sensors[i].key, output);
    json_decref(report);
}

// A soak that goes on from a state keeps its reasons, although nothing grows.
Test(gpu, counts_that_grow_during_a_soak_fail_it_and_those_after_it)
{
    char folder[PATH_MAX], soak[PATH_MAX + 64];
    folder_make(folder);
    snprintf(soak, sizeof soak, "soak --hours 1e-9 --state %s/state", folder);
    cr_expect_eq(run_with(TWO, soak), 0, "%s", output);
    expect("\nevery result was the same on every core\n");
    cr_expect_eq(run_with(TWO "0.ecc_uncorrected 0 2\n1.nvlink 3 4\n", soak), 1, "%s", output);
    for (int after = 0; after < 2; after++) {
        const char *said = strstr(output, "\nFAIL   counters of host ");
        cr_expect(said && strstr(said, ": uncorrected memory errors of GPUs: "), "%s", output);
        cr_expect(said && strstr(said, "; NVLink errors: "), "%s", output);
        cr_expect(said && !strstr(said, " corrected memory errors of GPUs: "), "%s", output);
        expect("\nevery result was the same on every core, but the hardware counted errors\n");
        cr_expect_eq(run_with(TWO, soak), 1, "%s", output);
    }
    folder_remove(folder);
}

// Of two GPUs with these lines, whose first is at 0000:3b:00.
static void expect_links(const char *lines, double gb_per_s, int links)
{
    char path[] = "/tmp/zg-gpus-XXXXXX";
    int file = mkstemp(path), found;
    cr_assert(file >= 0 && dprintf(file, "0.model A\n1.model B\n%s", lines) > 0 && close(file) == 0);
    setenv("ZG_NVML_STAND_IN", path, 1);
    double rate = gpu_nvlink_gb_per_s("0000:3b:00", "0000:3c:00", &found);
    unlink(path);
    cr_expect(isnan(gb_per_s) ? isnan(rate) : fabs(rate - gb_per_s) < 1e-9, "%g GB/s of\n%s", rate, lines);
    cr_expect(!(gb_per_s > 0) || found == links, "%d links of\n%s", found, lines);
}

#define DIRECT "0.link0 gpu 1\n0.link1 gpu 1\n0.link2 gpu 1\n1.link3 gpu 0\n1.link5 gpu 0\n1.link17 gpu 0\n"
#define SWITCHED "0.link0 switch\n0.link1 switch\n0.link2 switch\n1.link0 switch\n1.link1 switch\n1.link2 switch\n"
#define SPEED "0.links_mb_per_s 26562\n1.links_mb_per_s 26562\n"

Test(gpu, nvlinks_between_two_gpus_carry_what_the_active_of_them_do)
{
    // Under its name it is found again.
    cr_assert_not_null(dlopen(ZG_BINARY_DIR "/nvml_stand_in/libnvidia-ml.so.1", RTLD_NOW), "%s", dlerror());
    expect_links(DIRECT SPEED, 3 * 26.562, 3);
    expect_links(DIRECT SPEED "0.link1 gpu 1 off\n1.link5 gpu 0 off\n", 2 * 26.562, 2);
    expect_links(DIRECT
                 "0.link0_mb_per_s 25000\n0.link1_mb_per_s 25000\n0.link2_mb_per_s 20000\n1.links_mb_per_s 25000\n",
                 70, 3);
    expect_links(DIRECT "0.link3 gpu 2\n1.link4 switch\n" SPEED, 3 * 26.562, 3);
    expect_links(SWITCHED SPEED, 3 * 26.562, 3);
    expect_links(SWITCHED SPEED "1.link1 switch off\n", 2 * 26.562, 2);
    expect_links(SWITCHED SPEED "0.link0 switch off\n", 2 * 26.562, 2);
    expect_links("0.link0 gpu 2\n1.link0 gpu 2\n" SPEED, 0, 0);
    expect_links("0.link0 gpu 1 off\n1.link0 gpu 0 off\n" SPEED, 0, 0);
    expect_links("", 0, 0);
}

Test(gpu, nvlinks_of_which_the_library_does_not_tell_are_unknown)
{
    int links;
    cr_assert_not_null(dlopen(ZG_BINARY_DIR "/nvml_stand_in/libnvidia-ml.so.1", RTLD_NOW), "%s", dlerror());
    expect_links(DIRECT, (double)NAN, 0);                                   // no speed
    expect_links(DIRECT "0.links_mb_per_s 26562\n", (double)NAN, 0);        // of one
    expect_links("0.link0 untold\n1.link0 gpu 0\n" SPEED, (double)NAN, 0);  // no far end
    cr_expect(isnan(gpu_nvlink_gb_per_s("0000:3b:00", "0000:3e:00", &links)), "there is no such GPU");
}
