// SPDX-License-Identifier: Apache-2.0
#include "base/process/check_folder.h"

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define IN_MEMORY_BYTES ((uint64_t)4 << 30)

// False also if it cannot be listed.
static bool is_empty(const char *path)
{
    DIR *folder = opendir(path);
    size_t entries = 0;
    while (folder && readdir(folder))
        entries++;
    if (folder)
        closedir(folder);
    return entries == 2;  // itself and its parent
}

int check_folder_new(const char *option, const char *path, char out[PATH_MAX])
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_set(ERR_USAGE, "%s %s: cannot be created: %s", option, path, strerror(errno));
    if (!realpath(path, out))
        return err_set(ERR_USAGE, "%s %s: %s", option, path, strerror(errno));
    if (!is_empty(out))
        return err_set(ERR_USAGE, "%s %s: is not an empty folder; give a new one", option, path);
    if (access(out, W_OK | X_OK) != 0)
        return err_set(ERR_USAGE, "%s %s: cannot be written to: %s", option, path, strerror(errno));
    return ERR_NONE;
}

// True if files in a folder of memory have room, and can be opened as those of a disk.
static bool takes_files(const char *path)
{
    struct statvfs room;
    int file = open(path, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    close(file);
    return statvfs(path, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize >= IN_MEMORY_BYTES;
}

int check_folder_temporary(bool in_memory, char out[PATH_MAX])
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base)
        base = in_memory && takes_files("/dev/shm") ? "/dev/shm" : "/tmp";
    snprintf(out, PATH_MAX, "%s/zerogauge-check-XXXXXX", base);
    return mkdtemp(out) ? ERR_NONE : err_set(ERR_IO, "%s: cannot be created: %s", out, strerror(errno));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type;
    if (where->level > 0)
        remove(path);
    return 0;
}

void check_folder_clear(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void check_folder_remove(const char *path)
{
    check_folder_clear(path);
    rmdir(path);
}
