// SPDX-License-Identifier: Apache-2.0
#include "ref/model/model_kept.h"

#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int model_key_parse(const char *name, const char *text, size_t length, const struct model_key *keys, int key_count,
                    unsigned *seen, void *sizes, bool *found)
{
    size_t key_length = strcspn(text, "=,");
    int key = 0;
    while (key < key_count && (strlen(keys[key].name) != key_length || strncmp(keys[key].name, text, key_length) != 0))
        key++;
    *found = key < key_count;
    if (!*found)
        return ERR_NONE;
    const char *number = text + key_length + 1;
    char *end = NULL;
    errno = 0;
    unsigned long value = key_length < length && isdigit((unsigned char)*number) ? strtoul(number, &end, 10) : 0;
    if (value == 0 || errno != 0 || end != text + length)
        return err_set(ERR_USAGE, "model %s: %.*s: expected %s=NUMBER, a whole number from 1", name, (int)length, text,
                       keys[key].name);
    if (*seen & 1u << key)
        return err_set(ERR_USAGE, "model %s: %s is given twice", name, keys[key].name);
    *seen |= 1u << key;
    memcpy((char *)sizes + keys[key].at, &(size_t){value}, sizeof(size_t));
    return ERR_NONE;
}

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
