// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints: their names, the newest complete one, the lock, and the leftovers of dead runs.
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

const char *checkpoint_step_name(uint64_t step, char out[STEP_NAME_BYTES])
{
    snprintf(out, STEP_NAME_BYTES, "step-%08" PRIu64, step);
    return out;
}

const char *checkpoint_rank_name(size_t rank, char out[RANK_NAME_BYTES])
{
    snprintf(out, RANK_NAME_BYTES, "rank-%zu.safetensors", rank);
    return out;
}

// The step in a checkpoint's name; 0 for any other name.
static uint64_t step_of(const char *name)
{
    char again[STEP_NAME_BYTES];
    if (strncmp(name, "step-", 5) != 0 || strlen(name) >= STEP_NAME_BYTES)
        return 0;
    uint64_t step = strtoull(name + 5, NULL, 10);
    return strcmp(checkpoint_step_name(step, again), name) == 0 ? step : 0;
}

static int compare_steps(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a > b ? -1 : a < b;
}

int checkpoint_list(const char *store, uint64_t **steps, size_t *count)
{
    size_t room = 0;
    *steps = NULL;
    *count = 0;
    DIR *folder = opendir(store);
    if (!folder)
        return err_set(ERR_IO, "%s: cannot be listed: %s", store, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        uint64_t step = step_of(entry->d_name);
        if (step == 0)
            continue;
        if (*count == room) {
            room = 2 * room + 16;
            uint64_t *more = realloc(*steps, room * sizeof *more);
            if (!more) {
                free(*steps);
                closedir(folder);
                return err_set(ERR_MEMORY, "no memory to list %s", store);
            }
            *steps = more;
        }
        (*steps)[(*count)++] = step;
    }
    closedir(folder);
    if (*count > 0)
        qsort(*steps, *count, sizeof **steps, compare_steps);
    return ERR_NONE;
}

int checkpoint_open(const char *path, struct checkpoint **out, char notes[NOTES_BYTES])
{
    char inner[PATH_MAX];
    *out = NULL;
    TRY(file_join(path, "manifest.json", inner));
    if (access(inner, F_OK) == 0)
        return checkpoint_open_folder(path, out);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return ERR_NONE;
    uint64_t *steps;
    size_t count;
    TRY(checkpoint_list(path, &steps, &count));
    int rc = ERR_NONE;
    for (size_t i = 0; i < count && !*out; i++) {
        char name[STEP_NAME_BYTES];
        rc = file_join(path, checkpoint_step_name(steps[i], name), inner);
        if (rc == ERR_NONE)
            rc = checkpoint_open_folder(inner, out);
        if (rc != ERR_NONE && rc != ERR_USAGE)
            break;
        size_t used = strlen(notes);
        if (rc == ERR_USAGE)
            snprintf(notes + used, NOTES_BYTES - used, "%s is not complete: %s\n", name, err_message());
    }
    free(steps);
    return rc == ERR_USAGE ? err_prefix(rc, "%s: none of its checkpoints is complete", path) : rc;
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
    return strcmp(name + length - ending_length, ending) == 0 && step_of(step) > 0;
}

int store_remove(const char *store, const char *name)
{
    char path[PATH_MAX], file[PATH_MAX];
    TRY(file_join(store, name, path));
    DIR *folder = opendir(path);
    if (!folder)
        return err_set(ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        bool self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!self && file_join(path, entry->d_name, file) == ERR_NONE)
            unlink(file);
    }
    closedir(folder);
    if (rmdir(path) != 0)
        return err_set(ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return ERR_NONE;
}

// Removes the folders that a dead run was writing or removing. Only under the lock.
static int remove_leftovers(const char *store)
{
    int rc = ERR_NONE;
    DIR *folder = opendir(store);
    if (!folder)
        return err_set(ERR_IO, "%s: cannot be listed: %s", store, strerror(errno));
    for (const struct dirent *entry; rc == ERR_NONE && (entry = readdir(folder)) != NULL;)
        if (is_leftover(entry->d_name, STORE_PARTIAL) || is_leftover(entry->d_name, STORE_REPLACED))
            rc = store_remove(store, entry->d_name);
    closedir(folder);
    return rc;
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

static int take_lock(struct store *store)
{
    char path[PATH_MAX];
    TRY(file_join(store->path, ".lock", path));
    store->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (store->lock < 0)
        return err_set(ERR_USAGE, "%s: cannot be created: %s", path, strerror(errno));
    if (flock(store->lock, LOCK_EX | LOCK_NB) != 0) {
        int rc = errno == EWOULDBLOCK ? err_set(ERR_USAGE, "%s: another run is saving checkpoints there", store->path)
                                      : err_set(ERR_IO, "%s: cannot be locked: %s", path, strerror(errno));
        close(store->lock);
        store->lock = -1;
        return rc;
    }
    return ERR_NONE;
}

static int open_store(struct store *store)
{
    TRY(make_folder(store->path));
    TRY(take_lock(store));
    TRY(remove_leftovers(store->path));
    struct checkpoint *newest;
    char notes[NOTES_BYTES] = "";
    int rc = checkpoint_open(store->path, &newest, notes);
    if (rc != ERR_NONE && rc != ERR_USAGE)
        return rc;
    // If none of them is complete, the new ones are saved beside them.
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
        remove_leftovers(store->path);
        close(store->lock);
    }
    free(store->path);
    *store = (struct store){.lock = -1};
}
