// SPDX-License-Identifier: Apache-2.0
// Files to print into.
#include "base/file.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int file_flush(FILE *out, const char *what)
{
    if (fflush(out) != 0)
        return err_set(ERR_IO, "%s could not be written completely: %s", what, strerror(errno));
    return ferror(out) ? err_set(ERR_IO, "%s could not be written completely", what) : ERR_NONE;
}

// The suffix differs between processes and calls, so that two runs with one output do not share a file.
static int open_partial(struct file_output *out)
{
    if (asprintf(&out->partial, "%s.%d-%" PRIx64 ".partial", out->path, (int)getpid(), clock_now_ns()) < 0) {
        out->partial = NULL;
        return err_set(ERR_MEMORY, "no memory to write %s", out->path);
    }
    return file_create_stream(out->partial, out->path, &out->out);
}

int file_output_open(const char *path, enum file_output_kind kind, struct file_output *out)
{
    *out = (struct file_output){.path = path, .kind = kind};
    TRY(file_check_output(path, kind));
    int rc = open_partial(out);
    if (rc != ERR_NONE) {
        free(out->partial);
        out->partial = NULL;
    }
    return rc;
}

// A link never replaces; a file system without links is asked first.
static int put_into_place(const struct file_output *out)
{
    if (out->kind == FILE_NEW && link(out->partial, out->path) == 0) {
        unlink(out->partial);
        return ERR_NONE;
    }
    TRY(file_check_output(out->path, out->kind));
    return rename(out->partial, out->path) == 0
               ? ERR_NONE
               : err_set(ERR_IO, "%s: cannot be put into its place: %s", out->path, strerror(errno));
}

int file_output_close(struct file_output *out, int rc)
{
    if (rc == ERR_NONE)
        rc = file_flush(out->out, out->path);
    if (fclose(out->out) != 0 && rc == ERR_NONE)
        rc = err_set(ERR_IO, "%s could not be written completely: %s", out->path, strerror(errno));
    if (rc == ERR_NONE)
        rc = put_into_place(out);
    if (rc != ERR_NONE)
        unlink(out->partial);
    free(out->partial);
    *out = (struct file_output){0};
    return rc;
}
