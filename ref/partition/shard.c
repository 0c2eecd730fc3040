// SPDX-License-Identifier: Apache-2.0
#include "ref/partition/shard.h"

#include "base/err.h"

#include <stdlib.h>

bool bundle_is_everybodys(const struct bundle *bundle)
{
    return bundle->owner < 0 && bundle->share_count == bundle->padded_count;
}

size_t bundle_share_room(const struct bundle *bundle, int rank)
{
    return bundle->owner < 0 || bundle->owner == rank ? bundle->share_count : 0;
}

size_t bundle_share_begin(const struct bundle *bundle, int rank)
{
    return bundle->owner < 0 ? (size_t)rank * bundle->share_count : 0;
}

size_t bundle_share_real(const struct bundle *bundle, int rank)
{
    if (bundle->owner >= 0)
        return bundle_share_room(bundle, rank);
    size_t begin = (size_t)rank * bundle->share_count;
    if (begin >= bundle->count)
        return 0;
    size_t left = bundle->count - begin;
    return left < bundle->share_count ? left : bundle->share_count;
}

bool bundle_next_piece(const struct layout *layout, const struct model *model, int bundle, int rank, int *next,
                       struct piece *out)
{
    const struct bundle *b = &layout->bundles[bundle];
    size_t begin = bundle_share_begin(b, rank);
    size_t end = begin + bundle_share_real(b, rank);
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

// The bundles under construction: the list of parameters grows at its end, and so does the last bundle.
struct builder {
    const struct model *model;
    const struct layout_rule *rule;
    struct layout *layout;
    int listed;
};

static void begin_bundle(struct builder *b, bool frozen, bool tied, bool persistent)
{
    struct layout *layout = b->layout;
    layout->bundles[layout->bundle_count++] = (struct bundle){
        .params = layout->params + b->listed,
        .low_unit = b->model->unit_count,
        .high_unit = -1,
        .frozen = frozen,
        .tied = tied,
        .persistent = persistent,
    };
}

static void append(struct builder *b, int param, int high_unit)
{
    const struct model_param *p = &b->model->params[param];
    struct layout *layout = b->layout;
    struct bundle *bundle = &layout->bundles[layout->bundle_count - 1];
    layout->params[b->listed++] = param;
    layout->bundle_of[param] = layout->bundle_count - 1;
    layout->offset_of[param] = bundle->count;
    bundle->param_count++;
    bundle->count += p->count;
    if (p->first_unit < bundle->low_unit)
        bundle->low_unit = p->first_unit;
    if (high_unit > bundle->high_unit)
        bundle->high_unit = high_unit;
}

// The untied parameters of one unit that are alike; they join the open bundle (*open) if that may hold several units
// and has room for all of them.
static void bundle_unit(struct builder *b, int unit, bool frozen, bool persistent, const bool *is_persistent,
                        bool *open)
{
    const struct model *model = b->model;
    size_t count = 0;
    int found = 0;
    for (int i = 0; i < model->units[unit].param_count; i++) {
        int param = model->units[unit].params[i];
        const struct model_param *p = &model->params[param];
        if (p->unit_count == 1 && p->frozen == frozen && is_persistent[param] == persistent) {
            count += p->count;
            found++;
        }
    }
    if (found == 0)
        return;
    const struct bundle *last = &b->layout->bundles[b->layout->bundle_count - 1];
    if (!*open || !b->rule->merge_units || last->count + count > b->rule->bucket_count)
        begin_bundle(b, frozen, false, persistent);
    *open = true;
    for (int i = 0; i < model->units[unit].param_count; i++) {
        int param = model->units[unit].params[i];
        const struct model_param *p = &model->params[param];
        if (p->unit_count == 1 && p->frozen == frozen && is_persistent[param] == persistent)
            append(b, param, unit);
    }
}

static void bundle_tied(struct builder *b, int unit, bool frozen)
{
    const struct model *model = b->model;
    for (int i = 0; i < model->units[unit].param_count; i++) {
        int param = model->units[unit].params[i];
        const struct model_param *p = &model->params[param];
        if (p->unit_count == 1 || p->frozen != frozen || p->first_unit != unit)
            continue;
        int high = unit;
        for (int u = unit; u < model->unit_count; u++)
            for (int k = 0; k < model->units[u].param_count; k++)
                if (model->units[u].params[k] == param)
                    high = u;
        begin_bundle(b, frozen, true, false);
        append(b, param, high);
    }
}

static void choose_persistent(const struct builder *b, bool *is_persistent)
{
    const struct layout_rule *rule = b->rule;
    size_t total = 0;
    for (int i = 0; i < b->model->param_count; i++) {
        const struct model_param *p = &b->model->params[i];
        is_persistent[i] = rule->persistence_threshold > 0 && p->unit_count == 1 &&
                           p->count <= rule->persistence_threshold && total + p->count <= rule->persistence_budget;
        if (is_persistent[i])
            total += p->count;
    }
}

static void bundle_all(struct builder *b, bool frozen, const bool *is_persistent)
{
    for (int persistent = 0; persistent < 2; persistent++) {
        bool open = false;
        for (int unit = b->model->unit_count - 1; unit >= 0; unit--)
            bundle_unit(b, unit, frozen, persistent, is_persistent, &open);
    }
    for (int unit = b->model->unit_count - 1; unit >= 0; unit--)
        bundle_tied(b, unit, frozen);
}

static void cut(struct layout *layout, const struct layout_rule *rule)
{
    for (int i = 0; i < layout->bundle_count; i++) {
        struct bundle *bundle = &layout->bundles[i];
        bool everybodys = bundle->frozen && !rule->cut_frozen;
        bundle->owner = rule->whole_owners && !everybodys ? i % layout->shares : -1;
        size_t shares = everybodys || bundle->owner >= 0 ? 1 : (size_t)layout->shares;
        bundle->share_count = (bundle->count + shares - 1) / shares;
        bundle->padded_count = bundle->share_count * shares;
        bundle->offset = layout->padded_count;
        bundle->share_offset = layout->share_count;
        layout->padded_count += bundle->padded_count;
        layout->share_count += bundle->share_count;
        if (!bundle->frozen) {
            layout->trainable_count = i + 1;
            layout->trainable_padded_count = layout->padded_count;
            layout->trainable_share_count = layout->share_count;
        }
    }
}

int layout_open(const struct model *model, const struct layout_rule *rule, struct layout *out)
{
    size_t n = (size_t)model->param_count + 1;
    *out = (struct layout){.shares = rule->shares};
    out->params = calloc(n, sizeof *out->params);
    out->bundles = calloc(n, sizeof *out->bundles);
    out->bundle_of = calloc(n, sizeof *out->bundle_of);
    out->offset_of = calloc(n, sizeof *out->offset_of);
    bool *is_persistent = calloc(n, sizeof *is_persistent);
    if (!out->params || !out->bundles || !out->bundle_of || !out->offset_of || !is_persistent) {
        free(is_persistent);
        layout_close(out);
        return err_set(ERR_MEMORY, "no memory for the layout of %d parameters", model->param_count);
    }
    struct builder b = {model, rule, out, 0};
    choose_persistent(&b, is_persistent);
    bundle_all(&b, false, is_persistent);
    bundle_all(&b, true, is_persistent);
    free(is_persistent);
    cut(out, rule);
    return ERR_NONE;
}

void layout_close(struct layout *layout)
{
    free(layout->params);
    free(layout->bundles);
    free(layout->bundle_of);
    free(layout->offset_of);
    *layout = (struct layout){0};
}
