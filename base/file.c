// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include "base/digest.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGEST_BLOCK_BYTES = 1 << 20 };

int file_join(const char *folder, const char *name, char out[PATH_MAX])
{
    if (strlen(folder) + 1 + strlen(name) >= PATH_MAX)
        return err_set(ERR_USAGE, "%s/%s: the name is too long", folder, name);
    assert(out != folder && out != name);
    char *end = stpcpy(out, folder);
    *end = '/';
    strcpy(end + 1, name);
    return ERR_NONE;
}

int file_write(int fd, const char *path, const void *data, size_t bytes)
{
    assert(fd >= 0 && (data || bytes == 0));
    const char *at = data;
    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_set(ERR_IO, "%s: cannot be written: %s", path,
                           done < 0 ? strerror(errno) : "the device accepts no data");
        at += done;
        bytes -= (size_t)done;
    }
    return ERR_NONE;
}

int file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t bytes)
{
    assert(fd >= 0 && (out || bytes == 0));
    char *at = out;
    while (bytes > 0) {
        ssize_t done = pread(fd, at, bytes, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_set(ERR_IO, "%s: cannot be read at byte %" PRIu64 ": %s", path, offset, strerror(errno));
        if (done == 0)
            return err_set(ERR_IO, "%s: ends at byte %" PRIu64 ", %zu bytes early", path, offset, bytes);
        at += done;
        offset += (uint64_t)done;
        bytes -= (size_t)done;
    }
    return ERR_NONE;
}

static int read_text(int fd, const char *path, size_t limit, char **text, size_t *bytes)
{
    uint64_t size;
    TRY(file_bytes(fd, path, &size));
    if (size > limit)
        return err_set(ERR_USAGE, "%s: has %" PRIu64 " bytes; at most %zu are expected", path, size, limit);
    if (!(*text = malloc(size + 1)))
        return err_set(ERR_MEMORY, "no memory for the %" PRIu64 " bytes of %s", size, path);
    (*text)[size] = '\0';
    *bytes = size;
    return file_read_at(fd, path, 0, *text, size);
}

static int read_and_close(int fd, const char *path, size_t limit, char **text, size_t *bytes)
{
    int rc = read_text(fd, path, limit, text, bytes);
    close(fd);
    if (rc != ERR_NONE) {
        free(*text);
        *text = NULL;
    }
    return rc;
}

int file_read_text(const char *path, size_t limit, char **text, size_t *bytes)
{
    int fd;
    *text = NULL;
    TRY(file_open(path, &fd));
    return read_and_close(fd, path, limit, text, bytes);
}

int file_read_text_at(int folder_fd, const char *name, const char *path, size_t limit, char **text, size_t *bytes)
{
    int fd;
    *text = NULL;
    TRY(file_open_at(folder_fd, name, path, &fd));
    return read_and_close(fd, path, limit, text, bytes);
}

int file_sync(int fd, const char *path)
{
    while (fsync(fd) != 0)
        if (errno != EINTR)
            return err_set(ERR_IO, "%s: did not reach the disk: %s", path, strerror(errno));
    return ERR_NONE;
}

int file_sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    int rc = file_sync(fd, path);
    close(fd);
    return rc;
}

static int add_all(XXH3_state_t *hash, char *block, int fd, const char *path)
{
    uint64_t size;
    TRY(file_bytes(fd, path, &size));
    for (uint64_t at = 0; at < size;) {
        size_t count = size - at < DIGEST_BLOCK_BYTES ? (size_t)(size - at) : DIGEST_BLOCK_BYTES;
        TRY(file_read_at(fd, path, at, block, count));
        XXH3_128bits_update(hash, block, count);
        at += count;
    }
    return ERR_NONE;
}

int file_digest(int fd, const char *path, char digest[FILE_DIGEST_BYTES])
{
    XXH3_state_t *hash = XXH3_createState();
    char *block = malloc(DIGEST_BLOCK_BYTES);
    int rc = ERR_NONE;
    if (!hash || !block) {
        rc = err_set(ERR_MEMORY, "no memory to read %s", path);
    } else {
        XXH3_128bits_reset(hash);
        rc = add_all(hash, block, fd, path);
        digest_text(XXH3_128bits_digest(hash), digest);
    }
    XXH3_freeState(hash);
    free(block);
    return rc;
}
