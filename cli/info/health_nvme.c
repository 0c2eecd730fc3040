// SPDX-License-Identifier: Apache-2.0
#include "cli/info/health_counters.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/nvme_ioctl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Offsets in the log page.
enum {
    CRITICAL_WARNING = 0,  // one bit for each
    TEMPERATURE = 1,       // two bytes, in kelvins; 0: not reported
    AVAILABLE_SPARE = 3,
    PERCENTAGE_USED = 5,
    MEDIA_ERRORS = 160,
    MEDIA_ERRORS_BYTES = 16,
    KELVINS_OF_0_C = 273,
};

static double sum(double a, double b)
{
    return isnan(a) ? b : a + b;
}

void health_nvme_add(const unsigned char log[HEALTH_NVME_LOG_BYTES], struct health_nvme *out)
{
    double errors = 0;
    double kelvins = log[TEMPERATURE] + 256 * log[TEMPERATURE + 1];
    for (int i = MEDIA_ERRORS_BYTES; i-- > 0;)
        errors = 256 * errors + log[MEDIA_ERRORS + i];
    out->warnings = sum(out->warnings, __builtin_popcount(log[CRITICAL_WARNING]));
    out->media_errors = sum(out->media_errors, errors);
    out->worn_percent = fmax(out->worn_percent, log[PERCENTAGE_USED]);
    out->spare_percent = fmin(out->spare_percent, log[AVAILABLE_SPARE]);
    out->temperature_c = fmax(out->temperature_c, kelvins > 0 ? kelvins - KELVINS_OF_0_C : (double)NAN);
}

static bool get_log(const char *path, unsigned char log[HEALTH_NVME_LOG_BYTES])
{
    enum { GET_LOG_PAGE = 0x02, HEALTH_PAGE = 0x02, DWORDS = HEALTH_NVME_LOG_BYTES / 4 };
    struct nvme_admin_cmd command = {
        .opcode = GET_LOG_PAGE,
        .nsid = UINT32_MAX,
        .addr = (uintptr_t)log,
        .data_len = HEALTH_NVME_LOG_BYTES,
        .cdw10 = HEALTH_PAGE | (uint32_t)(DWORDS - 1) << 16,
    };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool read = fd >= 0 && ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command) == 0;
    if (fd >= 0)
        close(fd);
    return read;
}

// A controller is nvme0; nvme0n1 is a namespace of it.
static bool is_controller(const char *path)
{
    const char *name = strrchr(path, '/') + strlen("/nvme");
    return name[strspn(name, "0123456789")] == '\0';
}

// The first number or word of a file; "" if there is none.
static void read_word(const char *folder, const char *name, char word[32])
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    word[0] = '\0';
    if (file && fscanf(file, "%31s", word) != 1)
        word[0] = '\0';
    if (file)
        fclose(file);
}

// The first sensor of an NVMe drive is the same as the log page's temperature, in thousandths of a degree.
static double sensors(const char *root)
{
    char pattern[PATH_MAX], word[32];
    glob_t found;
    double hottest = NAN;
    snprintf(pattern, sizeof pattern, "%s/sys/class/hwmon/hwmon*", root);
    if (glob(pattern, 0, NULL, &found) != 0)
        return NAN;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        read_word(found.gl_pathv[i], "name", word);
        if (strcmp(word, "nvme") != 0)
            continue;
        read_word(found.gl_pathv[i], "temp1_input", word);
        hottest = fmax(hottest, *word ? strtod(word, NULL) * 1e-3 : NAN);
    }
    globfree(&found);
    return hottest;
}

void health_nvme_read(const char *root, struct health_nvme *out)
{
    char pattern[PATH_MAX];
    glob_t drives;
    *out = (struct health_nvme){NAN, NAN, NAN, NAN, sensors(root)};
    snprintf(pattern, sizeof pattern, "%s/dev/nvme[0-9]*", root);
    if (glob(pattern, 0, NULL, &drives) != 0)
        return;
    for (size_t i = 0; i < drives.gl_pathc; i++) {
        unsigned char log[HEALTH_NVME_LOG_BYTES] = {0};
        if (is_controller(drives.gl_pathv[i]) && get_log(drives.gl_pathv[i], log))
            health_nvme_add(log, out);
    }
    globfree(&drives);
}
