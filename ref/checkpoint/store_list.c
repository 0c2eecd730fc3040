// SPDX-License-Identifier: Apache-2.0
// What a store holds: the names of checkpoints, and the newest complete one.
#include "ref/checkpoint/checkpoint.h"

#include "base/array.h"
#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *checkpoint_step_name(uint64_t step, char out[STEP_NAME_BYTES])
{
    snprintf(out, STEP_NAME_BYTES, "step-%08" PRIu64, step);
    return out;
}

uint64_t checkpoint_step_of(const char *name)
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
    int rc = ERR_NONE;
    for (const struct dirent *entry; rc == ERR_NONE && (entry = readdir(folder)) != NULL;) {
        uint64_t step = checkpoint_step_of(entry->d_name);
        if (step == 0)
            continue;
        rc = array_grow(steps, &room, *count, sizeof **steps, "checkpoints");
        if (rc == ERR_NONE)
            (*steps)[(*count)++] = step;
    }
    closedir(folder);
    if (rc != ERR_NONE)
        free(*steps);
    if (rc == ERR_NONE && *count > 0)
        qsort(*steps, *count, sizeof **steps, compare_steps);
    return rc;
}

// True if the manifest, which is written last, was never written. A link counts as written, wherever it leads.
static bool is_incomplete(const char *folder, const char *manifest)
{
    struct stat status;
    if (lstat(manifest, &status) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return false;
    return stat(folder, &status) == 0;
}

int store_open_step(const char *store, uint64_t step, struct checkpoint **out)
{
    char name[STEP_NAME_BYTES], path[PATH_MAX], manifest[PATH_MAX];
    *out = NULL;
    TRY(file_join(store, checkpoint_step_name(step, name), path));
    TRY(file_join(path, "manifest.json", manifest));
    if (is_incomplete(path, manifest))
        return ERR_NONE;
    TRY(checkpoint_open_folder(path, out));
    uint64_t held = checkpoint_manifest(*out)->step;
    if (held == step)
        return ERR_NONE;
    checkpoint_close(*out);
    *out = NULL;
    return err_set(ERR_USAGE, "%s: holds step %" PRIu64 ", not the step of its name", path, held);
}

int store_newest(const char *store, struct checkpoint **out, size_t *incomplete, char notes[NOTES_BYTES])
{
    uint64_t *steps;
    size_t count;
    int rc = ERR_NONE;
    *out = NULL;
    *incomplete = 0;
    TRY(checkpoint_list(store, &steps, &count));
    for (size_t i = 0; i < count && rc == ERR_NONE && !*out; i++) {
        char name[STEP_NAME_BYTES];
        size_t used = strlen(notes);
        checkpoint_step_name(steps[i], name);
        rc = store_open_step(store, steps[i], out);
        if (rc != ERR_NONE)
            rc = err_set(rc, "%s; a checkpoint that cannot be read is not passed over: repair it, or move %s/%s away",
                         err_message(), store, name);
        else if (!*out) {
            ++*incomplete;
            snprintf(notes + used, NOTES_BYTES - used, "%s is not complete: it has no manifest.json\n", name);
        }
    }
    free(steps);
    return rc;
}

int checkpoint_open(const char *path, struct checkpoint **out, char notes[NOTES_BYTES])
{
    struct stat status;
    char manifest[PATH_MAX];
    size_t incomplete;
    *out = NULL;
    TRY(file_join(path, "manifest.json", manifest));
    if (lstat(manifest, &status) == 0)
        return checkpoint_open_folder(path, out);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return ERR_NONE;
    TRY(store_newest(path, out, &incomplete, notes));
    return *out || incomplete == 0 ? ERR_NONE : err_set(ERR_USAGE, "%s: none of its checkpoints is complete", path);
}
