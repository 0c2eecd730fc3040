// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/nvme_folder.h"

#include "base/err.h"
#include "ref/tier/io.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

// A file without a name: where the file system cannot make one, the name is taken away at once. -1 and errno.
static int open_unnamed(const char *path, int flags)
{
    int file = open(path, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return file;
    char name[4096];
    if (snprintf(name, sizeof name, "%s/zerogauge-XXXXXX", path) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = mkostemp(name, O_CLOEXEC | flags);
    if (file >= 0)
        unlink(name);
    return file;
}

static int refuse_direct(const char *path)
{
    return err_set(ERR_USAGE,
                   "%s: the file system there has no direct I/O (O_DIRECT): give a folder on a disk with "
                   "--nvme-path, or say --buffered to go through the page cache, which marks the results",
                   path);
}

// The alignment that direct I/O needs. Some file systems take O_DIRECT and keep files in memory all the same.
static int find_alignment(struct nvme_folder *folder)
{
    struct statfs system;
    if (fstatfs(folder->file, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
        return refuse_direct(folder->path);
    folder->alignment_bytes = IO_ALIGNMENT;
#ifdef STATX_DIOALIGN
    struct statx status;
    if (statx(folder->file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0 || !(status.stx_mask & STATX_DIOALIGN))
        return ERR_NONE;
    if (status.stx_dio_offset_align == 0)
        return refuse_direct(folder->path);
    if (status.stx_dio_offset_align > IO_ALIGNMENT || status.stx_dio_mem_align > IO_ALIGNMENT)
        return err_set(ERR_USAGE,
                       "%s: direct I/O there must be aligned to %u bytes on the disk and %u in memory; at "
                       "most %d are supported",
                       folder->path, status.stx_dio_offset_align, status.stx_dio_mem_align, IO_ALIGNMENT);
    folder->alignment_bytes =
        status.stx_dio_offset_align > status.stx_dio_mem_align ? status.stx_dio_offset_align : status.stx_dio_mem_align;
#endif
    return ERR_NONE;
}

int nvme_folder_open(const char *path, bool buffered, struct nvme_folder *out)
{
    *out = (struct nvme_folder){.path = strdup(path), .file = -1, .alignment_bytes = 1};
    if (!out->path)
        return err_set(ERR_MEMORY, "no memory for the name of a folder");
    out->file = open_unnamed(path, buffered ? 0 : O_DIRECT);
    int code = ERR_NONE;
    if (out->file < 0 && errno == EINVAL && !buffered)
        code = refuse_direct(path);
    else if (out->file < 0)
        code = err_set(errno == EMFILE || errno == ENOSPC || errno == EIO ? ERR_IO : ERR_USAGE,
                       "%s: cannot make a file there: %s; --nvme-path wants existing folders that may be written to",
                       path, strerror(errno));
    else if (!buffered)
        code = find_alignment(out);
    if (code != ERR_NONE)
        nvme_folder_close(out);
    return code;
}

void nvme_folder_close(struct nvme_folder *folder)
{
    for (struct nvme_hole *hole = folder->holes, *next; hole; hole = next) {
        next = hole->next;
        free(hole);
    }
    if (folder->file >= 0)
        close(folder->file);
    free(folder->path);
    *folder = (struct nvme_folder){.file = -1};
}

static int refuse_space(const struct nvme_folder *folder, const char *name, uint64_t bytes, int error)
{
    char wanted[SIZE_TEXT_BYTES], room[SIZE_TEXT_BYTES] = "an unknown amount";
    size_short_text(bytes, wanted);
    struct statvfs system;
    if (fstatvfs(folder->file, &system) == 0)
        size_short_text((uint64_t)system.f_bavail * system.f_frsize, room);
    if (error == ENOSPC || error == EDQUOT)
        return err_set(ERR_IO,
                       "%s: no space for %s of \"%s\" (%s, %s free); free some, or give a larger disk or more "
                       "folders with --nvme-path",
                       folder->path, wanted, name, strerror(error), room);
    if (error == EOPNOTSUPP || error == ENOSYS)
        return err_set(ERR_IO,
                       "%s: the file system there cannot reserve space (fallocate) for \"%s\", so that a full "
                       "disk would show only in the midst of a step; give another folder with --nvme-path",
                       folder->path, name);
    if (error == EFBIG)
        return err_set(ERR_IO,
                       "%s: %s for \"%s\" make the file there larger than is allowed (ulimit -f, or the file "
                       "system's own limit)",
                       folder->path, wanted, name);
    return err_set(ERR_IO, "%s: reserving %s for \"%s\": %s", folder->path, wanted, name, strerror(error));
}

static void release(const struct nvme_folder *folder, uint64_t offset, uint64_t bytes)
{
    // A file system that cannot take the space back keeps it for the file, which uses it again.
    if (bytes > 0)
        (void)!fallocate(folder->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

int nvme_folder_take(struct nvme_folder *folder, struct inject *inject, const char *name, uint64_t bytes,
                     uint64_t *offset)
{
    struct nvme_hole **at = &folder->holes;
    while (*at && (*at)->bytes < bytes)
        at = &(*at)->next;
    struct nvme_hole *hole = *at;
    *offset = hole ? hole->offset : folder->end;
    if (bytes == 0)
        return ERR_NONE;
    int code = io_reserve(inject, folder->file, *offset, bytes);
    if (code < 0) {
        code = refuse_space(folder, name, bytes, -code);
        release(folder, *offset, bytes);
        return code;
    }
    if (!hole) {
        folder->end += bytes;
        return ERR_NONE;
    }
    hole->offset += bytes;
    hole->bytes -= bytes;
    if (hole->bytes == 0) {
        *at = hole->next;
        free(hole);
    }
    return ERR_NONE;
}

void nvme_folder_give(struct nvme_folder *folder, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return;
    release(folder, offset, bytes);
    struct nvme_hole **at = &folder->holes, *before = NULL;
    for (; *at && (*at)->offset < offset; at = &(*at)->next)
        before = *at;
    struct nvme_hole *after = *at, *hole = NULL;
    if (before && before->offset + before->bytes == offset) {
        hole = before;
        hole->bytes += bytes;
    } else if ((hole = malloc(sizeof *hole))) {
        *hole = (struct nvme_hole){after, offset, bytes};
        *at = hole;
    } else {
        return;  // that part of the file is not used again; its space is given back all the same
    }
    if (after && hole->offset + hole->bytes == after->offset) {
        hole->bytes += after->bytes;
        hole->next = after->next;
        free(after);
    }
}
