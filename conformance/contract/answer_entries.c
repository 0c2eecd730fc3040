// SPDX-License-Identifier: Apache-2.0
// The entries of an answer's folders: their names, types and sizes, before anything is read.
#include "conformance/contract/answer_check.h"

#include "base/err.h"
#include "base/json.h"
#include "base/safe_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_BYTES_MAX = JSON_TEXT_BYTES_MAX };  // of usage.json and the texts

static int refuse(const char *folder, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int refuse(const char *folder, const char *name, const char *format, ...)
{
    char what[256], shown[TEXT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return err_set(ERR_USAGE, "%s/%s: %s", folder, text_message(shown, name, 100), what);
}

static int open_folder(int parent_fd, const char *name, const char *path, int *fd)
{
    int rc = file_open_folder(parent_fd, name, path, fd);
    if (rc != ERR_NONE && faccessat(parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return err_set(ERR_USAGE, "%s: there is no answer", path);
    return rc;
}

static int open_rank(const struct answer *answer, const char *name, const char *path, int *fd)
{
    char own[PATH_MAX];
    int answer_fd;
    TRY(answer_open_folder(answer, ANSWER_NO_RANK, own, &answer_fd));
    int rc = open_folder(answer_fd, name, path, fd);
    answer_close_folder(answer, answer_fd);
    return rc;
}

int answer_open_folder(const struct answer *answer, int rank, char *path, int *fd)
{
    int *kept = answer->folder_fds ? &answer->folder_fds[rank - ANSWER_NO_RANK] : NULL;
    char name[24];
    snprintf(path, PATH_MAX, "%s", answer->folder);
    snprintf(name, sizeof name, "rank-%d", rank);
    if (rank != ANSWER_NO_RANK)
        TRY(file_join(answer->folder, name, path));
    if (kept && *kept >= 0) {
        *fd = *kept;
        return ERR_NONE;
    }
    TRY(rank == ANSWER_NO_RANK ? open_folder(AT_FDCWD, path, path, fd) : open_rank(answer, name, path, fd));
    if (kept)
        *kept = *fd;
    return ERR_NONE;
}

void answer_close_folder(const struct answer *answer, int fd)
{
    if (!answer->folder_fds)
        close(fd);
}

static const char *type_text(mode_t mode)
{
    if (S_ISREG(mode))
        return "a file";
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISLNK(mode))
        return "a symbolic link";
    return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

// The K of PREFIX-KSUFFIX, written as a number is and of low..high; -1: it is none.
static int number_of(const char *name, const char *prefix, const char *suffix, int low, int high)
{
    char expected[64];
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return -1;
    long number = strtol(name + strlen(prefix), NULL, 10);
    if (number < low || number > high)
        return -1;
    snprintf(expected, sizeof expected, "%s%ld%s", prefix, number, suffix);
    return strcmp(name, expected) == 0 ? (int)number : -1;
}

// The entries found in a folder.
struct entries {
    bool steps[CASE_STEP_MAX + 1];
    bool ranks[CASE_WORLD_MAX];
    bool usage, unsupported, refused;
    int count;
};

// Takes one entry: where its name is expected, what it must be and how large it may be.
static int take(const struct answer *answer, int rank, const char *name, uint64_t step_bytes_max,
                struct entries *entries, mode_t *type, uint64_t *bytes_max)
{
    const struct check_case *c = answer->c;
    int step = number_of(name, "step-", ".safetensors", case_first_step(c), case_last_step(c));
    int of_rank = rank == ANSWER_NO_RANK ? number_of(name, "rank-", "", 0, c->world - 1) : -1;
    *type = of_rank >= 0 ? S_IFDIR : S_IFREG;
    *bytes_max = of_rank >= 0 ? UINT64_MAX : step >= 0 ? step_bytes_max : SMALL_BYTES_MAX;
    entries->count++;
    if (step >= 0)
        return entries->steps[step] = true, ERR_NONE;
    if (of_rank >= 0)
        return entries->ranks[of_rank] = true, ERR_NONE;
    if (rank == ANSWER_NO_RANK && strcmp(name, "usage.json") == 0)
        return entries->usage = true, ERR_NONE;
    if (rank == ANSWER_NO_RANK && strcmp(name, "unsupported.txt") == 0)
        return entries->unsupported = true, ERR_NONE;
    if (rank == ANSWER_NO_RANK && strcmp(name, "refused.txt") == 0)
        return entries->refused = true, ERR_NONE;
    return ERR_USAGE;
}

static int look_at(const struct answer *answer, int rank, int fd, const char *path, const char *name,
                   uint64_t step_bytes_max, struct entries *entries)
{
    struct stat status;
    mode_t type;
    uint64_t bytes_max;
    if (take(answer, rank, name, step_bytes_max, entries, &type, &bytes_max) != ERR_NONE)
        return refuse(path, name, "does not belong there: no such file is part of an answer to this case");
    if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return err_set(ERR_IO, "%s/%s: cannot be inspected: %s", path, name, strerror(errno));
    if ((status.st_mode & S_IFMT) != type)
        return refuse(path, name, "is %s; expected %s", type_text(status.st_mode), type_text(type));
    if (type == S_IFREG && (uint64_t)status.st_size > bytes_max)
        return refuse(path, name, "has %jd bytes; at most %" PRIu64 " are expected", (intmax_t)status.st_size,
                      bytes_max);
    return ERR_NONE;
}

// Every entry of the answer's folder or a rank's.
static int look_through(const struct answer *answer, int rank, uint64_t step_bytes_max, struct entries *entries)
{
    char path[PATH_MAX];
    int fd;
    *entries = (struct entries){0};
    TRY(answer_open_folder(answer, rank, path, &fd));
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return err_set(ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    int rc = ERR_NONE;
    for (struct dirent *entry; rc == ERR_NONE && (errno = 0, entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = look_at(answer, rank, fd, path, entry->d_name, step_bytes_max, entries);
    if (rc == ERR_NONE && errno != 0)
        rc = err_set(ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    closedir(folder);
    for (int step = case_first_step(answer->c); rc == ERR_NONE && step <= case_last_step(answer->c); step++)
        if (!entries->steps[step] && !entries->unsupported && !entries->refused)
            rc = err_set(ERR_USAGE, "%s/step-%d.safetensors: is missing", path, step);
    return rc;
}

static int look_at_ranks(const struct answer *answer, const struct entries *entries)
{
    struct answer_layout layout;
    struct entries of_rank;
    for (int rank = 0; rank < answer->c->world; rank++) {
        if (!entries->ranks[rank])
            return err_set(ERR_USAGE, "%s/rank-%d: is missing; there are folders of all ranks, or of none",
                           answer->folder, rank);
        uint64_t bytes_max = 0;
        for (int step = case_first_step(answer->c); step <= case_last_step(answer->c); step++) {
            TRY(answer_layout_of_seen(answer->c, step, rank, &layout));
            bytes_max = layout.file_bytes_max > bytes_max ? layout.file_bytes_max : bytes_max;
            answer_layout_close(&layout);
        }
        TRY(look_through(answer, rank, bytes_max, &of_rank));
    }
    return ERR_NONE;
}

int answer_check_entries(struct answer *answer)
{
    struct answer_layout layout;
    struct entries entries;
    TRY(answer_layout_of_step(answer->c, &layout));
    uint64_t bytes_max = layout.file_bytes_max;
    answer_layout_close(&layout);
    TRY(look_through(answer, ANSWER_NO_RANK, bytes_max, &entries));
    const char *text = entries.unsupported ? "unsupported.txt" : "refused.txt";
    if ((entries.unsupported || entries.refused) && entries.count > 1)
        return refuse(answer->folder, text, "is there, and other files, too; expected one or the other");
    answer->kind = entries.unsupported ? ANSWER_UNSUPPORTED : entries.refused ? ANSWER_REFUSED : ANSWER_STATES;
    answer->has_usage = entries.usage;
    for (int rank = 0; rank < answer->c->world; rank++)
        answer->has_seen |= entries.ranks[rank];
    return answer->has_seen ? look_at_ranks(answer, &entries) : ERR_NONE;
}
