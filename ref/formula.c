// SPDX-License-Identifier: Apache-2.0
#include "formula.h"

#include <stdio.h>
#include <string.h>

// Bytes of an element, as in the paper: p for parameters, g for gradients that are kept, c for gradients on the wire,
// and K = 8 or 12 for the optimizer (moments, and the master copy of parameters in another format or on another tier).
struct terms {
    const struct stage *stage;
    const struct config *config;
    uint64_t p, g, c;
    uint64_t ranks, micro_steps;
    int rank;
};

enum { MOMENT = 4, MASTER = 4 };

static struct terms terms_of(const struct stage *stage, int rank)
{
    const struct config *config = stage->setting.config;
    return (struct terms){
        .stage = stage,
        .config = config,
        .p = dtype_bytes(config->precision),
        .g = dtype_bytes(config->accumulation_dtype),
        .c = dtype_bytes(config->communication_dtype),
        .ranks = (uint64_t)comm_world(stage->setting.comm),
        .micro_steps = config->accumulation,
        .rank = rank,
    };
}

static uint64_t own_elements(const struct terms *t, const struct bundle *bundle)
{
    return bundle_share_real(bundle, bundle_is_everybodys(bundle) ? 0 : t->rank);
}

static uint64_t blocks(uint64_t bytes)
{
    return (bytes + TIER_NVME_ALIGNMENT - 1) / TIER_NVME_ALIGNMENT * TIER_NVME_ALIGNMENT;
}

// --- bytes held ---

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

// Whether parameters and master parameters are one memory.
static bool is_one_copy(const struct terms *t, const struct place *place)
{
    return t->config->precision == DTYPE_FP32 && place->optimizer_tier == place->parameter_tier && !delayed(t);
}

static enum ledger_tier pending_tier(const struct place *place)
{
    return place->parameter_tier == TIER_DEVICE ? TIER_HOST : place->parameter_tier;
}

// Optimizer states, "K Psi / N_d", and what the delayed update keeps twice.
static void hold_optimizer(const struct terms *t, const struct bundle *bundle, const struct place *place,
                           struct formula *f)
{
    hold_share(t, bundle, place->optimizer_tier, KIND_OPTIMIZER, MOMENT, f);  // exp_avg
    hold_share(t, bundle, place->optimizer_tier, KIND_OPTIMIZER, MOMENT, f);  // exp_avg_sq
    if (!is_one_copy(t, place))
        hold_share(t, bundle, place->optimizer_tier, KIND_MASTER, MASTER, f);
    if (delayed(t)) {
        hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
        hold_share(t, bundle, pending_tier(place), KIND_PARAMETER, t->p, f);
    }
}

// "(2 + 2 + K) Psi": everything, everywhere.
static void ddp_hold(const struct terms *t, const struct bundle *bundle, const struct place *place, struct formula *f)
{
    hold_whole(bundle, KIND_PARAMETER, t->p, f);
    if (bundle->frozen)
        return;
    hold_whole(bundle, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bundle, place, f);
}

// "2 Psi + 2 Psi + K Psi / N_d"; offloaded, a share of the gradients goes to the host as well.
static void zero1_hold(const struct terms *t, const struct bundle *bundle, const struct place *place,
                       struct formula *f)
{
    ddp_hold(t, bundle, place, f);
    if (!bundle->frozen && place->gradient_tier != TIER_DEVICE)
        hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
}

// "2 Psi + (2 + K) Psi / N_d".
static void zero2_hold(const struct terms *t, const struct bundle *bundle, const struct place *place,
                       struct formula *f)
{
    hold_whole(bundle, KIND_PARAMETER, t->p, f);
    if (bundle->frozen)
        return;
    hold_share(t, bundle, place->gradient_tier, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bundle, place, f);
}

// "(2 + 2 + K) Psi / N_d".
static void zero3_hold(const struct terms *t, const struct bundle *bundle, const struct place *place,
                       struct formula *f)
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

static void hold_staging(const struct stage *stage, struct formula *f)
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

// --- bytes moved between tiers ---

static void copy(uint64_t lanes[LANE_COUNT][OPERATION_COUNT], enum lane lane, uint64_t bytes)
{
    lanes[lane][OPERATION_COPY] += bytes;
}

// A rank's elements of a bundle in one format on NVMe, transferred sub-group by sub-group.
static uint64_t sub_group_blocks(const struct terms *t, int bundle, uint64_t element_bytes)
{
    uint64_t own = own_elements(t, &t->stage->layout.bundles[bundle]), bytes = 0;
    uint64_t length = optimizer_sub_group_count(&t->stage->optimizer, bundle);
    for (uint64_t from = 0; from < own; from += length)
        bytes += blocks((own - from < length ? own - from : length) * element_bytes);
    return bytes;
}

// Gradients to where they are kept: c bytes an element leave the device each time, and on NVMe g are written, and read
// again to add to them.
static void gradient_traffic(const struct terms *t, int bundle, uint64_t times, struct formula *f)
{
    const struct place *place = &t->stage->places[bundle];
    uint64_t own = own_elements(t, &t->stage->layout.bundles[bundle]);
    if (place->gradient_tier == TIER_DEVICE)
        return;
    copy(f->step_bytes, LANE_D2H, times * t->c * own);
    if (place->gradient_tier != TIER_NVME)
        return;
    copy(f->step_bytes, LANE_NVME_WRITE, times * blocks(t->g * own));
    copy(f->step_bytes, LANE_NVME_READ, (times - 1) * blocks(t->g * own));
    copy(f->applied_bytes, LANE_NVME_READ, sub_group_blocks(t, bundle, t->g));  // for the norm
}

// States to Adam and back, and updated parameters to where they live: "2 Psi" up for 16-bit parameters on the device.
static void update_traffic(const struct terms *t, int bundle, struct formula *f)
{
    const struct place *place = &t->stage->places[bundle];
    uint64_t own = own_elements(t, &t->stage->layout.bundles[bundle]), states = sub_group_blocks(t, bundle, 4);
    bool on_host = place->optimizer_tier != TIER_DEVICE;
    if (place->optimizer_tier == TIER_NVME) {
        copy(f->applied_bytes, LANE_NVME_READ, 3 * states);
        copy(f->applied_bytes, LANE_NVME_WRITE, 3 * states);
    }
    if (on_host && place->gradient_tier == TIER_NVME)
        copy(f->applied_bytes, LANE_NVME_READ, sub_group_blocks(t, bundle, t->g));
    if (on_host && place->gradient_tier == TIER_DEVICE)
        copy(f->applied_bytes, LANE_D2H, t->g * own);
    if (is_one_copy(t, place))
        return;
    if (on_host && place->parameter_tier == TIER_DEVICE)
        copy(f->returned_bytes, LANE_H2D, t->p * own);
    if (!on_host && place->parameter_tier != TIER_DEVICE)
        copy(f->applied_bytes, LANE_D2H, t->p * own);
    if (place->parameter_tier == TIER_NVME)
        copy(f->applied_bytes, LANE_NVME_WRITE, sub_group_blocks(t, bundle, t->p));
}

// --- bytes sent ---

static uint64_t gather_bytes(const struct terms *t, const struct bundle *bundle)
{
    return (t->ranks - 1) * t->p * own_elements(t, bundle);
}

static uint64_t scatter_bytes(const struct terms *t, const struct bundle *bundle)
{
    return t->c * (bundle->count - own_elements(t, bundle));
}

// An all-reduce of count elements: a reduce-scatter and an all-gather over near-equal shares.
static uint64_t all_reduce_elements(uint64_t count, uint64_t ranks, uint64_t rank)
{
    uint64_t own = count / ranks + (rank < count % ranks);
    return (count - own) + (ranks - 1) * own;
}

// Traffic 2 Psi (N-1)/N: one all-reduce.
static void ddp_traffic(const struct terms *t, struct formula *f)
{
    uint64_t bucket = t->stage->exchange.reduce_bucket_count;
    for (int i = 0; i < t->stage->layout.trainable_count; i++) {
        uint64_t left = t->stage->layout.bundles[i].count;
        while (left > 0) {
            uint64_t piece = bucket > 0 && bucket < left ? bucket : left;
            f->step_bytes[LANE_COLLECTIVE][OPERATION_ALL_REDUCE] +=
                t->c * all_reduce_elements(piece, t->ranks, (uint64_t)t->rank);
            left -= piece;
        }
    }
}

// Traffic 2 Psi (N-1)/N: a reduce-scatter and an all-gather. Of the all-gather, each rank sends the share it has
// updated to all others; of the reduce-scatter, the other ranks' shares.
static void scatter_and_gather(const struct terms *t, uint64_t scatters, struct formula *f)
{
    for (int i = 0; i < t->stage->layout.trainable_count; i++) {
        const struct bundle *bundle = &t->stage->layout.bundles[i];
        f->step_bytes[LANE_COLLECTIVE][OPERATION_REDUCE_SCATTER] += scatters * scatter_bytes(t, bundle);
        f->returned_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER] += gather_bytes(t, bundle);
        gradient_traffic(t, i, scatters, f);
        update_traffic(t, i, f);
    }
}

static void zero1_traffic(const struct terms *t, struct formula *f)
{
    scatter_and_gather(t, 1, f);
}

// The same with one micro-step; each further one costs a reduce-scatter.
static void zero2_traffic(const struct terms *t, struct formula *f)
{
    scatter_and_gather(t, t->micro_steps, f);
}

// What a fixed number of slots hold, the one used longest ago first.
struct lru {
    int *order, count, capacity;
};

// Uses a bundle: true if it is there. Otherwise it comes, and the oldest goes if there is no room.
static bool lru_use(struct lru *lru, int bundle)
{
    int position = 0;
    if (lru->capacity == 0)
        return false;
    while (position < lru->count && lru->order[position] != bundle)
        position++;
    bool found = position < lru->count;
    if (!found && lru->count == lru->capacity)
        position = 0;
    if (found || lru->count == lru->capacity) {
        memmove(lru->order + position, lru->order + position + 1,
                (size_t)(lru->count - position - 1) * sizeof lru->order[0]);
        lru->count--;
    }
    lru->order[lru->count++] = bundle;
    return found;
}

// How often each bundle is gathered in one step: once a use, twice (forward, backward) a micro-step, unless it is still
// whole: max_reuse_distance allows that, and not too many other bundles were gathered in between. And how often its
// share is read from NVMe: once a gathering, unless the host still has it.
static void count_gathers(const struct terms *t, uint64_t gathers[], uint64_t reads[])
{
    const struct stage *stage = t->stage;
    const struct layout *layout = &stage->layout;
    int units = stage->setting.model->unit_count;
    uint64_t reuse = t->config->max_reuse_distance, touched = 0;
    uint64_t last[layout->bundle_count];  // elements touched when the bundle was last used
    bool own_whole[layout->bundle_count], own_read[layout->bundle_count];  // tied bundles have a slot of their own
    int gathered_order[stage->gathered.slot_count + 1], host_order[stage->host_params.slot_count + 1];
    struct lru gathered = {gathered_order, 0, stage->gathered.slot_count};
    struct lru host = {host_order, 0, stage->host_params.slot_count};
    memset(own_whole, 0, sizeof own_whole);
    memset(own_read, 0, sizeof own_read);
    memset(last, 0, sizeof last);
    for (uint64_t visit = 0; visit < t->micro_steps * 2 * (uint64_t)units; visit++) {
        int at = (int)(visit % (2 * (uint64_t)units)), unit = at < units ? at : 2 * units - 1 - at, b;
        for (int next = 0; stage_next_bundle(stage, unit, &next, &b);) {
            if (layout->bundles[b].persistent)
                continue;
            bool tied = layout->bundles[b].tied, near = touched - last[b] < reuse;
            bool whole = tied ? own_whole[b] : lru_use(&gathered, b);
            if (!whole || !near) {
                gathers[b]++;
                reads[b] += !(tied ? own_read[b] : lru_use(&host, b));
            }
            own_whole[b] = own_read[b] = true;
            touched += layout->bundles[b].count;
            last[b] = touched;
        }
    }
}

// Parameters on their way to the device, `times` of them from NVMe.
static void fetch_traffic(const struct terms *t, int bundle, uint64_t fetches, uint64_t reads,
                          uint64_t lanes[LANE_COUNT][OPERATION_COUNT])
{
    const struct bundle *b = &t->stage->layout.bundles[bundle];
    enum ledger_tier tier = t->stage->places[bundle].parameter_tier;
    lanes[LANE_COLLECTIVE][OPERATION_ALL_GATHER] += fetches * gather_bytes(t, b);
    if (tier != TIER_DEVICE)
        copy(lanes, LANE_H2D, fetches * t->p * own_elements(t, b));
    if (tier == TIER_NVME)
        copy(lanes, LANE_NVME_READ, reads * blocks(t->p * own_elements(t, b)));
}

// Traffic 3 Psi (N-1)/N: an all-gather for forward, one for backward, a reduce-scatter.
static void zero3_traffic(const struct terms *t, struct formula *f)
{
    const struct layout *layout = &t->stage->layout;
    uint64_t gathers[layout->bundle_count], reads[layout->bundle_count];
    memset(gathers, 0, sizeof gathers);
    memset(reads, 0, sizeof reads);
    count_gathers(t, gathers, reads);
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *bundle = &layout->bundles[i];
        if (!bundle->persistent)
            fetch_traffic(t, i, gathers[i], reads[i], f->step_bytes);
        else if (!bundle->frozen)
            fetch_traffic(t, i, 1, 1, f->returned_bytes);
        if (bundle->frozen)
            continue;
        f->step_bytes[LANE_COLLECTIVE][OPERATION_REDUCE_SCATTER] += t->micro_steps * scatter_bytes(t, bundle);
        gradient_traffic(t, i, t->micro_steps, f);
        update_traffic(t, i, f);
    }
}

// The largest gradient of each rank, and unless it overflows its sum of squares.
static void norm_traffic(const struct terms *t, struct formula *f)
{
    f->step_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER] += (t->ranks - 1) * sizeof(uint32_t);
    f->applied_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER] += (t->ranks - 1) * sizeof(struct norm_sum);
}

static const struct {
    void (*hold)(const struct terms *, const struct bundle *, const struct place *, struct formula *);
    void (*traffic)(const struct terms *, struct formula *);
    const char *traffic_text;
} formulas[] = {
    {ddp_hold, ddp_traffic, "2 Psi (N-1)/N elements"},
    {zero1_hold, zero1_traffic, "2 Psi (N-1)/N elements"},
    {zero2_hold, zero2_traffic, "2 Psi (N-1)/N elements"},
    {zero3_hold, zero3_traffic, "3 Psi (N-1)/N elements"},
};

void formula_of(const struct stage *stage, int rank, uint64_t activation_bytes, uint64_t report_bytes,
                struct formula *out)
{
    *out = (struct formula){0};
    struct terms t = terms_of(stage, rank);
    int number = stage->setting.config->stage;
    for (int i = 0; i < stage->layout.bundle_count; i++)
        formulas[number].hold(&t, &stage->layout.bundles[i], &stage->places[i], out);
    hold_staging(stage, out);
    out->held_bytes[TIER_DEVICE][KIND_ACTIVATION] = activation_bytes;
    formulas[number].traffic(&t, out);
    if (!stage->operations->replicates_update)
        norm_traffic(&t, out);
    out->step_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER] += (t.ranks - 1) * report_bytes;
}

// "p Psi", "(g + K) Psi/N", after what stands there already.
static void append_terms(char out[FORMULA_TEXT_BYTES], const char *const terms[], int count, const char *size)
{
    size_t used = strlen(out);
    const char *before = used > 0 ? " + " : "", *open = count > 1 ? "(" : "", *close = count > 1 ? ")" : "";
    for (int i = 0; i < count; i++, before = " + ", open = "")
        used += (size_t)snprintf(out + used, FORMULA_TEXT_BYTES - used, "%s%s%s", before, open, terms[i]);
    if (count > 0)
        snprintf(out + used, FORMULA_TEXT_BYTES - used, "%s %s", close, size);
}

const char *formula_memory_text(const struct config *config, enum ledger_tier tier, char out[FORMULA_TEXT_BYTES])
{
    enum ledger_tier gradient_tier = config->offload_optimizer.tier == TIER_DEVICE ? TIER_DEVICE : config->gradient_tier;
    // From which stage on a state is cut, and where its whole or its share lives.
    const struct {
        const char *name;
        int cut_from;
        enum ledger_tier share_tier;
    } states[] = {
        {"p", 3, config->offload_param.tier},
        {"g", 2, gradient_tier},
        {"K", 1, config->offload_optimizer.tier},
    };
    const char *whole[3], *shares[3];
    int whole_count = 0, share_count = 0;
    out[0] = '\0';
    if (config->offload_optimizer.tier != TIER_DEVICE && config->offload_optimizer.ratio < 1)
        return out;
    for (int i = 0; i < 3; i++) {
        bool cut = config->stage >= states[i].cut_from;
        if (!cut && tier == TIER_DEVICE)
            whole[whole_count++] = states[i].name;
        // Stage 1 sends a share of its whole gradients to where the optimizer is.
        if (states[i].share_tier == tier && (cut || tier != TIER_DEVICE))
            shares[share_count++] = states[i].name;
    }
    append_terms(out, whole, whole_count, "Psi");
    append_terms(out, shares, share_count, "Psi/N");
    return out;
}

const char *formula_traffic_text(const struct stage *stage)
{
    return formulas[stage->setting.config->stage].traffic_text;
}
