// SPDX-License-Identifier: Apache-2.0
// Files to print into.
#include "base/file.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_create(const char *path, FILE **out)
{
    if (!(*out = fopen(path, "wxe")))
        return err_set(ERR_USAGE, "%s: %s", path,
                       errno == EEXIST ? "exists; give another name, or remove it" : strerror(errno));
    return ERR_NONE;
}

int file_flush(FILE *out, const char *what)
{
    if (fflush(out) != 0)
        return err_set(ERR_IO, "%s could not be written completely: %s", what, strerror(errno));
    return ferror(out) ? err_set(ERR_IO, "%s could not be written completely", what) : ERR_NONE;
}

int file_finish(FILE *out, const char *path, int rc)
{
    if (rc == ERR_NONE)
        rc = file_flush(out, path);
    if (fclose(out) != 0 && rc == ERR_NONE)
        rc = err_set(ERR_IO, "%s could not be written completely: %s", path, strerror(errno));
    if (rc != ERR_NONE)
        unlink(path);
    return rc;
}

int file_check_replaced(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0 || S_ISREG(status.st_mode))
        return ERR_NONE;
    return err_set(ERR_USAGE, "%s: is %s, which is never written to; give another name", path,
                   S_ISLNK(status.st_mode)   ? "a symbolic link"
                   : S_ISDIR(status.st_mode) ? "a folder"
                                             : "not a regular file");
}

// The suffix differs between processes and calls, so that two runs with one output do not share a file.
static int open_partial(struct file_output *out)
{
    if (asprintf(&out->partial, "%s.%d-%" PRIx64 ".partial", out->path, (int)getpid(), clock_now_ns()) < 0) {
        out->partial = NULL;
        return err_set(ERR_MEMORY, "no memory to write %s", out->path);
    }
    if (!(out->out = fopen(out->partial, "wxe")))
        return err_set(ERR_USAGE, "%s: cannot be created: %s", out->path, strerror(errno));
    return ERR_NONE;
}

int file_output_open(const char *path, struct file_output *out)
{
    *out = (struct file_output){.path = path};
    TRY(file_check_replaced(path));
    int rc = open_partial(out);
    if (rc != ERR_NONE) {
        free(out->partial);
        out->partial = NULL;
    }
    return rc;
}

int file_output_close(struct file_output *out, int rc)
{
    if (rc == ERR_NONE)
        rc = file_flush(out->out, out->path);
    if (fclose(out->out) != 0 && rc == ERR_NONE)
        rc = err_set(ERR_IO, "%s could not be written completely: %s", out->path, strerror(errno));
    if (rc == ERR_NONE && rename(out->partial, out->path) != 0)
        rc = err_set(ERR_IO, "%s: cannot be put into its place: %s", out->path, strerror(errno));
    if (rc != ERR_NONE)
        unlink(out->partial);
    free(out->partial);
    *out = (struct file_output){0};
    return rc;
}
