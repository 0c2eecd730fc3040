// SPDX-License-Identifier: Apache-2.0
#include "base/array.h"
#include "base/process/launch_watch.h"

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAT_BYTES = 1024, DEPTH_MAX = 32 };

// The text of /proc/PID/stat; false: the process is gone.
static bool read_stat(int proc_fd, const char *pid, char text[STAT_BYTES])
{
    char path[32];
    snprintf(path, sizeof path, "%.16s/stat", pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t bytes = read(fd, text, STAT_BYTES - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0;
}

// Parses "PID (COMMAND) STATE PARENT ...": the command may contain any characters, also blanks and parentheses; field
// 24 is the number of resident pages.
static bool parse_stat(const char *text, struct process *out)
{
    int pid, parent, group;
    long pages;
    const char *rest = strrchr(text, ')');
    if (!rest || sscanf(text, "%d", &pid) != 1 ||
        sscanf(rest + 1, " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld",
               &out->state, &parent, &group, &pages) != 4)
        return false;
    out->pid = pid;
    out->parent = parent;
    out->group = group;
    out->resident_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    out->ours = false;
    return true;
}

static int add_process(struct process_list *out, const struct process *process)
{
    TRY(array_grow(&out->list, &out->room, out->count, sizeof *out->list, "processes"));
    out->list[out->count++] = *process;
    return ERR_NONE;
}

int process_scan(struct process_list *out)
{
    char text[STAT_BYTES];
    struct process process;
    int rc = ERR_NONE;
    out->count = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return err_set(ERR_IO, "/proc: cannot be opened: %s", strerror(errno));
    for (struct dirent *entry; rc == ERR_NONE && (entry = readdir(proc));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && read_stat(dirfd(proc), entry->d_name, text) &&
            parse_stat(text, &process))
            rc = add_process(out, &process);
    closedir(proc);
    return rc;
}

void process_keep_children(struct process_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].parent == getpid())
            list->list[kept++] = list->list[i];
    list->count = kept;
}

// The children of one thread, from /proc/self/task/THREAD/children.
static int add_children(int tasks_fd, const char *thread, struct process_list *out)
{
    char path[64];
    int pid, rc = ERR_NONE;
    snprintf(path, sizeof path, "%.16s/children", thread);
    int fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file)
        return ERR_NONE;  // the thread has ended; its children are another's
    while (rc == ERR_NONE && fscanf(file, "%d", &pid) == 1)
        rc = add_process(out, &(struct process){.pid = pid, .parent = getpid()});
    fclose(file);
    return rc;
}

int process_children(struct process_list *out)
{
    int rc = ERR_NONE;
    out->count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return err_set(ERR_IO, "/proc/self/task: cannot be opened: %s", strerror(errno));
    for (struct dirent *entry; rc == ERR_NONE && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            rc = add_children(dirfd(tasks), entry->d_name, out);
    closedir(tasks);
    return rc;
}

void process_list_free(struct process_list *list)
{
    free(list->list);
    *list = (struct process_list){0};
}

struct process *process_find(const struct process_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].pid == pid)
            return &list->list[i];
    return NULL;
}

void process_mark(struct process_list *list, pid_t leader, const struct process_list *before)
{
    pid_t self = getpid();
    for (size_t i = 0; i < list->count; i++) {
        struct process *process = &list->list[i];
        process->ours = process->pid == leader || process->group == leader ||
                        (process->parent == self && !process_find(before, process->pid));
    }
    for (bool found = true; found;) {
        found = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process *process = &list->list[i];
            const struct process *parent = process->ours ? NULL : process_find(list, process->parent);
            if (parent && parent->ours)
                process->ours = found = true;
        }
    }
}

uint64_t process_memory(const struct process_list *list)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < list->count; i++)
        bytes += list->list[i].ours ? list->list[i].resident_bytes : 0;
    return bytes;
}

uint64_t process_peak(pid_t pid)
{
    char path[64], line[128];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %llu", &kib) != 1)
            kib = 0;
    if (file)
        fclose(file);
    return kib * 1024;
}

int process_peak_restart(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "we");
    bool written = file && fputs("5", file) >= 0;
    if (file)
        written = fclose(file) == 0 && written;
    return written ? ERR_NONE : err_set(ERR_IO, "cannot write /proc/self/clear_refs: %s", strerror(errno));
}

int process_peaks_add(struct process_list *peaks, const struct process_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].ours && !process_find(peaks, list->list[i].pid))
            TRY(add_process(peaks, &(struct process){.pid = list->list[i].pid}));
    return ERR_NONE;
}

uint64_t process_peaks_read(struct process_list *peaks)
{
    uint64_t sum_bytes = 0;
    for (size_t i = 0; i < peaks->count; i++) {
        uint64_t peak_bytes = process_peak(peaks->list[i].pid);
        if (peak_bytes > peaks->list[i].resident_bytes)
            peaks->list[i].resident_bytes = peak_bytes;
        sum_bytes += peaks->list[i].resident_bytes + peaks->list[i].device_bytes;
    }
    return sum_bytes;
}

// The size of an open folder's contents; closes fd. Entries that vanish meanwhile do not count.
static uint64_t weigh(int fd, dev_t device, int depth)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return 0;
    }
    uint64_t sum = 0;
    for (struct dirent *entry; sum != UINT64_MAX && (entry = readdir(folder));) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_dev != device)
            continue;
        uint64_t bytes = S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
        if (S_ISDIR(status.st_mode)) {
            int inner = -1;
            if (depth == DEPTH_MAX)
                bytes = UINT64_MAX;
            else if ((inner = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >= 0)
                bytes = weigh(inner, device, depth + 1);
        }
        if (__builtin_add_overflow(sum, bytes, &sum) || __builtin_add_overflow(sum, FOLDER_NAME_WEIGHT_BYTES, &sum))
            sum = UINT64_MAX;
    }
    closedir(folder);
    return sum;
}

uint64_t folder_weight(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) != 0) {
        close(fd);
        return 0;
    }
    return weigh(fd, status.st_dev, 1);
}
