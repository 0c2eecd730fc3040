// SPDX-License-Identifier: Apache-2.0
#include "base/process/check_folder.h"

#include "base/err.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Removing the folder checks that it is empty and writable.
int check_folder_new(const char *option, const char *path, char out[PATH_MAX])
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_set(ERR_USAGE, "%s %s: cannot be created: %s", option, path, strerror(errno));
    if (!realpath(path, out))
        return err_set(ERR_USAGE, "%s %s: %s", option, path, strerror(errno));
    if (rmdir(out) != 0)
        return err_set(ERR_USAGE, "%s %s: is not an empty folder; remove it or give another", option, path);
    return mkdir(out, 0777) == 0 ? ERR_NONE : err_set(ERR_IO, "%s: %s", out, strerror(errno));
}

int check_folder_temporary(char out[PATH_MAX])
{
    const char *base = getenv("TMPDIR");
    snprintf(out, PATH_MAX, "%s/zerogauge-check-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(out) ? ERR_NONE : err_set(ERR_IO, "%s: cannot be created: %s", out, strerror(errno));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    remove(path);
    return 0;
}

void check_folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
