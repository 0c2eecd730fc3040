// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints, locked by the run that saves to it.
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Removing from a store: the leftovers of dead runs and old checkpoints. Only folders of the store itself are removed;
// whatever a link leads to belongs to somebody else.

enum { KEPT_COUNT = 2 };

// Opens a folder to list it. ERR_USAGE: it is a link or no folder.
static int open_own(const char *path, DIR **out)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(ERR_USAGE, "%s: is not a folder that a run has made, and is not removed: move it away", path);
    if (fd < 0)
        return err_set(ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    if ((*out = fdopendir(fd)))
        return ERR_NONE;
    close(fd);
    return err_set(ERR_MEMORY, "no memory to list %s", path);
}

static bool is_self(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

// Runs of this program make no folders in a checkpoint.
static int check_has_only_files(DIR *folder, const char *path)
{
    struct stat status;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (!is_self(entry->d_name) &&
            (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(status.st_mode)))
            return err_set(ERR_USAGE, "%s/%s: is not a file that a run has made, and is not removed: move it away",
                           path, entry->d_name);
    rewinddir(folder);
    return ERR_NONE;
}

static int remove_files(DIR *folder, const char *path)
{
    TRY(check_has_only_files(folder, path));
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (!is_self(entry->d_name) && unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            return err_set(ERR_IO, "%s/%s: cannot be removed: %s", path, entry->d_name, strerror(errno));
    return ERR_NONE;
}

static int remove_folder(const char *path)
{
    DIR *folder;
    TRY(open_own(path, &folder));
    int rc = remove_files(folder, path);
    closedir(folder);
    if (rc == ERR_NONE && rmdir(path) != 0)
        rc = err_set(ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return rc;
}

// True if the name is a checkpoint's with this ending.
static bool is_leftover(const char *name, const char *ending)
{
    char step[STEP_NAME_BYTES];
    size_t length = strlen(name), ending_length = strlen(ending);
    if (length <= ending_length || length - ending_length >= sizeof step)
        return false;
    memcpy(step, name, length - ending_length);
    step[length - ending_length] = '\0';
    return strcmp(name + length - ending_length, ending) == 0 && checkpoint_step_of(step) > 0;
}

// Removes the folders that a dead run was writing or removing. Only under the lock. ERR_USAGE: such a name belongs to
// something else, for instance a link.
static int remove_leftovers(const char *store)
{
    int rc = ERR_NONE;
    char path[PATH_MAX];
    DIR *folder = opendir(store);
    if (!folder)
        return err_set(ERR_IO, "%s: cannot be listed: %s", store, strerror(errno));
    for (const struct dirent *entry; rc == ERR_NONE && (entry = readdir(folder)) != NULL;)
        if (is_leftover(entry->d_name, STORE_PARTIAL) || is_leftover(entry->d_name, STORE_REPLACED)) {
            rc = file_join(store, entry->d_name, path);
            if (rc == ERR_NONE)
                rc = remove_folder(path);
        }
    closedir(folder);
    return rc;
}

int store_retire(const char *store, uint64_t step)
{
    char name[STEP_NAME_BYTES], leaving[STEP_NAME_BYTES + sizeof STORE_REPLACED], path[PATH_MAX], to[PATH_MAX];
    DIR *folder;
    snprintf(leaving, sizeof leaving, "%s" STORE_REPLACED, checkpoint_step_name(step, name));
    TRY(file_join(store, name, path));
    TRY(file_join(store, leaving, to));
    TRY(open_own(path, &folder));
    int rc = check_has_only_files(folder, path);
    closedir(folder);
    TRY(rc);
    if (rename(path, to) != 0)
        return err_set(ERR_IO, "%s: cannot be renamed: %s", path, strerror(errno));
    return remove_folder(to);
}

static bool is_link(const char *store, uint64_t step)
{
    char name[STEP_NAME_BYTES], path[PATH_MAX];
    struct stat status;
    return file_join(store, checkpoint_step_name(step, name), path) != ERR_NONE || lstat(path, &status) != 0 ||
           S_ISLNK(status.st_mode);
}

// Removes complete checkpoints of steps up to `newest` except the last two. Links and what cannot be read stay.
static int remove_all_old(const char *store, uint64_t newest)
{
    uint64_t *steps;
    size_t count, kept = 0;
    TRY(checkpoint_list(store, &steps, &count));
    int rc = ERR_NONE;
    for (size_t i = 0; i < count && rc == ERR_NONE; i++) {
        struct checkpoint *checkpoint = NULL;
        bool readable = steps[i] <= newest && store_open_step(store, steps[i], &checkpoint) == ERR_NONE && checkpoint;
        checkpoint_close(checkpoint);
        if (readable && kept++ >= KEPT_COUNT && !is_link(store, steps[i]))
            rc = store_retire(store, steps[i]);
    }
    free(steps);
    return rc;
}

static void *remove_old(void *argument)
{
    struct removal *removal = argument;
    removal->rc = remove_all_old(removal->store, removal->newest);
    err_keep(removal->message);
    return NULL;
}

void store_begin_removal(struct store *store)
{
    struct removal *removal = &store->removal;
    *removal = (struct removal){.store = store->path, .newest = store->newest};
    removal->is_running = pthread_create(&removal->thread, NULL, remove_old, removal) == 0;
    if (!removal->is_running)
        remove_old(removal);
}

void store_await_removal(struct store *store)
{
    if (store->removal.is_running)
        pthread_join(store->removal.thread, NULL);
    store->removal.is_running = false;
}

int store_settle(struct store *store)
{
    store_await_removal(store);
    int rc = store->removal.rc;
    unsigned long long step = store->removal.newest;
    store->removal.rc = ERR_NONE;
    if (rc == ERR_NONE)
        return rc;
    err_restore(store->removal.message);
    return err_prefix(rc, "the checkpoint of step %llu was saved, but an older one cannot be removed", step);
}

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

// Alone (LOCK_EX), or with the other ranks of a run (LOCK_SH).
static int take_lock(const struct store *store, int how)
{
    if (flock(store->lock, how | LOCK_NB) == 0)
        return ERR_NONE;
    return errno == EWOULDBLOCK ? err_set(ERR_USAGE, "%s: another run is saving checkpoints there", store->path)
                                : err_set(ERR_IO, "%s/.lock: cannot be locked: %s", store->path, strerror(errno));
}

static int open_lock(struct store *store)
{
    char path[PATH_MAX];
    TRY(file_join(store->path, ".lock", path));
    store->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (store->lock < 0)
        return err_set(ERR_USAGE, "%s: cannot be created: %s", path, strerror(errno));
    uint64_t bytes;
    int rc = file_bytes(store->lock, path, &bytes);
    if (rc != ERR_NONE) {
        close(store->lock);
        store->lock = -1;
    }
    return rc;
}

static int open_store(struct store *store)
{
    TRY(make_folder(store->path));
    TRY(open_lock(store));
    TRY(take_lock(store, LOCK_EX));
    TRY(remove_leftovers(store->path));
    // Incomplete ones stay; the new ones are saved next to them.
    struct checkpoint *newest;
    size_t incomplete;
    char notes[NOTES_BYTES] = "";
    TRY(store_newest(store->path, &newest, &incomplete, notes));
    if (newest)
        store->newest = checkpoint_manifest(newest)->step;
    checkpoint_close(newest);
    return take_lock(store, LOCK_SH);
}

static int follow_store(struct store *store)
{
    TRY(open_lock(store));
    return take_lock(store, LOCK_SH);
}

static int use_store(const char *path, int (*open)(struct store *), struct store *out)
{
    *out = (struct store){.lock = -1};
    if (strlen(path) > PATH_MAX - 2 * NAME_MAX)
        return err_set(ERR_USAGE, "the name of the folder has %zu bytes, which is too long", strlen(path));
    out->path = strdup(path);
    int rc = out->path ? open(out) : err_set(ERR_MEMORY, "no memory for the name of %s", path);
    if (rc != ERR_NONE)
        store_close(out);
    return rc;
}

int store_open(const char *path, struct store *out)
{
    return use_store(path, open_store, out);
}

int store_follow(const char *path, struct store *out)
{
    return use_store(path, follow_store, out);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    store_await_removal(store);
    if (store->lock >= 0) {
        char cause[ERR_MESSAGE_BYTES];
        err_keep(cause);
        if (take_lock(store, LOCK_EX) == ERR_NONE)
            remove_leftovers(store->path);
        err_restore(cause);
        close(store->lock);
    }
    free(store->path);
    *store = (struct store){.lock = -1};
}
