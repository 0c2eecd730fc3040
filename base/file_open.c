// SPDX-License-Identifier: Apache-2.0
// The ways to open a file or to make one. tools/tidy/opens.py finds all others.
#include "base/file.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Refuses a file that failed to be opened or created.
static int refuse(const char *path, const char *done, int failure)
{
    switch (failure) {
    case EEXIST:
        return err_set(ERR_USAGE, "%s: exists, and is never overwritten; give another name, or remove it", path);
    case EMFILE:
        return err_set(ERR_IO,
                       "%s: cannot be %s: this process has too many open files; raise their limit with "
                       "`ulimit -n`",
                       path, done);
    case ELOOP:
        return err_set(ERR_USAGE, "%s: is a symbolic link, expected a regular file", path);
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ENAMETOOLONG:
        return err_set(ERR_USAGE, "%s: cannot be %s: %s", path, done, strerror(failure));
    default:
        return err_set(ERR_IO, "%s: cannot be %s: %s", path, done, strerror(failure));
    }
}

static int create(const char *name, const char *path, int *fd)
{
    *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd >= 0)
        return ERR_NONE;
    refuse(path, "created", errno);
    return ERR_IO;
}

int file_create(const char *path, int *fd)
{
    return create(path, path, fd);
}

int file_create_stream(const char *name, const char *path, FILE **out)
{
    int fd;
    TRY(create(name, path, &fd));
    if ((*out = fdopen(fd, "w")))
        return ERR_NONE;
    close(fd);
    unlink(name);
    return err_set(ERR_MEMORY, "no memory to write %s", path);
}

const char *file_folder(const char *path, char *out)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strcpy(out, ".");
    size_t length = slash == path ? 1 : (size_t)(slash - path);
    memcpy(out, path, length);
    out[length] = '\0';
    return out;
}

int file_check_output(const char *path, enum file_output_kind kind)
{
    struct stat status;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!*path)
        return err_set(ERR_USAGE, "expected the name of a file, not \"\"");
    if (lstat(path, &status) != 0) {
        if (errno == ENAMETOOLONG || strlen(name) + FILE_PARTIAL_BYTES > NAME_MAX)
            return refuse(path, "created", ENAMETOOLONG);
        char folder[strlen(path) + 2];
        return access(file_folder(path, folder), W_OK | X_OK) == 0 ? ERR_NONE : refuse(path, "created", errno);
    }
    if (S_ISREG(status.st_mode))
        return kind == FILE_REPLACED ? ERR_NONE : refuse(path, "created", EEXIST);
    return err_set(ERR_USAGE, "%s: is %s, which is never written to; give another name", path,
                   S_ISLNK(status.st_mode)   ? "a symbolic link"
                   : S_ISDIR(status.st_mode) ? "a folder"
                                             : "not a regular file");
}

int file_make_folder(const char *path)
{
    struct stat status;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && lstat(path, &status) == 0 && S_ISDIR(status.st_mode)))
        return ERR_NONE;
    return errno == EEXIST ? err_set(ERR_USAGE, "%s: is a link or a file; expected a folder, or a new name", path)
                           : refuse(path, "created", errno);
}

int file_open_folder(int folder_fd, const char *name, const char *path, int *fd)
{
    *fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd >= 0)
        return ERR_NONE;
    return errno == ELOOP || errno == ENOTDIR ? err_set(ERR_USAGE, "%s: is a link or a file; expected a folder", path)
                                              : refuse(path, "opened", errno);
}

int file_bytes(int fd, const char *path, uint64_t *bytes)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return err_set(ERR_IO, "%s: cannot be inspected: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return err_set(ERR_USAGE, "%s: is not a regular file", path);
    *bytes = (uint64_t)status.st_size;
    return ERR_NONE;
}

// Without O_NONBLOCK, opening a pipe would wait for a writer.
static int open_regular(int folder_fd, const char *name, const char *path, int flags, int *fd)
{
    uint64_t bytes;
    *fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    if (*fd < 0)
        return refuse(path, "opened", errno);
    int rc = file_bytes(*fd, path, &bytes);
    if (rc != ERR_NONE) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

int file_open(const char *path, int *fd)
{
    return open_regular(AT_FDCWD, path, path, 0, fd);
}

int file_open_at(int folder_fd, const char *name, const char *path, int *fd)
{
    return open_regular(folder_fd, name, path, O_NOFOLLOW, fd);
}
