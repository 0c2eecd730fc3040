// SPDX-License-Identifier: Apache-2.0
#include "ref/partition/layout.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

bool bucket_is_replicated(const struct bucket *bucket)
{
    return bucket->owner < 0 && bucket->shard_elements == bucket->padded_count;
}

size_t bucket_shard_room(const struct bucket *bucket, int rank)
{
    return bucket->owner < 0 || bucket->owner == rank ? bucket->shard_elements : 0;
}

size_t bucket_shard_begin(const struct bucket *bucket, int rank)
{
    return bucket->owner < 0 ? (size_t)rank * bucket->shard_elements : 0;
}

size_t bucket_shard_real(const struct bucket *bucket, int rank)
{
    assert(rank >= 0 && bucket->padded_count >= bucket->count);
    if (bucket->owner >= 0)
        return bucket_shard_room(bucket, rank);
    size_t begin = (size_t)rank * bucket->shard_elements;
    if (begin >= bucket->count)
        return 0;
    size_t left = bucket->count - begin;
    return left < bucket->shard_elements ? left : bucket->shard_elements;
}

bool bucket_next_piece(const struct layout *layout, const struct model *model, int bucket, int rank, int *next,
                       struct piece *out)
{
    assert(bucket >= 0 && bucket < layout->bucket_count && *next >= 0);
    const struct bucket *b = &layout->buckets[bucket];
    size_t begin = bucket_shard_begin(b, rank);
    size_t end = begin + bucket_shard_real(b, rank);
    while (*next < b->param_count) {
        int param = b->params[(*next)++];
        size_t param_begin = layout->offset_of[param];
        size_t param_end = param_begin + model->params[param].count;
        size_t from = param_begin > begin ? param_begin : begin;
        size_t to = param_end < end ? param_end : end;
        if (from < to) {
            *out = (struct piece){param, from - param_begin, from - begin, to - from};
            return true;
        }
    }
    return false;
}

// The properties that all parameters of a bucket have in common; tied ones share no bucket.
enum { ALIKE_EXPERT = 1, ALIKE_PERSISTENT = 2, ALIKE_WHOLE = 4, ALIKE_FROZEN = 8, ALIKE_TIED = 16, ALIKE_COUNT = 32 };

// The buckets under construction: the list of parameters grows at its end, and so does the last bucket.
struct builder {
    const struct model *model;
    const struct layout_rule *rule;
    struct layout *layout;
    int listed;
    uint8_t *alike;         // by parameter
    bool has[ALIKE_COUNT];  // by such properties: some parameter has them
};

static void begin_bucket(struct builder *b, int alike)
{
    struct layout *layout = b->layout;
    layout->buckets[layout->bucket_count++] = (struct bucket){
        .params = layout->params + b->listed,
        .low_layer = b->model->layer_count,
        .high_layer = -1,
        .frozen = alike & ALIKE_FROZEN,
        .tied = alike & ALIKE_TIED,
        .persistent = alike & ALIKE_PERSISTENT,
        .expert = alike & ALIKE_EXPERT,
        .whole = alike & ALIKE_WHOLE,
    };
}

static void append(struct builder *b, int param, int high_layer)
{
    const struct model_param *p = &b->model->params[param];
    struct layout *layout = b->layout;
    struct bucket *bucket = &layout->buckets[layout->bucket_count - 1];
    layout->params[b->listed++] = param;
    layout->bucket_of[param] = layout->bucket_count - 1;
    layout->offset_of[param] = bucket->count;
    bucket->param_count++;
    bucket->count += p->count;
    if (p->first_layer < bucket->low_layer)
        bucket->low_layer = p->first_layer;
    if (high_layer > bucket->high_layer)
        bucket->high_layer = high_layer;
}

// The parameters of one layer that are alike. They join the open bucket (*open) if it may hold several layers and has
// room for all of them.
static void add_layer(struct builder *b, int layer, int alike, bool *open)
{
    const struct model *model = b->model;
    size_t count = 0;
    int found = 0;
    for (int i = 0; i < model->layers[layer].param_count; i++) {
        int param = model->layers[layer].params[i];
        if (b->alike[param] == alike) {
            count += model->params[param].count;
            found++;
        }
    }
    if (found == 0)
        return;
    const struct bucket *last = &b->layout->buckets[b->layout->bucket_count - 1];
    if (!*open || !b->rule->merge_layers || last->count + count > b->rule->bucket_elements)
        begin_bucket(b, alike);
    bool alone = b->rule->block_elements > 0 || alike & ALIKE_WHOLE;
    *open = true;
    for (int i = 0; i < model->layers[layer].param_count; i++) {
        int param = model->layers[layer].params[i];
        if (b->alike[param] != alike)
            continue;
        if (alone && b->layout->buckets[b->layout->bucket_count - 1].param_count > 0)
            begin_bucket(b, alike);
        append(b, param, layer);
    }
}

static void add_tied(struct builder *b, int layer, int alike)
{
    const struct model *model = b->model;
    for (int i = 0; i < model->layers[layer].param_count; i++) {
        int param = model->layers[layer].params[i];
        if (b->alike[param] != alike || model->params[param].first_layer != layer)
            continue;
        int high = layer;
        for (int u = layer; u < model->layer_count; u++)
            for (int k = 0; k < model->layers[u].param_count; k++)
                if (model->layers[u].params[k] == param)
                    high = u;
        begin_bucket(b, alike);
        append(b, param, high);
    }
}

// Persistent ones are chosen in the order of parameters, while their budget lasts.
static void find_alike(struct builder *b)
{
    const struct layout_rule *rule = b->rule;
    size_t persistent_count = 0;
    for (int i = 0; i < b->model->param_count; i++) {
        const struct model_param *p = &b->model->params[i];
        int alike = p->frozen ? ALIKE_FROZEN : 0;
        if (p->layer_count != 1) {
            alike |= ALIKE_TIED;
        } else {
            bool persistent = rule->persistence_threshold > 0 && p->count <= rule->persistence_threshold &&
                              persistent_count + p->count <= rule->persistence_budget;
            persistent_count += persistent ? p->count : 0;
            alike |= (persistent ? ALIKE_PERSISTENT : 0) | (p->expert && rule->expert_shards > 0 ? ALIKE_EXPERT : 0);
            alike |= p->whole && !p->frozen ? ALIKE_WHOLE : 0;
        }
        b->alike[i] = (uint8_t)alike;
        b->has[alike] = true;
    }
}

static void add_all(struct builder *b, int frozen)
{
    for (int kind = 0; kind < ALIKE_FROZEN; kind++) {
        bool open = false;
        for (int layer = b->model->layer_count - 1; layer >= 0 && b->has[frozen | kind]; layer--)
            add_layer(b, layer, frozen | kind, &open);
    }
    for (int layer = b->model->layer_count - 1; layer >= 0 && b->has[frozen | ALIKE_TIED]; layer--)
        add_tied(b, layer, frozen | ALIKE_TIED);
}

static void cut(struct layout *layout, const struct layout_rule *rule)
{
    int turn = 0;
    for (int i = 0; i < layout->bucket_count; i++) {
        struct bucket *bucket = &layout->buckets[i];
        bool replicated = bucket->frozen && !rule->cut_frozen;
        int ranks = bucket->expert ? rule->expert_shards : layout->shards;
        bucket->owner = rule->owners_in_turn && !replicated ? i % ranks : -1;
        if (bucket->whole && ranks > 1)
            bucket->owner = turn++ % ranks;
        size_t shards = replicated || bucket->owner >= 0 ? 1 : (size_t)ranks;
        size_t block = rule->block_elements > 0 ? rule->block_elements : 1;
        bucket->shard_elements = (bucket->count + shards * block - 1) / (shards * block) * block;
        bucket->padded_count = bucket->shard_elements * shards;
        bucket->offset = layout->padded_count;
        assert(bucket->padded_count >= bucket->count && bucket->low_layer <= bucket->high_layer);
        layout->padded_count += bucket->padded_count;
        layout->shard_elements += bucket->shard_elements;
        if (!bucket->frozen) {
            layout->trainable_count = i + 1;
            layout->trainable_padded_count = layout->padded_count;
            layout->trainable_shard_elements = layout->shard_elements;
        }
    }
}

// Lists every layer's buckets; last_layer[bucket] is the last layer that has listed it.
static void list_by_layer(const struct model *model, struct layout *layout, int last_layer[])
{
    int listed = 0;
    for (int i = 0; i < layout->bucket_count; i++)
        last_layer[i] = -1;
    for (int layer = 0; layer < model->layer_count; layer++) {
        layout->layer_begin[layer] = listed;
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            int bucket = layout->bucket_of[model->layers[layer].params[i]];
            if (last_layer[bucket] != layer)
                layout->layer_buckets[listed++] = bucket;
            last_layer[bucket] = layer;
        }
    }
    layout->layer_begin[model->layer_count] = listed;
}

static int index_layers(const struct model *model, struct layout *layout)
{
    size_t used = 1;
    for (int layer = 0; layer < model->layer_count; layer++)
        used += (size_t)model->layers[layer].param_count;
    layout->layer_begin = calloc((size_t)model->layer_count + 1, sizeof *layout->layer_begin);
    layout->layer_buckets = calloc(used, sizeof *layout->layer_buckets);
    int *last_layer = calloc((size_t)layout->bucket_count + 1, sizeof *last_layer);
    if (layout->layer_begin && layout->layer_buckets && last_layer)
        list_by_layer(model, layout, last_layer);
    bool made = layout->layer_begin && layout->layer_buckets && last_layer;
    free(last_layer);
    return made ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the buckets of %d layers", model->layer_count);
}

int layout_open(const struct model *model, const struct layout_rule *rule, struct layout *out)
{
    assert(rule->shards >= 1);
    size_t n = (size_t)model->param_count + 1;
    *out = (struct layout){.shards = rule->shards};
    out->params = calloc(n, sizeof *out->params);
    out->buckets = calloc(n, sizeof *out->buckets);
    out->bucket_of = calloc(n, sizeof *out->bucket_of);
    out->offset_of = calloc(n, sizeof *out->offset_of);
    struct builder b = {.model = model, .rule = rule, .layout = out, .alike = calloc(n, 1)};
    if (!out->params || !out->buckets || !out->bucket_of || !out->offset_of || !b.alike) {
        free(b.alike);
        layout_close(out);
        return err_set(ERR_MEMORY, "no memory for the layout of %d parameters", model->param_count);
    }
    find_alike(&b);
    add_all(&b, 0);
    add_all(&b, ALIKE_FROZEN);
    free(b.alike);
    cut(out, rule);
    int code = index_layers(model, out);
    if (code != ERR_NONE)
        layout_close(out);
    return code;
}

void layout_close(struct layout *layout)
{
    free(layout->params);
    free(layout->buckets);
    free(layout->bucket_of);
    free(layout->offset_of);
    free(layout->layer_begin);
    free(layout->layer_buckets);
    *layout = (struct layout){0};
}
