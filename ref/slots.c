// SPDX-License-Identifier: Apache-2.0
#include "slots.h"

#include "err.h"
#include "tier.h"

#include <assert.h>
#include <stdlib.h>

static bool takes_turns(const struct bundle *bundle, bool skip_persistent)
{
    return !bundle->tied && !(skip_persistent && bundle->persistent);
}

size_t slots_largest(const struct layout *layout, int bundle_count, bool skip_persistent)
{
    size_t largest = 0;
    for (int i = 0; i < bundle_count; i++) {
        const struct bundle *bundle = &layout->bundles[i];
        if (takes_turns(bundle, skip_persistent) && bundle->padded_count > largest)
            largest = bundle->padded_count;
    }
    return largest;
}

int slots_least(const struct layout *layout, int bundle_count, bool skip_persistent, int unit_count)
{
    int least = 0;
    for (int unit = 0; unit < unit_count; unit++) {
        int used = 0;
        for (int i = 0; i < bundle_count; i++) {
            const struct bundle *bundle = &layout->bundles[i];
            used += takes_turns(bundle, skip_persistent) && bundle->low_unit <= unit && unit <= bundle->high_unit;
        }
        if (used > least)
            least = used;
    }
    return least;
}

int slots_open(const struct layout *layout, int bundle_count, bool skip_persistent, size_t element_bytes,
               int slot_count, struct tier *tier, const char *name, struct slots *out)
{
    *out = (struct slots){.layout = layout, .tier = tier, .element_bytes = element_bytes, .slot_count = slot_count};
    out->slot_bytes = slots_largest(layout, bundle_count, skip_persistent) * element_bytes;
    out->bundle_in = calloc((size_t)slot_count + 1, sizeof *out->bundle_in);
    out->used_at = calloc((size_t)slot_count + 1, sizeof *out->used_at);
    out->own_offset = calloc((size_t)layout->bundle_count + 1, sizeof *out->own_offset);
    out->own_filled = calloc((size_t)layout->bundle_count + 1, sizeof *out->own_filled);
    if (!out->bundle_in || !out->used_at || !out->own_offset || !out->own_filled)
        return err_set(ERR_MEMORY, "no memory for %d staging slots", slot_count);
    size_t own_bytes = 0;
    for (int i = 0; i < layout->bundle_count; i++) {
        out->own_offset[i] = SIZE_MAX;
        if (i < bundle_count && layout->bundles[i].tied) {
            out->own_offset[i] = own_bytes;
            own_bytes += layout->bundles[i].padded_count * element_bytes;
        }
    }
    slots_empty(out);
    TRY(tier_allocate(tier, KIND_STAGING, name, (size_t)slot_count * out->slot_bytes, 0, (void **)&out->memory));
    return tier_allocate(tier, KIND_STAGING, name, own_bytes, 0, (void **)&out->own_memory);
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

void *slots_find(struct slots *slots, int bundle)
{
    if (slots->own_offset[bundle] != SIZE_MAX)
        return slots->own_filled[bundle] ? slots->own_memory + slots->own_offset[bundle] : NULL;
    for (int i = 0; i < slots->slot_count; i++)
        if (slots->bundle_in[i] == bundle) {
            slots->used_at[i] = ++slots->now;
            return slots->memory + (size_t)i * slots->slot_bytes;
        }
    return NULL;
}

void slots_drop(struct slots *slots, int bundle)
{
    slots->own_filled[bundle] = false;
    for (int i = 0; i < slots->slot_count; i++)
        if (slots->bundle_in[i] == bundle)
            slots->bundle_in[i] = -1;
}

void *slots_take(struct slots *slots, int bundle)
{
    if (slots->own_offset[bundle] != SIZE_MAX) {
        slots->own_filled[bundle] = true;
        return slots->own_memory + slots->own_offset[bundle];
    }
    assert(slots->slot_count > 0);
    slots_drop(slots, bundle);
    int oldest = 0;
    for (int i = 1; i < slots->slot_count; i++) {
        bool empty = slots->bundle_in[i] < 0, oldest_is_empty = slots->bundle_in[oldest] < 0;
        if (empty == oldest_is_empty ? slots->used_at[i] < slots->used_at[oldest] : empty)
            oldest = i;
    }
    slots->bundle_in[oldest] = bundle;
    slots->used_at[oldest] = ++slots->now;
    return slots->memory + (size_t)oldest * slots->slot_bytes;
}
