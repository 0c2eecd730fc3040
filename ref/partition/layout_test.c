// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "ref/model/names/model_find.h"
#include "ref/partition/layout.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const struct model *find(const char *name)
{
    const struct model *model = NULL;
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", name);
    return model;
}

// Every element of every parameter is in exactly one piece of exactly one rank, and padding in none.
static void check_cover(const struct model *model, const struct layout *layout, int shards)
{
    for (int param = 0; param < model->param_count; param++) {
        size_t count = model->params[param].count;
        char *seen = calloc(count + 1, 1);
        const struct bucket *b = &layout->buckets[layout->bucket_of[param]];
        int of = b->shard_elements == b->padded_count ? 1 : shards;
        for (int rank = 0; rank < of; rank++) {
            struct piece piece;
            size_t real = bucket_shard_real(b, rank);
            for (int next = 0; bucket_next_piece(layout, model, layout->bucket_of[param], rank, &next, &piece);) {
                cr_assert_leq(piece.shard_index + piece.count, real);
                if (piece.param != param)
                    continue;
                cr_assert_leq(piece.param_index + piece.count, count);
                cr_assert_eq((size_t)rank * b->shard_elements + piece.shard_index,
                             layout->offset_of[param] + piece.param_index);
                for (size_t k = 0; k < piece.count; k++)
                    seen[piece.param_index + k]++;
            }
        }
        for (size_t k = 0; k < count; k++)
            cr_assert_eq(seen[k], 1, "%s, element %zu is in %d pieces", model->params[param].name, k, seen[k]);
        free(seen);
    }
}

Test(layout, every_element_has_one_owner)
{
    static const char *const models[] = {"linear", "linear-few", "gpt-nano"};
    static const int worlds[] = {1, 2, 3, 4, 8, 11, 64};
    static const size_t buckets[] = {0, 1, 997, 1000000};
    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 7; w++)
            for (int b = 0; b < 4; b++)
                for (int merge = 0; merge < 2; merge++) {
                    const struct model *model = find(models[m]);
                    struct layout_rule rule = {
                        worlds[w], !merge, merge, buckets[b], merge ? 0 : 64, 100, .owners_in_turn = false};
                    struct layout layout;
                    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
                    check_cover(model, &layout, worlds[w]);
                    size_t real = 0, padded = 0, shards = 0;
                    for (int i = 0; i < layout.bucket_count; i++) {
                        const struct bucket *bucket = &layout.buckets[i];
                        cr_assert_eq(bucket->offset, padded);
                        cr_assert_eq(bucket->frozen, i >= layout.trainable_count);
                        cr_assert_lt(bucket->padded_count - bucket->count, (size_t)worlds[w]);
                        real += bucket->count;
                        padded += bucket->padded_count;
                        shards += bucket->shard_elements;
                    }
                    cr_assert_eq(real, model_param_elements(model, false));
                    cr_assert_eq(padded, layout.padded_count);
                    cr_assert_eq(shards, layout.shard_elements);
                    layout_close(&layout);
                }
}

Test(layout, buckets_follow_the_rules)
{
    const struct model *model = find("linear");
    struct layout_rule rule = {3, true, true, 1500, 0, 0, .owners_in_turn = false};
    struct layout layout;
    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
    int several = 0;
    for (int i = 0; i < layout.bucket_count; i++) {
        const struct bucket *b = &layout.buckets[i];
        several += !b->tied && b->low_layer < b->high_layer;
        cr_assert(b->count <= 1500 || b->low_layer == b->high_layer || b->tied, "a merged bucket of %zu", b->count);
        for (int k = 0; k < b->param_count; k++) {
            const struct model_param *p = &model->params[b->params[k]];
            cr_assert_eq(p->frozen, b->frozen);
            cr_assert_eq(p->layer_count > 1, b->tied);
            cr_assert_leq(b->low_layer, p->first_layer);
        }
        cr_assert(!b->tied || b->param_count == 1);
    }
    cr_assert_gt(several, 0);
    layout_close(&layout);
}

// A layer lists exactly the buckets of its parameters, each once, in the order of the parameters.
Test(layout, every_layer_lists_its_buckets_once)
{
    static const char *const models[] = {"linear", "linear-few", "gpt-nano"};
    for (int m = 0; m < 3; m++)
        for (int merge = 0; merge < 2; merge++) {
            const struct model *model = find(models[m]);
            const struct layout_rule rule = {.shards = 3,
                                             .merge_layers = merge,
                                             .bucket_elements = 1500,
                                             .persistence_threshold = 64,
                                             .persistence_budget = 500};
            struct layout layout;
            cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
            cr_assert_eq(layout.layer_begin[0], 0);
            for (int layer = 0; layer < model->layer_count; layer++) {
                int at = layout.layer_begin[layer];
                for (int i = 0; i < model->layers[layer].param_count; i++) {
                    int bucket = layout.bucket_of[model->layers[layer].params[i]];
                    bool seen = false;
                    for (int k = 0; k < i; k++)
                        seen |= layout.bucket_of[model->layers[layer].params[k]] == bucket;
                    if (!seen)
                        cr_assert_eq(layout.layer_buckets[at++], bucket, "%s, layer %d", models[m], layer);
                }
                cr_assert_eq(at, layout.layer_begin[layer + 1], "%s, layer %d", models[m], layer);
            }
            layout_close(&layout);
        }
}

Test(layout, persistence_has_a_budget)
{
    const struct model *model = find("linear");
    struct layout_rule rule = {.shards = 2, .cut_frozen = true, .persistence_threshold = 64, .persistence_budget = 80};
    struct layout layout;
    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
    size_t persistent = 0;
    for (int i = 0; i < layout.bucket_count; i++) {
        persistent += layout.buckets[i].persistent ? layout.buckets[i].count : 0;
        for (int k = 0; layout.buckets[i].persistent && k < layout.buckets[i].param_count; k++)
            cr_assert_leq(model->params[layout.buckets[i].params[k]].count, 64);
    }
    cr_assert_gt(persistent, 0);
    cr_assert_leq(persistent, 80);
    layout_close(&layout);
}

// Experts share no bucket with others, and have shards of their own number; without expert parallelism they are
// parameters like others.
Test(layout, experts_are_cut_over_the_ranks_that_hold_them)
{
    const struct model *model;
    cr_assert_eq(model_find("gpt-nano:experts=4", &model), ERR_NONE);
    struct layout layout;
    for (int experts = 0; experts <= 3; experts++)
        for (int merge = 0; merge < 2; merge++) {
            const struct layout_rule rule = {
                .shards = 6, .merge_layers = merge, .bucket_elements = 100000, .expert_shards = experts};
            size_t count = 0;
            cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
            for (int i = 0; i < layout.bucket_count; i++) {
                const struct bucket *b = &layout.buckets[i];
                cr_expect_eq(b->padded_count / b->shard_elements, b->expert ? (size_t)experts : 6u);
                for (int k = 0; k < b->param_count; k++)
                    cr_expect_eq(b->expert, experts > 0 && model->params[b->params[k]].expert, "%s",
                                 model->params[b->params[k]].name);
                count += b->count;
            }
            cr_expect_eq(count, model_param_elements(model, false));
            layout_close(&layout);
        }
}
