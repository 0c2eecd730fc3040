// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/nvme_folder.h"

#include "base/err.h"
#include "base/size.h"
#include "ref/tier/folder_room.h"
#include "ref/tier/inject.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

static int refuse_direct(const char *path)
{
    return err_set(ERR_USAGE,
                   "%s: the file system there has no direct I/O (O_DIRECT): give a folder on a disk with --nvme-path, "
                   "or use the page cache with --buffered, which marks the results",
                   path);
}

// Sets the alignment that direct I/O needs. Refuses file systems that accept O_DIRECT but keep files in memory.
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
        return err_set(ERR_MEMORY, "out of memory for the path of a folder");
    out->file = folder_open_unnamed(path, buffered ? 0 : O_DIRECT);
    int code = ERR_NONE;
    if (out->file < 0 && errno == EINVAL && !buffered)
        code = refuse_direct(path);
    else if (out->file < 0)
        code = err_set(errno == EMFILE || errno == ENOSPC || errno == EIO ? ERR_IO : ERR_USAGE,
                       "%s: cannot create a file there: %s; --nvme-path takes existing folders that are writable", path,
                       strerror(errno));
    else if (!buffered)
        code = find_alignment(out);
    if (code != ERR_NONE)
        nvme_folder_close(out);
    return code;
}

void nvme_folder_close(struct nvme_folder *folder)
{
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
                       "%s: no space for %s of \"%s\" (%s, %s free); free some space, or give a larger disk or more "
                       "folders with --nvme-path",
                       folder->path, wanted, name, strerror(error), room);
    if (error == EOPNOTSUPP || error == ENOSYS)
        return err_set(ERR_IO,
                       "%s: the file system there cannot reserve space (fallocate) for \"%s\", so a full disk would "
                       "show only during a step; give another folder with --nvme-path",
                       folder->path, name);
    if (error == EFBIG)
        return err_set(ERR_IO,
                       "%s: %s for \"%s\" would make the file there exceed a limit (ulimit -f, or the file system's)",
                       folder->path, wanted, name);
    return err_set(ERR_IO, "%s: reserving %s for \"%s\": %s", folder->path, wanted, name, strerror(error));
}

static void release(const struct nvme_folder *folder, uint64_t offset, uint64_t bytes)
{
    // If the file system cannot punch holes, the space stays with the file, which reuses it.
    if (bytes > 0)
        (void)!fallocate(folder->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

// Reserves the disk space of a part of the file. Returns 0 or -errno.
static int reserve(struct inject *inject, int file, uint64_t offset, uint64_t bytes)
{
    if (inject && inject_takes_space(inject))
        return -ENOSPC;
    int code;
    do
        code = fallocate(file, 0, (off_t)offset, (off_t)bytes);
    while (code != 0 && errno == EINTR);
    return code == 0 ? 0 : -errno;
}

int nvme_folder_take(struct nvme_folder *folder, struct inject *inject, const char *name, uint64_t bytes,
                     uint64_t *offset)
{
    assert(folder->file >= 0);
    *offset = folder->end;
    if (bytes == 0)
        return ERR_NONE;
    int code = reserve(inject, folder->file, *offset, bytes);
    if (code < 0) {
        code = refuse_space(folder, name, bytes, -code);
        release(folder, *offset, bytes);
        return code;
    }
    folder->end += bytes;
    return ERR_NONE;
}

void nvme_folder_give(struct nvme_folder *folder, uint64_t offset, uint64_t bytes)
{
    assert(offset + bytes == folder->end || bytes == 0);
    release(folder, offset, bytes);
    folder->end -= bytes;
}
