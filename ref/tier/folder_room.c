// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/folder_room.h"

#include "base/err.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

int folder_open_unnamed(const char *folder, int flags)
{
    int file = open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return file;
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s/zerogauge-XXXXXX", folder) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = mkostemp(name, O_CLOEXEC | flags);
    if (file >= 0)
        unlink(name);
    return file;
}

int folder_check_writable(const char *option, const char *folder)
{
    int file = folder_open_unnamed(folder, 0);
    if (file >= 0)
        close(file);
    if (file >= 0 || errno == EIO)
        return ERR_NONE;
    return err_set(ERR_USAGE, "%s %s: cannot create a file there: %s; give a folder that is writable", option, folder,
                   strerror(errno));
}

// Of the file system, for this user.
static uint64_t free_bytes(int file)
{
    struct statvfs system;
    return fstatvfs(file, &system) == 0 ? (uint64_t)system.f_bavail * system.f_frsize : UINT64_MAX;
}

// Returns why the file cannot have these bytes; 0: it can, or the reason is the device's.
static int refusal(int file, uint64_t bytes)
{
    int failed;
    do
        failed = fallocate(file, 0, 0, (off_t)bytes);
    while (failed != 0 && errno == EINTR);
    int error = failed ? errno : 0;
    if (error == EOPNOTSUPP || error == ENOSYS)
        return free_bytes(file) < bytes ? ENOSPC : 0;
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? error : 0;
}

int folder_check_room(const char *option, const char *folder, uint64_t bytes)
{
    int file = bytes > 0 ? folder_open_unnamed(folder, 0) : -1;
    if (file < 0)
        return ERR_NONE;
    char wanted[SIZE_TEXT_BYTES], room[SIZE_TEXT_BYTES] = "an unknown amount";
    int error = refusal(file, bytes);
    if (free_bytes(file) != UINT64_MAX)
        size_short_text(free_bytes(file), room);
    close(file);
    if (error == 0)
        return ERR_NONE;
    size_short_text(bytes, wanted);
    if (error == EFBIG)
        return err_set(ERR_USAGE, "%s %s: files of %s would exceed a limit there (ulimit -f, or the file system's)",
                       option, folder, wanted);
    return err_set(ERR_USAGE,
                   "%s %s: no space for files of %s (%s, %s free); free some space, or give a folder on a larger disk",
                   option, folder, wanted, strerror(error), room);
}
