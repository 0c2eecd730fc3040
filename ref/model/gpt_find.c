// SPDX-License-Identifier: Apache-2.0
#include "ref/model/gpt_find.h"

#include "base/err.h"
#include "ref/model/gpt.h"
#include "ref/model/model_kept.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    struct gpt_shape shape;
} known[] = {
    {"gpt-nano", {2, 16, 2, 16, 256, .tile_count = 1, .product_blocks = 1}},
    {"gpt-tiny", {4, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1}},
    {"gpt-3m", {4, 256, 4, 128, 256, .tile_count = 1, .product_blocks = 1}},
    {"gpt-10m", {6, 384, 6, 256, 256, .tile_count = 1, .product_blocks = 1}},
    {"gpt2-124m", {12, 768, 12, 1024, 50257, .tile_count = 1, .product_blocks = 1}},
    {"gpt2-1.5b", {48, 1600, 25, 1024, 50257, .tile_count = 1, .product_blocks = 1}},
};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

static const struct model_key keys[] = {
    {"layers", offsetof(struct gpt_shape, block_count)},
    {"width", offsetof(struct gpt_shape, width)},
    {"heads", offsetof(struct gpt_shape, head_count)},
    {"length", offsetof(struct gpt_shape, sequence_length)},
    {"vocabulary", offsetof(struct gpt_shape, vocabulary)},
    {"tiles", offsetof(struct gpt_shape, tile_count)},
    {"blocks", offsetof(struct gpt_shape, product_blocks)},
    {"experts", offsetof(struct gpt_shape, experts.count)},
    {"top", offsetof(struct gpt_shape, experts.top)},
    {"sequence_parallel", offsetof(struct gpt_shape, sequence_parallel)},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

// Keys with decimals, and the largest whole number of each.
static const struct {
    const char *name, *example;
    size_t most, at;
} factors[] = {
    {"capacity", "1.25", GPT_EXPERTS_MAX, offsetof(struct gpt_shape, experts.capacity_thousandths)},
    {"aux_loss", "0.01", 1, offsetof(struct gpt_shape, experts.aux_loss_thousandths)},
};
enum { FACTOR_COUNT = sizeof factors / sizeof *factors };

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

// Parses KEY=FACTOR, with at most three decimals, as thousandths.
static int parse_factor(const char *name, int key, const char *text, size_t length, struct gpt_shape *shape)
{
    const char *at = text + strlen(factors[key].name) + 1, *end = text + length;
    size_t value = 0, decimals = 0, most = 1000 * factors[key].most;
    size_t *thousandths = (size_t *)(void *)((char *)shape + factors[key].at);
    bool point = false, good = at < end;
    if (*thousandths)
        return err_set(ERR_USAGE, "model %s: %s is given twice", name, factors[key].name);
    for (; at < end && good; at++) {
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        decimals += point;
        good = isdigit((unsigned char)*at) && decimals <= 3 && value <= most;
        value = 10 * value + (size_t)(*at - '0');
    }
    for (; decimals < 3; decimals++)
        value *= 10;
    if (!good || value == 0 || value > most)
        return err_set(ERR_USAGE, "model %s: %.*s: expected %s=FACTOR, from 0.001 to %zu, such as %s", name,
                       (int)length, text, factors[key].name, factors[key].most, factors[key].example);
    *thousandths = value;
    return ERR_NONE;
}

// Parses one KEY=NUMBER of `length` characters; *seen has a bit for each key given so far.
static int parse_key(const char *name, const char *text, size_t length, unsigned *seen, struct gpt_shape *shape)
{
    size_t key_length = strcspn(text, "=,");
    bool adapters, known_key;
    TRY(lora_parse(name, text, length, &adapters, &shape->lora));
    if (adapters)
        return ERR_NONE;
    for (int i = 0; i < FACTOR_COUNT; i++)
        if (strlen(factors[i].name) == key_length && strncmp(factors[i].name, text, key_length) == 0)
            return parse_factor(name, i, text, length, shape);
    TRY(model_key_parse(name, text, length, keys, KEY_COUNT, seen, shape, &known_key));
    if (known_key)
        return ERR_NONE;
    return err_set(
        ERR_USAGE,
        "model %s: unknown key '%.*s', expected KEY=NUMBER,... with keys of layers, width, heads, "
        "length, vocabulary, tiles, blocks, sequence_parallel, experts, top, capacity, aux_loss, rank, alpha, targets",
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

static int make(const char *name, struct model **out)
{
    struct gpt_shape shape;
    TRY(parse(name, &shape));
    return gpt_make(name, &shape, out);
}

int gpt_find(const char *name, const struct model **out)
{
    if (strlen(name) >= GPT_NAME_BYTES)
        return err_set(ERR_USAGE, "the model name %.40s... is too long: expected at most %d characters", name,
                       GPT_NAME_BYTES - 1);
    return model_kept(name, make, out);
}
