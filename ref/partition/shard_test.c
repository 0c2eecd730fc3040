// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "ref/partition/shard.h"
#include "ref/partition/slots.h"
#include "ref/tier/tier.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct model *find(const char *name)
{
    const struct model *model = NULL;
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", name);
    return model;
}

// Every element of every parameter is in exactly one piece of exactly one rank, and padding in none.
static void check_cover(const struct model *model, const struct layout *layout, int shares)
{
    for (int param = 0; param < model->param_count; param++) {
        size_t count = model->params[param].count;
        char *seen = calloc(count + 1, 1);
        const struct bundle *b = &layout->bundles[layout->bundle_of[param]];
        int of = b->share_count == b->padded_count ? 1 : shares;
        for (int rank = 0; rank < of; rank++) {
            struct piece piece;
            size_t real = bundle_share_real(b, rank);
            for (int next = 0; bundle_next_piece(layout, model, layout->bundle_of[param], rank, &next, &piece);) {
                cr_assert_leq(piece.share_index + piece.count, real);
                if (piece.param != param)
                    continue;
                cr_assert_leq(piece.param_index + piece.count, count);
                cr_assert_eq((size_t)rank * b->share_count + piece.share_index,
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

Test(shard, every_element_has_one_owner)
{
    static const char *const models[] = {"linear", "linear-few", "gpt-nano"};
    static const int worlds[] = {1, 2, 3, 4, 8, 11, 64};
    static const size_t buckets[] = {0, 1, 997, 1000000};
    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 7; w++)
            for (int b = 0; b < 4; b++)
                for (int merge = 0; merge < 2; merge++) {
                    const struct model *model = find(models[m]);
                    struct layout_rule rule = {worlds[w], !merge, merge, buckets[b], merge ? 0 : 64, 100, false};
                    struct layout layout;
                    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
                    check_cover(model, &layout, worlds[w]);
                    size_t real = 0, padded = 0, shares = 0;
                    for (int i = 0; i < layout.bundle_count; i++) {
                        const struct bundle *bundle = &layout.bundles[i];
                        cr_assert_eq(bundle->offset, padded);
                        cr_assert_eq(bundle->share_offset, shares);
                        cr_assert_eq(bundle->frozen, i >= layout.trainable_count);
                        cr_assert_lt(bundle->padded_count - bundle->count, (size_t)worlds[w]);
                        real += bundle->count;
                        padded += bundle->padded_count;
                        shares += bundle->share_count;
                    }
                    cr_assert_eq(real, model_param_elements(model, false));
                    cr_assert_eq(padded, layout.padded_count);
                    cr_assert_eq(shares, layout.share_count);
                    layout_close(&layout);
                }
}

Test(shard, bundles_follow_the_rules)
{
    const struct model *model = find("linear");
    struct layout_rule rule = {3, true, true, 1500, 0, 0, false};
    struct layout layout;
    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
    int several = 0;
    for (int i = 0; i < layout.bundle_count; i++) {
        const struct bundle *b = &layout.bundles[i];
        several += !b->tied && b->low_unit < b->high_unit;
        cr_assert(b->count <= 1500 || b->low_unit == b->high_unit || b->tied, "a merged bundle of %zu", b->count);
        for (int k = 0; k < b->param_count; k++) {
            const struct model_param *p = &model->params[b->params[k]];
            cr_assert_eq(p->frozen, b->frozen);
            cr_assert_eq(p->unit_count > 1, b->tied);
            cr_assert_leq(b->low_unit, p->first_unit);
        }
        cr_assert(!b->tied || b->param_count == 1);
    }
    cr_assert_gt(several, 0);
    layout_close(&layout);
}

Test(shard, persistence_has_a_budget)
{
    const struct model *model = find("linear");
    struct layout_rule rule = {.shares = 2, .cut_frozen = true, .persistence_threshold = 64, .persistence_budget = 80};
    struct layout layout;
    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
    size_t persistent = 0;
    for (int i = 0; i < layout.bundle_count; i++) {
        persistent += layout.bundles[i].persistent ? layout.bundles[i].count : 0;
        for (int k = 0; layout.bundles[i].persistent && k < layout.bundles[i].param_count; k++)
            cr_assert_leq(model->params[layout.bundles[i].params[k]].count, 64);
    }
    cr_assert_gt(persistent, 0);
    cr_assert_leq(persistent, 80);
    layout_close(&layout);
}

// What is in a slot is found there until another bundle takes it; slots rotate, emptied ones first.
Test(shard, slots_take_turns)
{
    const struct model *model = find("gpt-nano");
    struct layout_rule rule = {2, true, false, 0, 0, 0, false};
    struct layout layout;
    struct ledger ledger = {0};
    struct tier *tier;
    struct slots slots;
    cr_assert_eq(layout_open(model, &rule, &layout), ERR_NONE);
    cr_assert_eq(tier_open(&ledger, &(struct tier_setting){0}, &tier), ERR_NONE);
    int untied[8], tied = -1, found = 0;
    for (int i = 0; i < layout.bundle_count; i++)
        if (layout.bundles[i].tied)
            tied = i;
        else if (found < 8)
            untied[found++] = i;
    cr_assert_geq(found, 3);
    cr_assert_geq(tied, 0);
    const struct slots_rule use = {.bundle_count = layout.bundle_count, .element_bytes = 2, .where = TIER_DEVICE,
                                   .name = "slots"};
    cr_assert_eq(slots_open(&layout, &use, 2, tier, &slots), ERR_NONE);
    uint64_t largest = slots_largest_bytes(&layout, &use) / 2;
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_STAGING],
                 2 * (2 * largest + layout.bundles[tied].padded_count));
    char *a = slots_take(&slots, untied[0]), *b = slots_take(&slots, untied[1]);
    cr_assert_neq(a, b);
    cr_assert_eq(slots_find(&slots, untied[0]), a);  // now b is the older one
    cr_assert_eq(slots_take(&slots, untied[2]), b);
    cr_assert_null(slots_find(&slots, untied[1]));
    slots_drop(&slots, untied[2]);
    cr_assert_null(slots_find(&slots, untied[2]));
    cr_assert_eq(slots_take(&slots, untied[1]), b);  // the empty one, though a is older
    cr_assert_null(slots_find(&slots, tied));
    char *own = slots_take(&slots, tied);
    cr_assert(own != a && own != b);
    cr_assert_eq(slots_find(&slots, untied[0]), a);
    slots_empty(&slots);
    cr_assert_null(slots_find(&slots, untied[0]));
    cr_assert_null(slots_find(&slots, tied));
    slots_close(&slots);
    tier_close(tier);
    layout_close(&layout);
}
