// SPDX-License-Identifier: Apache-2.0
#include "cli/info/health_counters.h"

#include "base/err.h"
#include "base/gpu.h"
#include "base/resources.h"

#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key, *text;
    bool is_count;  // else a value of the moment
} rows[COUNTER_COUNT] = {
    [COUNTER_MACHINE_CHECKS] = {"machine_checks", "machine checks", true},
    [COUNTER_MEMORY_CORRECTED] = {"memory_errors_corrected", "corrected memory errors", true},
    [COUNTER_MEMORY_UNCORRECTED] = {"memory_errors_uncorrected", "uncorrected memory errors", true},
    [COUNTER_THROTTLED] = {"thermal_throttles", "thermal throttling events", true},
    [COUNTER_PCIE_CORRECTED] = {"pcie_errors_corrected", "corrected PCIe errors", true},
    [COUNTER_PCIE_UNCORRECTED] = {"pcie_errors_uncorrected", "uncorrected PCIe errors", true},
    [COUNTER_NARROW_LINKS] = {"pcie_links_narrow", "PCIe links narrower than their device", true},
    [COUNTER_NVME_ERRORS] = {"nvme_media_errors", "errors of NVMe media", true},
    [COUNTER_NVME_WARNINGS] = {"nvme_critical_warnings", "critical warnings of NVMe drives", true},
    [COUNTER_NVME_WORN_PERCENT] = {"nvme_worn_percent", "most worn NVMe drive, percent", false},
    [COUNTER_NVME_SPARE_PERCENT] = {"nvme_spare_percent", "least spare of an NVMe drive, percent", false},
    [COUNTER_NVME_TEMPERATURE_C] = {"nvme_temperature_c", "hottest NVMe drive, degrees C", false},
    [COUNTER_TEMPERATURE_C] = {"temperature_c", "hottest sensor, degrees C", false},
    [COUNTER_FREQUENCY_MHZ] = {"frequency_mhz", "mean frequency, MHz", false},
    [COUNTER_GPU_ECC_CORRECTED] = {"gpu_ecc_corrected", "corrected memory errors of GPUs", true},
    [COUNTER_GPU_ECC_UNCORRECTED] = {"gpu_ecc_uncorrected", "uncorrected memory errors of GPUs", true},
    [COUNTER_GPU_ROWS_REMAPPED] = {"gpu_rows_remapped", "remapped memory rows of GPUs", true},
    [COUNTER_GPU_PCIE_REPLAYS] = {"gpu_pcie_replays", "PCIe replays of GPUs", true},
    [COUNTER_GPU_NVLINK_ERRORS] = {"gpu_nvlink_errors", "NVLink errors", true},
    [COUNTER_GPU_SLOWED] = {"gpus_slowed", "GPUs slowed by heat or power", true},
    [COUNTER_GPU_TEMPERATURE_C] = {"gpu_temperature_c", "hottest GPU, degrees C", false},
    [COUNTER_GPU_POWER_W] = {"gpu_power_w", "power of all GPUs, W", false},
    [COUNTER_GPU_CLOCK_MHZ] = {"gpu_clock_mhz", "lowest clock of a GPU, MHz", false},
};

enum combine { SUM, MEAN, LARGEST };

static bool read_number(const char *path, double *out)
{
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%lf", out) == 1;
    if (file)
        fclose(file);
    return found;
}

// Combines the numbers in all files of the pattern; NAN if there is none.
static double numbers(const char *root, const char *pattern, enum combine combine, double unit)
{
    char path[PATH_MAX];
    glob_t files;
    double sum = 0, largest = -INFINITY, value;
    size_t count = 0;
    snprintf(path, sizeof path, "%s%s", root, pattern);
    if (glob(path, 0, NULL, &files) != 0)
        return NAN;
    for (size_t i = 0; i < files.gl_pathc; i++)
        if (read_number(files.gl_pathv[i], &value)) {
            sum += value;
            largest = value > largest ? value : largest;
            count++;
        }
    globfree(&files);
    return count == 0 ? NAN : unit * (combine == SUM ? sum : combine == MEAN ? sum / (double)count : largest);
}

// The sum of the numbers that follow `word` in lines of the files.
static double words(const char *root, const char *pattern, const char *word)
{
    char path[PATH_MAX], line[16384];
    glob_t files;
    double sum = 0;
    bool found = false;
    snprintf(path, sizeof path, "%s%s", root, pattern);
    if (glob(path, 0, NULL, &files) != 0)
        return NAN;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "re");
        while (file && fgets(line, sizeof line, file)) {
            const char *at = line + strspn(line, " ");
            if (strncmp(at, word, strlen(word)) != 0)
                continue;
            char *end = (char *)(uintptr_t)at + strlen(word);
            for (const char *from = end;; from = end) {
                double value = strtod(from, &end);
                if (end == from)
                    break;
                sum += value;
                found = true;
            }
        }
        if (file)
            fclose(file);
    }
    globfree(&files);
    return found ? sum : NAN;
}

static double narrow_links(const char *root)
{
    char path[PATH_MAX];
    glob_t files;
    double narrow = 0, now, most;
    bool found = false;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/*", root);
    if (glob(path, 0, NULL, &files) != 0)
        return NAN;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        snprintf(path, sizeof path, "%s/current_link_width", files.gl_pathv[i]);
        if (!read_number(path, &now))
            continue;
        snprintf(path, sizeof path, "%s/max_link_width", files.gl_pathv[i]);
        if (!read_number(path, &most))
            continue;
        found = true;
        // 255 and 0: no link, as on devices inside the processor.
        narrow += now > 0 && most < 255 && now < most;
    }
    globfree(&files);
    return found ? narrow : NAN;
}

static void read_gpus(const char *root, double *out)
{
    static const struct {
        enum health_counter counter;
        enum gpu_value value;
    } told[] = {
        {COUNTER_GPU_ECC_CORRECTED, GPU_ECC_CORRECTED}, {COUNTER_GPU_ECC_UNCORRECTED, GPU_ECC_UNCORRECTED},
        {COUNTER_GPU_ROWS_REMAPPED, GPU_ROWS_REMAPPED}, {COUNTER_GPU_PCIE_REPLAYS, GPU_PCIE_REPLAYS},
        {COUNTER_GPU_NVLINK_ERRORS, GPU_NVLINK_ERRORS}, {COUNTER_GPU_SLOWED, GPU_SLOWED},
        {COUNTER_GPU_TEMPERATURE_C, GPU_TEMPERATURE_C}, {COUNTER_GPU_POWER_W, GPU_POWER_W},
        {COUNTER_GPU_CLOCK_MHZ, GPU_CLOCK_MHZ},
    };
    struct gpu gpus[GPU_MAX];
    size_t count = *root ? 0 : gpus_read(gpus);  // a machine of files has none
    for (size_t r = 0; r < sizeof told / sizeof *told; r++) {
        double *total = &out[told[r].counter];
        *total = NAN;
        for (size_t i = 0; i < count; i++) {
            double value = gpus[i].values[told[r].value];
            if (told[r].counter == COUNTER_GPU_TEMPERATURE_C)
                *total = fmax(*total, value);
            else if (told[r].counter == COUNTER_GPU_CLOCK_MHZ)
                *total = fmin(*total, value);
            else if (!isnan(value))
                *total = isnan(*total) ? value : *total + value;
        }
    }
}

void health_counters_read(struct health_counters *out)
{
    char path[PATH_MAX];
    const char *root = resources_path("", path);
    double *v = out->values;
    read_gpus(root, v);
    v[COUNTER_MACHINE_CHECKS] = words(root, "/proc/interrupts", "MCE:");
    v[COUNTER_MEMORY_CORRECTED] = numbers(root, "/sys/devices/system/edac/mc/mc*/ce_count", SUM, 1);
    v[COUNTER_MEMORY_UNCORRECTED] = numbers(root, "/sys/devices/system/edac/mc/mc*/ue_count", SUM, 1);
    v[COUNTER_THROTTLED] = numbers(root, "/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count", SUM, 1);
    v[COUNTER_PCIE_CORRECTED] = words(root, "/sys/bus/pci/devices/*/aer_dev_correctable", "TOTAL_ERR_COR");
    double fatal = words(root, "/sys/bus/pci/devices/*/aer_dev_fatal", "TOTAL_ERR_FATAL");
    double other = words(root, "/sys/bus/pci/devices/*/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL");
    v[COUNTER_PCIE_UNCORRECTED] = isnan(fatal) ? other : isnan(other) ? fatal : fatal + other;
    v[COUNTER_NARROW_LINKS] = narrow_links(root);
    struct health_nvme drives;
    health_nvme_read(root, &drives);
    v[COUNTER_NVME_ERRORS] = drives.media_errors;
    v[COUNTER_NVME_WARNINGS] = drives.warnings;
    v[COUNTER_NVME_WORN_PERCENT] = drives.worn_percent;
    v[COUNTER_NVME_SPARE_PERCENT] = drives.spare_percent;
    v[COUNTER_NVME_TEMPERATURE_C] = drives.temperature_c;
    double chip = numbers(root, "/sys/class/hwmon/hwmon*/temp*_input", LARGEST, 1e-3);
    double zone = numbers(root, "/sys/class/thermal/thermal_zone*/temp", LARGEST, 1e-3);
    v[COUNTER_TEMPERATURE_C] = fmax(chip, zone);
    v[COUNTER_FREQUENCY_MHZ] = numbers(root, "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq", MEAN, 1e-3);
}

void health_counters_keep_most(struct health_counters *most, const struct health_counters *now)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (rows[i].is_count)
            most->values[i] = fmax(most->values[i], now->values[i]);
}

const char *health_counter_error_key(enum health_counter counter)
{
    return rows[counter].is_count ? rows[counter].key : NULL;
}

bool health_counter_worse(enum health_counter counter, const struct health_counters *before,
                          const struct health_counters *after, char *reason, size_t bytes)
{
    double grown = after->values[counter] - before->values[counter];
    if (!rows[counter].is_count || !(grown > 0))
        return false;
    snprintf(reason, bytes, "%s: %.0f during the run", rows[counter].text, grown);
    return true;
}

bool health_counters_worse(const struct health_counters *before, const struct health_counters *after, char *reason,
                           size_t bytes)
{
    char one[160];
    size_t used = 0;
    for (int i = 0; i < COUNTER_COUNT && used < bytes; i++)
        if (health_counter_worse((enum health_counter)i, before, after, one, sizeof one))
            used += (size_t)snprintf(reason + used, bytes - used, "%s%s", used ? "; " : "", one);
    return used > 0;
}

void health_counters_print(const struct health_counters *before, const struct health_counters *after, FILE *out)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (!isnan(after->values[i]))
            fprintf(out, "%s: %.0f before, %.0f after\n", rows[i].text, before->values[i], after->values[i]);
}

static json_t *number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

json_t *health_counters_json(const struct health_counters *before, const struct health_counters *after)
{
    json_t *object = json_object();
    for (int i = 0; i < COUNTER_COUNT; i++)
        json_object_set_new(object, rows[i].key,
                            isnan(after->values[i]) ? json_null()
                                                    : json_pack("{s:o, s:o}", "before", number(before->values[i]),
                                                                "after", number(after->values[i])));
    return object;
}

int health_counters_from_json(const json_t *object, struct health_counters *out)
{
    for (int i = 0; i < COUNTER_COUNT; i++) {
        const json_t *pair = json_object_get(object, rows[i].key), *after = json_object_get(pair, "after");
        bool is_told = pair && !json_is_null(pair);  // not by a system, or an earlier version, that does not count it
        if (is_told && !json_is_number(after))
            return err_set(ERR_USAGE, "counters.%s: expected null or {\"before\": ..., \"after\": NUMBER}",
                           rows[i].key);
        out->values[i] = is_told ? json_number_value(after) : NAN;
    }
    return ERR_NONE;
}
