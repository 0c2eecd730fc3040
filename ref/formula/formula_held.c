// SPDX-License-Identifier: Apache-2.0
// The papers' formulas for bytes held, in their exact form.
#include "ref/formula/formula_internal.h"

enum { MOMENT = 4, MASTER = 4 };

// A whole bundle on the device, or one rank's share of it on a tier.
static void hold_whole(const struct bundle *bundle, enum ledger_kind kind, uint64_t element_bytes, struct formula *f)
{
    f->held_bytes[TIER_DEVICE][kind] += element_bytes * bundle->count;
    f->held_bytes[TIER_DEVICE][KIND_PADDING] += element_bytes * (bundle->padded_count - bundle->count);
}

static void hold_share(const struct terms *t, const struct bundle *bundle, enum ledger_tier tier,
                       enum ledger_kind kind, uint64_t element_bytes, struct formula *f)
{
    uint64_t own_bytes = element_bytes * own_elements(t, bundle);
    uint64_t share_bytes = element_bytes * bundle_share_room(bundle, bundle_is_everybodys(bundle) ? 0 : t->rank);
    f->held_bytes[tier][kind] += own_bytes;
    f->held_bytes[tier][KIND_PADDING] += (tier == TIER_NVME ? blocks(share_bytes) : share_bytes) - own_bytes;
}

static bool delayed(const struct terms *t)
{
    return t->config->delayed_update_start_step > 0;
}

// Optimizer states, "K Psi / N_d", and what the delayed update keeps twice.
static void hold_optimizer(const struct terms *t, const struct bundle *bundle, const struct place *place,
                           struct formula *f)
{
    hold_share(t, bundle, place->optimizer_tier, KIND_OPTIMIZER, MOMENT, f);  // exp_avg
    hold_share(t, bundle, place->optimizer_tier, KIND_OPTIMIZER, MOMENT, f);  // exp_avg_sq
    if (!is_one_copy(t->config, place))
        hold_share(t, bundle, place->optimizer_tier, KIND_MASTER, MASTER, f);
    if (delayed(t)) {
        hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
        hold_share(t, bundle, pending_tier(place), KIND_PARAMETER, t->p, f);
    }
}

// "(2 + 2 + K) Psi": everything, everywhere.
void ddp_hold(const struct terms *t, const struct bundle *bundle, const struct place *place, struct formula *f)
{
    hold_whole(bundle, KIND_PARAMETER, t->p, f);
    if (bundle->frozen)
        return;
    hold_whole(bundle, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bundle, place, f);
}

// "2 Psi + 2 Psi + K Psi / N_d"; offloaded, a share of the gradients goes to the host as well.
void zero1_hold(const struct terms *t, const struct bundle *bundle, const struct place *place, struct formula *f)
{
    ddp_hold(t, bundle, place, f);
    if (!bundle->frozen && place->gradient_tier != TIER_DEVICE)
        hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
}

// "2 Psi + (2 + K) Psi / N_d".
void zero2_hold(const struct terms *t, const struct bundle *bundle, const struct place *place, struct formula *f)
{
    hold_whole(bundle, KIND_PARAMETER, t->p, f);
    if (bundle->frozen)
        return;
    hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bundle, place, f);
}

// "(2 + 2 + K) Psi / N_d".
void zero3_hold(const struct terms *t, const struct bundle *bundle, const struct place *place, struct formula *f)
{
    hold_share(t, bundle, place->parameter_tier, KIND_PARAMETER, t->p, f);
    if (bundle->persistent)
        hold_whole(bundle, KIND_PARAMETER, t->p, f);
    if (bundle->frozen)
        return;
    hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bundle, place, f);
}

// Staging: so many slots of the largest bundle, and the tied ones' own.
static void hold_slots(const struct slots *slots, struct formula *f)
{
    if (!slots->layout)
        return;
    uint64_t bytes = (uint64_t)slots->slot_count * slots_largest_bytes(slots->layout, &slots->rule);
    for (int i = 0; i < slots->rule.bundle_count; i++)
        if (slots->layout->bundles[i].tied)
            bytes += slots_bytes(slots->layout, &slots->rule, i);
    f->held_bytes[slots->rule.where][KIND_STAGING] += bytes;
}

void formula_hold_staging(const struct stage *stage, struct formula *f)
{
    const struct ring *host[] = {&stage->arrivals, &stage->sums, &stage->optimizer.host_buffers};
    const struct ring *device = &stage->optimizer.device_buffers;
    hold_slots(&stage->buckets, f);
    hold_slots(&stage->wire, f);
    hold_slots(&stage->gathered, f);
    hold_slots(&stage->host_params, f);
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        f->held_bytes[TIER_HOST][KIND_STAGING] += (uint64_t)host[i]->count * host[i]->buffer_bytes;
    f->held_bytes[TIER_DEVICE][KIND_STAGING] += (uint64_t)device->count * device->buffer_bytes;
}
