// SPDX-License-Identifier: Apache-2.0
#include "ref/model/gpt_find.h"

#include "base/err.h"
#include "ref/model/gpt.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    struct gpt_shape shape;
} known[] = {
    {"gpt-nano", {2, 16, 2, 16, 256, 1}},         {"gpt-tiny", {4, 64, 4, 64, 256, 1}},
    {"gpt-3m", {4, 256, 4, 128, 256, 1}},         {"gpt-10m", {6, 384, 6, 256, 256, 1}},
    {"gpt2-124m", {12, 768, 12, 1024, 50257, 1}}, {"gpt2-1.5b", {48, 1600, 25, 1024, 50257, 1}},
};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

static const struct {
    const char *name;
    size_t at;
} keys[] = {
    {"layers", offsetof(struct gpt_shape, block_count)},    {"width", offsetof(struct gpt_shape, width)},
    {"heads", offsetof(struct gpt_shape, head_count)},      {"length", offsetof(struct gpt_shape, sequence_length)},
    {"vocabulary", offsetof(struct gpt_shape, vocabulary)}, {"tiles", offsetof(struct gpt_shape, tile_count)},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

const char *gpt_name(int index)
{
    return index >= 0 && index < KNOWN_COUNT ? known[index].name : NULL;
}

// The shape of the name before the colon, or NULL.
static const struct gpt_shape *base_of(const char *name)
{
    size_t length = strcspn(name, ":");
    const char *base = length == 3 && strncmp(name, "gpt", 3) == 0 ? "gpt-tiny" : name;
    length = base == name ? length : strlen(base);
    for (int i = 0; i < KNOWN_COUNT; i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, base, length) == 0)
            return &known[i].shape;
    return NULL;
}

bool gpt_is_name(const char *name)
{
    return base_of(name) != NULL;
}

// Parses one KEY=NUMBER of `length` characters; *seen has a bit for each key given so far.
static int parse_key(const char *name, const char *text, size_t length, unsigned *seen, struct gpt_shape *shape)
{
    size_t key_length = strcspn(text, "=,");
    for (int i = 0; i < KEY_COUNT; i++) {
        if (strlen(keys[i].name) != key_length || strncmp(keys[i].name, text, key_length) != 0)
            continue;
        const char *number = text + key_length + 1;
        char *end = NULL;
        errno = 0;
        unsigned long value = key_length < length && isdigit((unsigned char)*number) ? strtoul(number, &end, 10) : 0;
        if (value == 0 || errno != 0 || end != text + length)
            return err_set(ERR_USAGE, "model %s: %.*s: expected %s=NUMBER, a whole number from 1", name, (int)length,
                           text, keys[i].name);
        if (*seen & 1u << i)
            return err_set(ERR_USAGE, "model %s: %s is given twice", name, keys[i].name);
        *seen |= 1u << i;
        memcpy((char *)shape + keys[i].at, &(size_t){value}, sizeof(size_t));
        return ERR_NONE;
    }
    return err_set(ERR_USAGE,
                   "model %s: unknown key '%.*s', expected KEY=NUMBER,... with keys of layers, width, heads, "
                   "length, vocabulary, tiles",
                   name, (int)key_length, text);
}

static int parse(const char *name, struct gpt_shape *shape)
{
    const char *text = strchr(name, ':');
    unsigned seen = 0;
    *shape = *base_of(name);
    while (text) {
        text++;
        size_t length = strcspn(text, ",");
        TRY(parse_key(name, text, length, &seen, shape));
        text = text[length] ? text + length : NULL;
    }
    return ERR_NONE;
}

// Models are made at their first use and kept until the process ends.
struct found {
    struct model *model;
    struct found *next;
};
static pthread_mutex_t found_lock = PTHREAD_MUTEX_INITIALIZER;
static struct found *found;

static int find_locked(const char *name, const struct model **out)
{
    for (struct found *f = found; f; f = f->next) {
        if (strcmp(f->model->name, name) == 0) {
            *out = f->model;
            return ERR_NONE;
        }
    }
    struct gpt_shape shape;
    TRY(parse(name, &shape));
    struct found *f = malloc(sizeof *f);
    if (!f)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    int code = gpt_make(name, &shape, &f->model);
    if (code != ERR_NONE) {
        free(f);
        return code;
    }
    f->next = found;
    found = f;
    *out = f->model;
    return ERR_NONE;
}

int gpt_find(const char *name, const struct model **out)
{
    if (strlen(name) >= GPT_NAME_BYTES)
        return err_set(ERR_USAGE, "the model name %.40s... is too long: expected at most %d characters", name,
                       GPT_NAME_BYTES - 1);
    pthread_mutex_lock(&found_lock);
    int code = find_locked(name, out);
    pthread_mutex_unlock(&found_lock);
    return code;
}

int gpt_family(int index, const struct model **out)
{
    static const struct {
        int width, first_layers, last_layers;
    } rows[] = {{128, 2, 7}, {256, 2, 16}, {512, 5, 16}, {1024, 5, 16}, {2048, 5, 40}};
    *out = NULL;
    for (size_t i = 0; index >= 0 && i < sizeof rows / sizeof *rows; i++) {
        int count = rows[i].last_layers - rows[i].first_layers + 1;
        if (index < count) {
            char name[GPT_NAME_BYTES];
            snprintf(name, sizeof name, "gpt:layers=%d,width=%d,heads=%d,length=64", rows[i].first_layers + index,
                     rows[i].width, rows[i].width / 64);
            return gpt_find(name, out);
        }
        index -= count;
    }
    return ERR_NONE;
}
