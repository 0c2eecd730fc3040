// SPDX-License-Identifier: Apache-2.0
#include "results/page/result_folder.h"

#include "base/err.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
    const char *endings;
    int (*visit)(void *context, const char *path, const char *name);
    void *context;
};

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool has_ending(const char *name, const char *endings)
{
    const char *end = strrchr(name, '.');
    for (const char *at = endings; end && *at; at += strcspn(at, "|"), at += *at == '|')
        if (strlen(end + 1) == strcspn(at, "|") && strncmp(end + 1, at, strlen(end + 1)) == 0)
            return true;
    return false;
}

// within: the folder's path below the first one.
static int walk_folder(const struct walk *walk, const char *folder, const char *within, int depth)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_shown, alphasort), rc = ERR_NONE;
    if (count < 0)
        return err_set(ERR_USAGE, "%s: cannot be read: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX], name[PATH_MAX];
        struct stat status;
        if (rc == ERR_NONE)
            rc = file_join(folder, names[i]->d_name, path);
        if (rc == ERR_NONE && *within)
            rc = file_join(within, names[i]->d_name, name);
        else
            strcpy(name, names[i]->d_name);
        if (rc == ERR_NONE && has_ending(names[i]->d_name, walk->endings))
            rc = walk->visit(walk->context, path, name);
        else if (rc == ERR_NONE && depth > 0 && lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
            rc = walk_folder(walk, path, name, depth - 1);
        free(names[i]);
    }
    free(names);
    return rc;
}

int result_folder_visit(const char *folder, const char *endings, int depth,
                        int (*visit)(void *context, const char *path, const char *name), void *context)
{
    return walk_folder(&(struct walk){endings, visit, context}, folder, "", depth);
}
