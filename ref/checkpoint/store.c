// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints, locked by the run that saves to it.
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0) {
        if (errno == EEXIST)
            return ERR_NONE;
        return err_set(errno == ENOENT || errno == ENOTDIR ? ERR_USAGE : ERR_IO, "%s: cannot be created: %s", path,
                       strerror(errno));
    }
    char parent[strlen(path) + 2];
    return file_sync_folder(file_folder(path, parent));
}

static int take_lock(struct store *store)
{
    char path[PATH_MAX];
    TRY(file_join(store->path, ".lock", path));
    store->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (store->lock < 0)
        return err_set(ERR_USAGE, "%s: cannot be created: %s", path, strerror(errno));
    uint64_t bytes;
    int rc = file_bytes(store->lock, path, &bytes);
    if (rc == ERR_NONE && flock(store->lock, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? err_set(ERR_USAGE, "%s: another run is saving checkpoints there", store->path)
                                  : err_set(ERR_IO, "%s: cannot be locked: %s", path, strerror(errno));
    if (rc != ERR_NONE) {
        close(store->lock);
        store->lock = -1;
    }
    return rc;
}

static int open_store(struct store *store)
{
    TRY(make_folder(store->path));
    TRY(take_lock(store));
    TRY(store_remove_leftovers(store->path));
    // Incomplete ones stay; the new ones are saved next to them.
    struct checkpoint *newest;
    size_t incomplete;
    char notes[NOTES_BYTES] = "";
    TRY(store_newest(store->path, &newest, &incomplete, notes));
    if (newest)
        store->newest = checkpoint_manifest(newest)->step;
    checkpoint_close(newest);
    return ERR_NONE;
}

int store_follow(const char *path, struct store *out)
{
    *out = (struct store){.lock = -1};
    if (strlen(path) > PATH_MAX - 2 * NAME_MAX)
        return err_set(ERR_USAGE, "the name of the folder has %zu bytes, which is too long", strlen(path));
    out->path = strdup(path);
    return out->path ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the name of %s", path);
}

int store_open(const char *path, struct store *out)
{
    TRY(store_follow(path, out));
    int rc = open_store(out);
    if (rc != ERR_NONE)
        store_close(out);
    return rc;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->lock >= 0) {
        char cause[ERR_MESSAGE_BYTES];
        err_keep(cause);
        store_remove_leftovers(store->path);
        err_restore(cause);
        close(store->lock);
    }
    free(store->path);
    *store = (struct store){.lock = -1};
}
