// SPDX-License-Identifier: Apache-2.0
#include "ref/model/model_kept.h"

#include "base/err.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct model *model;
    struct kept *next;
};
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept;

static int find_locked(const char *name, int (*make)(const char *name, struct model **out), const struct model **out)
{
    for (struct kept *k = kept; k; k = k->next) {
        if (strcmp(k->model->name, name) == 0) {
            *out = k->model;
            return ERR_NONE;
        }
    }
    struct kept *k = malloc(sizeof *k);
    if (!k)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    int code = make(name, &k->model);
    if (code != ERR_NONE) {
        free(k);
        return code;
    }
    k->next = kept;
    kept = k;
    *out = k->model;
    return ERR_NONE;
}

int model_kept(const char *name, int (*make)(const char *name, struct model **out), const struct model **out)
{
    pthread_mutex_lock(&kept_lock);
    int code = find_locked(name, make, out);
    pthread_mutex_unlock(&kept_lock);
    return code;
}
