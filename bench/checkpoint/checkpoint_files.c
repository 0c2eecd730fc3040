// SPDX-License-Identifier: Apache-2.0
#include "bench/checkpoint/checkpoint_case.h"

#include "base/err.h"
#include "base/process/interrupt.h"
#include "bench/harness/fio.h"
#include "ref/checkpoint/checkpoint.h"
#include "ref/model/names/model_find.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int list(const struct checkpoint *checkpoint, struct checkpoint_files *out)
{
    const struct manifest *manifest = checkpoint_manifest(checkpoint);
    char name[RANK_NAME_BYTES];
    out->files = calloc(manifest->file_count, sizeof *out->files);
    if (!out->files)
        return err_set(ERR_MEMORY, "no memory for %zu files", manifest->file_count);
    for (size_t i = 0; i < manifest->file_count; i++) {
        TRY(file_join(checkpoint_path(checkpoint), checkpoint_rank_name(i, name), out->files[i].path));
        out->files[i].bytes = manifest->files[i].bytes;
        out->total_bytes += manifest->files[i].bytes;
        out->count++;
    }
    return ERR_NONE;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    interrupted = signal_number;
}

int checkpoint_check_interrupt(void)
{
    return interrupted ? err_set(ERR_IO, "interrupted by signal %d", (int)interrupted) : ERR_NONE;
}

int checkpoint_model_find(const char *name, bool quick, const struct model **out)
{
    const char *usual = quick ? "gpt:layers=4,width=256,heads=4" : "gpt:layers=20,width=512,heads=8";
    return model_find(name ? name : usual, out);
}

int checkpoint_folder_make(const struct bench_storage *storage, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/zerogauge-checkpoint-XXXXXX", storage->paths[0]) >= PATH_MAX)
        return err_set(ERR_USAGE, "--nvme-path: is too long");
    if (!mkdtemp(out))
        return err_set(ERR_IO, "%s: no folder can be created in it", storage->paths[0]);
    interrupt_watch(interrupt);
    return ERR_NONE;
}

int checkpoint_files_open(const char *store, struct checkpoint_files *out)
{
    char notes[NOTES_BYTES];
    struct checkpoint *checkpoint;
    *out = (struct checkpoint_files){0};
    TRY(checkpoint_open(store, &checkpoint, notes));
    if (!checkpoint)
        return err_set(ERR_USAGE, "%s: has no checkpoint", store);
    int code = list(checkpoint, out);
    checkpoint_close(checkpoint);
    return code;
}

void checkpoint_files_close(struct checkpoint_files *files)
{
    free(files->files);
    *files = (struct checkpoint_files){0};
}

// *bytes: of the file's pages that are in memory.
static int count_resident(const struct checkpoint_file *file, int fd, uint64_t *bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = (file->bytes + page_bytes - 1) / page_bytes;
    unsigned char *resident = malloc(pages + 1);
    void *memory = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, fd, 0);
    int code = !resident || memory == MAP_FAILED || mincore(memory, file->bytes, resident) != 0
                   ? err_set(ERR_IO, "%s: its pages in memory cannot be counted: %s", file->path, strerror(errno))
                   : ERR_NONE;
    *bytes = 0;
    for (size_t i = 0; i < pages && code == ERR_NONE; i++)
        *bytes += resident[i] & 1 ? page_bytes : 0;
    if (memory != MAP_FAILED)
        munmap(memory, file->bytes);
    free(resident);
    return code;
}

int checkpoint_files_drop(const struct checkpoint_files *files, uint64_t *resident_bytes)
{
    *resident_bytes = 0;
    for (int i = 0; i < files->count; i++) {
        const struct checkpoint_file *file = &files->files[i];
        uint64_t bytes = 0;
        int fd;
        TRY(file_open_at(AT_FDCWD, file->path, file->path, &fd));
        int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        int code = error ? err_set(ERR_IO, "%s: its pages cannot be dropped: %s", file->path, strerror(error))
                         : count_resident(file, fd, &bytes);
        close(fd);
        TRY(code);
        *resident_bytes += bytes;
    }
    return ERR_NONE;
}

// fio takes a colon for the end of a file's name unless a backslash precedes it.
static char *name_option(const char *path)
{
    char *option = malloc(sizeof "--filename=" + 2 * strlen(path)), *to = option;
    if (!option)
        return NULL;
    to = stpcpy(to, "--filename=");
    for (const char *from = path; *from; from++) {
        if (*from == ':' || *from == '\\')
            *to++ = '\\';
        *to++ = *from;
    }
    *to = '\0';
    return option;
}

// Runs fio with a job for each file. folder: where it writes; null: it reads the files.
static int run_fio(const struct checkpoint_files *files, const char *folder, double *bytes_per_ns)
{
    // As a checkpoint is written (ref/checkpoint/safetensors_write.c): a process's own writes, through the page cache.
    static const char *const shared[] = {"fio",
                                         "--ioengine=psync",
                                         "--direct=0",
                                         "--thread",
                                         "--end_fsync=1",
                                         "--group_reporting",
                                         "--fallocate=none",
                                         "--unlink=0",
                                         "--output-format=json"};
    enum { SHARED_COUNT = sizeof shared / sizeof *shared, OF_FILE = 6, BLOCK_BYTES = 1 << 20 };
    size_t count = 0, room = SHARED_COUNT + OF_FILE * (size_t)files->count + 1;
    char **arguments = calloc(room, sizeof *arguments);
    int code = arguments ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the command of fio");
    for (; arguments && count < SHARED_COUNT; count++)
        arguments[count] = strdup(shared[count]);
    for (int i = 0; i < files->count && code == ERR_NONE; i++) {
        char text[PATH_MAX + 32];
        snprintf(text, sizeof text, "--name=rank-%d", i);
        arguments[count++] = strdup(text);
        arguments[count++] = strdup(folder ? "--rw=write" : "--rw=read");
        arguments[count++] = strdup(folder ? "--allow_file_create=1" : "--allow_file_create=0");
        unsigned long long bytes = files->files[i].bytes;
        snprintf(text, sizeof text, "--size=%llu", bytes);
        arguments[count++] = strdup(text);
        snprintf(text, sizeof text, "--bs=%llu", bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES);
        arguments[count++] = strdup(text);
        snprintf(text, sizeof text, "%s/fio-%d", folder ? folder : "", i);
        if (folder)
            unlink(text);
        arguments[count++] = name_option(folder ? text : files->files[i].path);
    }
    for (size_t i = 0; i < count && code == ERR_NONE; i++)
        code = arguments[i] ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the command of fio");
    if (code == ERR_NONE)
        code = fio_rate(arguments, bytes_per_ns);
    for (size_t i = 0; i < count; i++)
        free(arguments[i]);
    free(arguments);
    return code;
}

int checkpoint_files_fio_read(const struct checkpoint_files *files, double *bytes_per_ns)
{
    return run_fio(files, NULL, bytes_per_ns);
}

int checkpoint_files_fio_write(const struct checkpoint_files *files, const char *folder, double *bytes_per_ns)
{
    return run_fio(files, folder, bytes_per_ns);
}
