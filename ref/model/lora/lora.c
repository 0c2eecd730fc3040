// SPDX-License-Identifier: Apache-2.0
#include "ref/model/lora/lora.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_number(const char *name, const char *key, const char *text, size_t length, size_t most, size_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = length > 0 && isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
    if (*out > 0)
        return err_set(ERR_USAGE, "model %s: %s is given twice", name, key);
    if (value == 0 || value > most || errno != 0 || end != text + length)
        return err_set(ERR_USAGE, "model %s: %s=%.*s: expected a whole number from 1 to %zu", name, key, (int)length,
                       text, most);
    *out = value;
    return ERR_NONE;
}

static int parse_targets(const char *name, const char *text, size_t length, struct lora *lora)
{
    if (lora->targets[0])
        return err_set(ERR_USAGE, "model %s: targets is given twice", name);
    if (length == 0 || length >= sizeof lora->targets)
        return err_set(ERR_USAGE,
                       "model %s: targets=%.*s: expected names of modules joined by '+', at most %d characters", name,
                       (int)length, text, LORA_TARGETS_BYTES - 1);
    memcpy(lora->targets, text, length);
    return ERR_NONE;
}

int lora_parse(const char *name, const char *text, size_t length, bool *known, struct lora *lora)
{
    static const char *const keys[] = {"rank=", "alpha=", "targets="};
    *known = false;
    for (int i = 0; i < 3; i++) {
        size_t key_length = strlen(keys[i]);
        if (length < key_length || strncmp(text, keys[i], key_length) != 0)
            continue;
        *known = true;
        text += key_length;
        length -= key_length;
        if (i == 2)
            return parse_targets(name, text, length, lora);
        return i == 0 ? parse_number(name, "rank", text, length, LORA_RANK_MAX, &lora->rank)
                      : parse_number(name, "alpha", text, length, LORA_ALPHA_MAX, &lora->alpha);
    }
    return ERR_NONE;
}

int lora_parse_all(const char *name, const char *text, struct lora *lora)
{
    *lora = (struct lora){0};
    for (;; text++) {
        bool known;
        size_t length = strcspn(text, ",");
        TRY(lora_parse(name, text, length, &known, lora));
        if (!known)
            return err_set(ERR_USAGE,
                           "model %s: unknown key '%.*s', expected rank=NUMBER, alpha=NUMBER or targets=NAME+...", name,
                           (int)strcspn(text, "=,"), text);
        text += length;
        if (!*text)
            return ERR_NONE;
    }
}

// True if a target of `length` characters names the module.
static bool names(const char *target, size_t length, const char *module)
{
    static const char ALL[] = "all-linear";
    size_t module_length = strlen(module);
    if (length == sizeof ALL - 1 && strncmp(target, ALL, length) == 0)
        return true;
    if (length == 0 || length > module_length || strncmp(target, module + module_length - length, length) != 0)
        return false;
    return length == module_length || module[module_length - length - 1] == '.';
}

bool lora_adapts(const struct lora *lora, const char *module)
{
    if (lora->rank == 0)
        return false;
    for (const char *target = lora->targets; *target; target += *target == '+') {
        size_t length = strcspn(target, "+");
        if (names(target, length, module))
            return true;
        target += length;
    }
    return false;
}

bool lora_adapts_all(const struct lora *lora)
{
    return lora_adapts(lora, "");
}

// Each target must name a module.
static int check_targets(const char *name, const char *const modules[], const struct lora *lora)
{
    const char *target = lora->targets;
    for (;;) {
        size_t length = strcspn(target, "+"), used = 0;
        bool found = false;
        char all[512] = "";
        for (int i = 0; modules[i]; i++) {
            found |= names(target, length, modules[i]);
            if (used < sizeof all)
                used += (size_t)snprintf(all + used, sizeof all - used, "%s, ", modules[i]);
        }
        if (!found)
            return err_set(ERR_USAGE, "model %s: no module is called \"%.*s\": expected %sor all-linear", name,
                           (int)length, target, all);
        if (!target[length])
            return ERR_NONE;
        target += length + 1;
    }
}

int lora_complete(const char *name, const char *default_targets, const char *const modules[], struct lora *lora)
{
    if (lora->rank == 0 && (lora->alpha > 0 || lora->targets[0]))
        return err_set(ERR_USAGE, "model %s: %s needs rank=NUMBER, the rank of the adapters", name,
                       lora->alpha > 0 ? "alpha" : "targets");
    if (lora->rank == 0)
        return ERR_NONE;
    if (lora->alpha == 0)
        lora->alpha = lora->rank;
    if (!lora->targets[0])
        snprintf(lora->targets, sizeof lora->targets, "%s", default_targets);
    return check_targets(name, modules, lora);
}

float lora_scale(const struct lora *lora)
{
    return (float)lora->alpha / (float)lora->rank;
}

const char *lora_module(const char *param_name, char out[LORA_NAME_BYTES])
{
    static const char ENDING[] = ".weight";
    size_t length = strlen(param_name), ending = sizeof ENDING - 1;
    snprintf(out, LORA_NAME_BYTES, "%s", param_name);
    if (length > ending && strcmp(param_name + length - ending, ENDING) == 0)
        out[length - ending] = '\0';
    return out;
}

const char *lora_param_name(const char *module, bool is_b, char out[LORA_NAME_BYTES])
{
    snprintf(out, LORA_NAME_BYTES, "%.*s.lora_%c.weight", LORA_NAME_BYTES - 16, module, is_b ? 'B' : 'A');
    return out;
}

void lora_initialise(bool is_b, size_t columns, size_t count, uint64_t key, float *out)
{
    // A random 24-bit integer as a multiple of 2^-23, less 1: exact, from -1 to below 1.
    float bound = columns ? 1.0f / sqrtf((float)columns) : 0.0f;
    for (size_t i = 0; i < count; i++)
        out[i] = is_b ? 0.0f : bound * ((float)(random_at(key, i) >> 40) * 0x1p-23f - 1.0f);
}
