// SPDX-License-Identifier: Apache-2.0
// A pretended /proc and /sys.
#include "cli/info/health_counters.h"

#include "cli/info/health_nvme.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <math.h>
#include <string.h>

static char root[PATH_MAX], reason[128];

static void put(const char *path, const char *text)
{
    char command[2 * PATH_MAX], file[2 * PATH_MAX];
    snprintf(command, sizeof command, "mkdir -p $(dirname %s%s)", root, path);
    cr_assert_eq(system(command), 0);
    snprintf(file, sizeof file, "%s%s", root, path);
    folder_write(file, text, strlen(text));
}

// Writes the first reason, if there is one.
Test(health_counters, a_system_that_says_nothing_has_no_numbers)
{
    struct health_counters counters;
    folder_make(root);
    health_counters_read(root, &counters);
    for (int i = 0; i < COUNTER_COUNT; i++)
        cr_expect(isnan(counters.values[i]), "%d", i);
    cr_expect_not(health_counters_worse(&counters, &counters, reason, sizeof reason));
    folder_remove(root);
}

Test(health_counters, numbers_of_all_devices_are_combined_and_growth_is_a_reason)
{
    struct health_counters before, after, again;
    folder_make(root);
    put("/proc/interrupts", "           CPU0       CPU1\n NMI:  1  2   Non-maskable\n MCE:          1          2   "
                            "Machine check exceptions\n MCP:         40         41   Machine check polls\n");
    put("/sys/devices/system/edac/mc/mc0/ce_count", "5\n");
    put("/sys/devices/system/edac/mc/mc1/ce_count", "2\n");
    put("/sys/devices/system/edac/mc/mc0/ue_count", "0\n");
    put("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n");
    put("/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "5\n");
    put("/sys/bus/pci/devices/0000:01:00.0/aer_dev_correctable", "RxErr 1\nBadTLP 2\nTOTAL_ERR_COR 3\n");
    put("/sys/bus/pci/devices/0000:01:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 0\n");
    put("/sys/bus/pci/devices/0000:01:00.0/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 1\n");
    put("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "8\n");
    put("/sys/bus/pci/devices/0000:01:00.0/max_link_width", "16\n");
    put("/sys/bus/pci/devices/0000:02:00.0/current_link_width", "0\n");
    put("/sys/bus/pci/devices/0000:02:00.0/max_link_width", "16\n");
    put("/sys/class/hwmon/hwmon0/temp1_input", "45000\n");
    put("/sys/class/hwmon/hwmon0/name", "k10temp\n");
    put("/sys/class/hwmon/hwmon1/temp1_input", "61500\n");
    put("/sys/class/hwmon/hwmon1/name", "nvme\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
    put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
    health_counters_read(root, &before);
    const double expected[COUNTER_COUNT] = {3, 7, 0, 9, 3, 1, 1, NAN, NAN, NAN, NAN, 61.5, 61.5, 2500};
    for (int i = 0; i < COUNTER_COUNT; i++)
        cr_expect(isnan(expected[i]) ? isnan(before.values[i]) : fabs(before.values[i] - expected[i]) < 1e-9, "%d: %g",
                  i, before.values[i]);
    cr_expect_not(health_counters_worse(&before, &before, reason, sizeof reason));
    put("/sys/devices/system/edac/mc/mc1/ce_count", "4\n");
    put("/sys/class/hwmon/hwmon1/temp1_input", "91500\n");
    health_counters_read(root, &after);
    cr_expect(health_counters_worse(&before, &after, reason, sizeof reason));
    cr_expect_str_eq(reason, "corrected memory errors: 2 during the run");
    json_t *object = health_counters_json(&before, &after);
    cr_expect_eq(json_number_value(json_object_get(json_object_get(object, "memory_errors_corrected"), "after")), 9);
    cr_expect_eq(health_counters_from_json(object, &again), ERR_NONE);
    for (int i = 0; i < COUNTER_COUNT; i++)
        cr_expect(isnan(after.values[i]) ? isnan(again.values[i]) : again.values[i] == after.values[i], "%d", i);
    json_object_set_new(object, "thermal_throttles", json_integer(3));
    cr_expect_eq(health_counters_from_json(object, &again), ERR_USAGE);
    cr_expect(strstr(err_message(), "thermal_throttles"), "%s", err_message());
    json_decref(object);
    folder_remove(root);
}

// Two drives' log pages: 3 % used with 258 errors, 90 % spare and 310 K; 101 % with 1, 4 % spare, worn out and too hot
// at 358 K. A third does not report its temperature.
Test(health_counters, drives_report_warnings_errors_wear_spare_and_temperature)
{
    unsigned char first[HEALTH_NVME_LOG_BYTES] = {[1] = 310 & 255, [2] = 310 >> 8, [3] = 90, [5] = 3};
    unsigned char second[HEALTH_NVME_LOG_BYTES] = {[0] = 0x06, [1] = 358 & 255, [2] = 358 >> 8, [3] = 4, [5] = 101};
    const unsigned char third[HEALTH_NVME_LOG_BYTES] = {[3] = 100};
    struct health_nvme drives = {NAN, NAN, NAN, NAN, NAN};
    first[160] = 2;
    first[161] = 1;
    second[160] = 1;
    health_nvme_add(third, &drives);
    cr_expect(isnan(drives.temperature_c));
    health_nvme_add(first, &drives);
    cr_expect(drives.media_errors == 258 && drives.worn_percent == 3 && drives.spare_percent == 90);
    cr_expect(drives.warnings == 0 && drives.temperature_c == 37);
    health_nvme_add(second, &drives);
    cr_expect(drives.media_errors == 259 && drives.worn_percent == 101 && drives.spare_percent == 4);
    cr_expect(drives.warnings == 2 && drives.temperature_c == 85);
}

Test(health_counters, every_counter_that_grew_has_its_reason)
{
    struct health_counters before = {0}, after = {0};
    int worse = 0;
    for (int i = 0; i < COUNTER_COUNT; i++)
        after.values[i] = 2;
    for (int i = 0; i < COUNTER_COUNT; i++) {
        bool is_error = health_counter_error_key((enum health_counter)i) != NULL;
        cr_expect_eq(health_counter_worse((enum health_counter)i, &before, &after, reason, sizeof reason), is_error);
        cr_expect_not(health_counter_worse((enum health_counter)i, &after, &before, reason, sizeof reason));
        worse += is_error;
    }
    cr_expect_eq(worse, COUNTER_NVME_WARNINGS + 1);
}
