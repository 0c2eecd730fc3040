// SPDX-License-Identifier: Apache-2.0
#include "info/health_nvme.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/nvme_ioctl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Offsets in the log page.
enum { PERCENTAGE_USED = 5, MEDIA_ERRORS = 160, MEDIA_ERRORS_BYTES = 16 };

void health_nvme_add(const unsigned char log[HEALTH_NVME_LOG_BYTES], struct health_nvme *out)
{
    double errors = 0, worn = log[PERCENTAGE_USED];
    for (int i = MEDIA_ERRORS_BYTES; i-- > 0;)
        errors = 256 * errors + log[MEDIA_ERRORS + i];
    out->media_errors = isnan(out->media_errors) ? errors : out->media_errors + errors;
    out->worn_percent = fmax(out->worn_percent, worn);
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

void health_nvme_read(const char *root, struct health_nvme *out)
{
    char pattern[PATH_MAX];
    glob_t drives;
    *out = (struct health_nvme){NAN, NAN};
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
