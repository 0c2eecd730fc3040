// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_library.h"

#include "base/err.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct search {
    const char *const *names;
    const char *needed;
    void *handle;
    char places[1024], why[512];  // where it looked; why a library that is there did not load, "": none is there
};

static void note_place(struct search *search, const char *prefix, const char *place)
{
    size_t length = strlen(search->places);
    snprintf(search->places + length, sizeof search->places - length, "%s%s%s", length ? ", " : "", prefix, place);
}

static void note_failure(struct search *search, const char *name)
{
    const char *why = dlerror();
    // The loader's message begins with the file that it misses: this one, or another that it needs.
    if (!*search->why && why && (strchr(name, '/') || strncmp(why, name, strlen(name)) != 0))
        snprintf(search->why, sizeof search->why, "; %s: %s", name, why);
}

// Loads a library whose needed one lies in its folder, which the loader does not search.
static void *load_both(const struct search *search, const char *path, const char *slash)
{
    char needed[PATH_MAX];
    if (snprintf(needed, sizeof needed, "%.*s/%s", (int)(slash - path), path, search->needed) >= PATH_MAX)
        return NULL;
    void *beside = dlopen(needed, RTLD_NOW | RTLD_LOCAL);
    void *handle = beside ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (beside)
        (void)dlclose(beside);  // the library itself holds it
    return handle;
}

static bool load(struct search *search, const char *name)
{
    const char *slash = strrchr(name, '/');
    if (slash && access(name, F_OK) != 0)
        return false;
    search->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!search->handle)
        note_failure(search, name);
    if (!search->handle && slash && search->needed)
        search->handle = load_both(search, name, slash);
    return search->handle != NULL;
}

static bool look_in(struct search *search, const char *folder)
{
    char path[PATH_MAX];
    note_place(search, folder, "");
    for (const char *const *name = search->names; *name; name++)
        if (!strchr(*name, '/') && snprintf(path, sizeof path, "%s/%s", folder, *name) < PATH_MAX && load(search, path))
            return true;
    return false;
}

static bool look_in_loader_path(struct search *search)
{
    note_place(search, "LD_LIBRARY_PATH and the system's library path", "");
    for (const char *const *name = search->names; *name; name++)
        if (load(search, *name))
            return true;
    return false;
}

static bool look_in_python(struct search *search, const char *prefix)
{
    static const char *const place = "/lib/python3*/{site,dist}-packages/nvidia/*/lib";
    char pattern[PATH_MAX];
    note_place(search, prefix, place);
    for (const char *const *name = search->names; *name && !search->handle; name++) {
        glob_t files;
        if (strchr(*name, '/') || snprintf(pattern, sizeof pattern, "%s%s/%s", prefix, place, *name) >= PATH_MAX)
            continue;
        if (glob(pattern, GLOB_BRACE, NULL, &files) == 0)
            for (size_t i = 0; i < files.gl_pathc && !load(search, files.gl_pathv[i]); i++)
                ;
        globfree(&files);
    }
    return search->handle != NULL;
}

// Looks in the prefix of a folder of PATH that has a python3.
static bool look_in_python_of(struct search *search, const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/python3", folder) >= PATH_MAX || access(path, X_OK) != 0)
        return false;
    snprintf(path, sizeof path, "%s", folder);
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return look_in_python(search, path);
}

// Calls look for each folder of a list with colons until it returns true. list may be null.
static bool look_in_each(struct search *search, const char *list, bool (*look)(struct search *, const char *))
{
    char folder[PATH_MAX];
    for (const char *next = list; next && *next; next += *next == ':') {
        size_t length = strcspn(next, ":");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, next, length);
            folder[length] = '\0';
            if (look(search, folder))
                return true;
        }
        next += length;
    }
    return false;
}

int cuda_library_open(const char *const names[], const char *needed, void **handle)
{
    struct search search = {.names = names, .needed = needed};
    const char *environment = getenv("VIRTUAL_ENV");
    if (!look_in_each(&search, getenv("ZG_CUDA_LIBRARY_PATH"), look_in) && !look_in_loader_path(&search) &&
        !look_in(&search, ZG_CUDA_LIBRARIES) && !(environment && look_in_python(&search, environment)) &&
        !look_in_each(&search, getenv("PATH"), look_in_python_of) && !look_in_python(&search, "/usr/local"))
        return err_set(ERR_USAGE,
                       "%s %s (looked in %s%s): install it, or name its folder in the environment variable "
                       "ZG_CUDA_LIBRARY_PATH",
                       names[0], *search.why ? "does not load" : "is not there", search.places, search.why);
    *handle = search.handle;
    return ERR_NONE;
}

const char *cuda_library_file(void *handle)
{
    struct link_map *map = NULL;
    (void)dlinfo(handle, RTLD_DI_LINKMAP, &map);
    return map ? map->l_name : "";
}

const char *cuda_library_find(void *handle, const struct cuda_library_function functions[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, functions[i].name);
        memcpy(functions[i].pointer, &address, sizeof address);
        if (!address)
            return functions[i].name;
    }
    return NULL;
}
