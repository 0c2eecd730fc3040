// SPDX-License-Identifier: Apache-2.0
#include "bench/storage/gds_files.h"

#include "base/err.h"
#include "base/file.h"
#include "ref/cuda/io_cufile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Replaces the folder's unnamed file by one that has a name while cuFile registers it. Signals are blocked until the
// name is removed.
static int take_named(struct nvme_folder *folder)
{
    char name[PATH_MAX];
    sigset_t all, before;
    TRY(file_join(folder->path, "zerogauge-XXXXXX", name));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code, file = mkostemp(name, O_DIRECT | O_CLOEXEC);
    if (file < 0) {
        code = err_set(ERR_IO, "%s: cannot create a file: %s", folder->path, strerror(errno));
    } else {
        code = io_cufile_keep(file, folder->path);
        unlink(name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != ERR_NONE) {
        if (file >= 0)
            close(file);
        return code;
    }
    close(folder->file);
    folder->file = file;
    return ERR_NONE;
}

// Leaves nothing open after an error.
static int open_file(const char *path, uint64_t bytes, struct nvme_folder *folder)
{
    uint64_t offset;
    TRY(nvme_folder_open(path, false, folder));
    int code = take_named(folder);
    if (code == ERR_NONE) {
        code = nvme_folder_take(folder, NULL, "the benchmark's file", bytes, &offset);
        if (code != ERR_NONE)
            io_cufile_give(folder->file);
    }
    if (code != ERR_NONE)
        nvme_folder_close(folder);
    return code;
}

int gds_files_open(const char *const paths[], int count, uint64_t bytes, struct gds_files *out)
{
    *out = (struct gds_files){0, bytes, calloc((size_t)count, sizeof *out->folders)};
    int code = out->folders ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %d files", count);
    while (code == ERR_NONE && out->count < count) {
        code = open_file(paths[out->count], bytes, &out->folders[out->count]);
        out->count += code == ERR_NONE;
    }
    if (code != ERR_NONE)
        gds_files_close(out);
    return code;
}

void gds_files_close(struct gds_files *files)
{
    for (int i = 0; i < files->count; i++) {
        io_cufile_give(files->folders[i].file);
        nvme_folder_close(&files->folders[i]);
    }
    free(files->folders);
    *files = (struct gds_files){0};
}
