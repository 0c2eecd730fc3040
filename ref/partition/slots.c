// SPDX-License-Identifier: Apache-2.0
#include "ref/partition/slots.h"

#include "base/err.h"
#include "ref/tier/tier.h"
#include "ref/tier/tier_nvme.h"

#include <assert.h>
#include <stdlib.h>

static bool takes_turns(const struct slots_rule *rule, const struct bundle *bundle)
{
    return !bundle->tied && !(rule->skip_persistent && bundle->persistent);
}

size_t slots_bytes(const struct layout *layout, const struct slots_rule *rule, int bundle)
{
    const struct bundle *b = &layout->bundles[bundle];
    const size_t block = TIER_NVME_ALIGNMENT;
    size_t bytes = (rule->shares ? b->share_count : b->padded_count) * rule->element_bytes;
    return rule->shares ? (bytes + block - 1) / block * block : bytes;
}

size_t slots_largest_bytes(const struct layout *layout, const struct slots_rule *rule)
{
    size_t largest = 0;
    for (int i = 0; i < rule->bundle_count; i++)
        if (takes_turns(rule, &layout->bundles[i]) && slots_bytes(layout, rule, i) > largest)
            largest = slots_bytes(layout, rule, i);
    return largest;
}

int slots_turns(const struct layout *layout, const struct slots_rule *rule)
{
    int turns = 0;
    for (int i = 0; i < rule->bundle_count; i++)
        turns += takes_turns(rule, &layout->bundles[i]);
    return turns;
}

int slots_least(const struct layout *layout, const struct slots_rule *rule, int unit_count)
{
    int least = 0;
    for (int unit = 0; unit < unit_count; unit++) {
        int used = 0;
        for (int i = 0; i < rule->bundle_count; i++) {
            const struct bundle *bundle = &layout->bundles[i];
            used += takes_turns(rule, bundle) && bundle->low_unit <= unit && unit <= bundle->high_unit;
        }
        if (used > least)
            least = used;
    }
    return least;
}

int slots_open(const struct layout *layout, const struct slots_rule *rule, int slot_count, struct tier *tier,
               struct slots *out)
{
    *out = (struct slots){.layout = layout, .rule = *rule, .slot_count = slot_count};
    out->slot_bytes = slots_largest_bytes(layout, rule);
    out->bundle_in = calloc((size_t)slot_count + 1, sizeof *out->bundle_in);
    out->used_at = calloc((size_t)slot_count + 1, sizeof *out->used_at);
    out->own_offset = calloc((size_t)layout->bundle_count + 1, sizeof *out->own_offset);
    out->own_filled = calloc((size_t)layout->bundle_count + 1, sizeof *out->own_filled);
    if (!out->bundle_in || !out->used_at || !out->own_offset || !out->own_filled)
        return err_set(ERR_MEMORY, "no memory for %d staging slots", slot_count);
    size_t own_bytes = 0;
    for (int i = 0; i < layout->bundle_count; i++) {
        out->own_offset[i] = SIZE_MAX;
        if (i < rule->bundle_count && layout->bundles[i].tied) {
            out->own_offset[i] = own_bytes;
            own_bytes += slots_bytes(layout, rule, i);
        }
    }
    slots_empty(out);
    TRY(tier_allocate(tier, rule->where, KIND_STAGING, rule->name, (size_t)slot_count * out->slot_bytes, 0,
                      (void **)&out->memory));
    return tier_allocate(tier, rule->where, KIND_STAGING, rule->name, own_bytes, 0, (void **)&out->own_memory);
}

void slots_close(struct slots *slots)
{
    free(slots->bundle_in);
    free(slots->used_at);
    free(slots->own_offset);
    free(slots->own_filled);
    *slots = (struct slots){0};
}

void slots_empty(struct slots *slots)
{
    for (int i = 0; i < slots->slot_count; i++)
        slots->bundle_in[i] = -1;
    for (int i = 0; i < slots->layout->bundle_count; i++)
        slots->own_filled[i] = false;
}

static int slot_of(const struct slots *slots, int bundle)
{
    for (int i = 0; i < slots->slot_count; i++)
        if (slots->bundle_in[i] == bundle)
            return i;
    return -1;
}

void *slots_look(const struct slots *slots, int bundle)
{
    if (slots->own_offset[bundle] != SIZE_MAX)
        return slots->own_filled[bundle] ? slots->own_memory + slots->own_offset[bundle] : NULL;
    int slot = slot_of(slots, bundle);
    return slot < 0 ? NULL : slots->memory + (size_t)slot * slots->slot_bytes;
}

void *slots_find(struct slots *slots, int bundle)
{
    int slot = slots->own_offset[bundle] == SIZE_MAX ? slot_of(slots, bundle) : -1;
    if (slot >= 0)
        slots->used_at[slot] = ++slots->now;
    return slots_look(slots, bundle);
}

void slots_drop(struct slots *slots, int bundle)
{
    slots->own_filled[bundle] = false;
    for (int i = 0; i < slots->slot_count; i++)
        if (slots->bundle_in[i] == bundle)
            slots->bundle_in[i] = -1;
}

static int oldest_slot(const struct slots *slots)
{
    int oldest = 0;
    for (int i = 1; i < slots->slot_count; i++) {
        bool empty = slots->bundle_in[i] < 0, oldest_is_empty = slots->bundle_in[oldest] < 0;
        if (empty == oldest_is_empty ? slots->used_at[i] < slots->used_at[oldest] : empty)
            oldest = i;
    }
    return oldest;
}

int slots_victim(const struct slots *slots)
{
    return slots->slot_count > 0 ? slots->bundle_in[oldest_slot(slots)] : -1;
}

void *slots_take(struct slots *slots, int bundle)
{
    if (slots->own_offset[bundle] != SIZE_MAX) {
        slots->own_filled[bundle] = true;
        return slots->own_memory + slots->own_offset[bundle];
    }
    assert(slots->slot_count > 0);
    slots_drop(slots, bundle);
    int oldest = oldest_slot(slots);
    slots->bundle_in[oldest] = bundle;
    slots->used_at[oldest] = ++slots->now;
    return slots->memory + (size_t)oldest * slots->slot_bytes;
}
