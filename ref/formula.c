// SPDX-License-Identifier: Apache-2.0
#include "formula.h"

#include <string.h>

// Sums over bundles: whole and one rank's, real elements and padding.
struct extent {
    uint64_t whole, whole_padding;
    uint64_t own, own_padding;
};

static void add_bundle(struct extent *extent, const struct bundle *bundle, int rank)
{
    int share = bundle->share_count == bundle->padded_count ? 0 : rank;
    uint64_t real = bundle_share_real(bundle, share);
    extent->whole += bundle->count;
    extent->whole_padding += bundle->padded_count - bundle->count;
    extent->own += real;
    extent->own_padding += bundle->share_count - real;
}

// What the formulas are made of. Psi of the paper is all.whole; bytes an element as there: 2 or 4 for parameters and
// gradients, K = 8 or 12 for the optimizer (moments, and the master copy of 16-bit parameters).
struct terms {
    struct extent all, trainable, persistent;
    uint64_t p, g, c;  // bytes of an element: parameter, kept gradient, gradient on the wire
    uint64_t moments, master;
    uint64_t ranks, micro_steps;
};

static struct terms terms_of(const struct stage *stage, int rank)
{
    const struct config *config = stage->setting.config;
    struct terms t = {
        .p = dtype_bytes(config->precision),
        .g = dtype_bytes(config->accumulation_dtype),
        .c = dtype_bytes(config->communication_dtype),
        .moments = 8,
        .master = config->precision == DTYPE_FP32 ? 0 : 4,
        .ranks = (uint64_t)comm_world(stage->setting.comm),
        .micro_steps = config->accumulation,
    };
    for (int i = 0; i < stage->layout.bundle_count; i++) {
        const struct bundle *bundle = &stage->layout.bundles[i];
        add_bundle(&t.all, bundle, rank);
        if (!bundle->frozen)
            add_bundle(&t.trainable, bundle, rank);
        if (bundle->persistent)
            add_bundle(&t.persistent, bundle, rank);
    }
    return t;
}

// An all-reduce of count elements: a reduce-scatter and an all-gather over near-equal shares.
static uint64_t all_reduce_elements(uint64_t count, uint64_t ranks, uint64_t rank)
{
    uint64_t own = count / ranks + (rank < count % ranks);
    return (count - own) + (ranks - 1) * own;
}

// "(2 + 2 + K) Psi": everything, everywhere. Traffic 2 Psi (N-1)/N: one all-reduce.
static void ddp_formula(const struct stage *stage, const struct terms *t, int rank, struct formula *f)
{
    f->held_bytes[KIND_PARAMETER] = t->p * t->all.whole;
    f->held_bytes[KIND_GRADIENT] = t->g * t->trainable.whole;
    f->held_bytes[KIND_OPTIMIZER] = t->moments * t->trainable.whole;
    f->held_bytes[KIND_MASTER] = t->master * t->trainable.whole;
    uint64_t bucket = stage->exchange.reduce_bucket_count;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        uint64_t left = stage->layout.bundles[i].count;
        while (left > 0) {
            uint64_t piece = bucket > 0 && bucket < left ? bucket : left;
            f->step_bytes[OPERATION_ALL_REDUCE] += t->c * all_reduce_elements(piece, t->ranks, (uint64_t)rank);
            left -= piece;
        }
    }
}

// Everything below sends the other ranks' shares of the gradients, and has its own received by all others.
static uint64_t scatter_bytes(const struct terms *t)
{
    return t->c * (t->trainable.whole - t->trainable.own);
}

static void norm_traffic(const struct terms *t, struct formula *f)
{
    f->step_bytes[OPERATION_ALL_GATHER] += (t->ranks - 1) * sizeof(uint32_t);
    f->applied_bytes[OPERATION_ALL_GATHER] += (t->ranks - 1) * sizeof(struct norm_sum);
}

// "2 Psi + 2 Psi + K Psi / N_d". Traffic 2 Psi (N-1)/N: a reduce-scatter and an all-gather.
static void zero1_formula(const struct stage *stage, const struct terms *t, int rank, struct formula *f)
{
    (void)stage, (void)rank;
    f->held_bytes[KIND_PARAMETER] = t->p * t->all.whole;
    f->held_bytes[KIND_GRADIENT] = t->g * t->trainable.whole;
    f->held_bytes[KIND_OPTIMIZER] = t->moments * t->trainable.own;
    f->held_bytes[KIND_MASTER] = t->master * t->trainable.own;
    f->held_bytes[KIND_PADDING] = t->p * t->all.whole_padding + t->g * t->trainable.whole_padding +
                                  (t->moments + t->master) * t->trainable.own_padding;
    f->step_bytes[OPERATION_REDUCE_SCATTER] = scatter_bytes(t);
    f->applied_bytes[OPERATION_ALL_GATHER] = (t->ranks - 1) * t->p * t->trainable.own;
    norm_traffic(t, f);
}

// "2 Psi + (2 + K) Psi / N_d". The same traffic with one micro-step; each further one costs a reduce-scatter.
static void zero2_formula(const struct stage *stage, const struct terms *t, int rank, struct formula *f)
{
    (void)stage, (void)rank;
    f->held_bytes[KIND_PARAMETER] = t->p * t->all.whole;
    f->held_bytes[KIND_GRADIENT] = t->g * t->trainable.own;
    f->held_bytes[KIND_OPTIMIZER] = t->moments * t->trainable.own;
    f->held_bytes[KIND_MASTER] = t->master * t->trainable.own;
    f->held_bytes[KIND_PADDING] =
        t->p * t->all.whole_padding + (t->g + t->moments + t->master) * t->trainable.own_padding;
    f->step_bytes[OPERATION_REDUCE_SCATTER] = t->micro_steps * scatter_bytes(t);
    f->applied_bytes[OPERATION_ALL_GATHER] = (t->ranks - 1) * t->p * t->trainable.own;
    norm_traffic(t, f);
}

// How often a bundle is gathered in one step: once a use, twice (forward, backward) a micro-step, unless it is still
// whole: max_reuse_distance allows that, and no more than `slots` other bundles were gathered in between.
static uint64_t gathers(const struct stage *stage, int bundle, uint64_t micro_steps)
{
    const struct model *model = stage->setting.model;
    const struct layout *layout = &stage->layout;
    uint64_t reuse = stage->setting.config->max_reuse_distance, count = 0, touched = 0;
    uint64_t last[layout->bundle_count];  // elements touched when the bundle was last used
    bool is_whole[layout->bundle_count];
    int order[layout->bundle_count], whole = 0;  // what the slots hold, the one used longest ago first
    int units = model->unit_count;
    memset(is_whole, 0, sizeof is_whole);
    for (uint64_t visit = 0; visit < micro_steps * 2 * (uint64_t)units; visit++) {
        int at = (int)(visit % (2 * (uint64_t)units));
        int unit = at < units ? at : 2 * units - 1 - at;
        int b;
        for (int next = 0; stage_next_bundle(stage, unit, &next, &b);) {
            if (layout->bundles[b].persistent)
                continue;
            bool tied = layout->bundles[b].tied;
            int position = 0;
            while (position < whole && order[position] != b)
                position++;
            bool hit = is_whole[b] && touched - last[b] < reuse;
            if (!hit && b == bundle)
                count++;
            if (!tied) {
                // Used now: it becomes the youngest. A gather into full slots forgets the oldest.
                if (position < whole) {
                    memmove(order + position, order + position + 1, (size_t)(whole - position - 1) * sizeof order[0]);
                    whole--;
                } else if (whole == stage->gathered.slot_count) {
                    is_whole[order[0]] = false;
                    memmove(order, order + 1, (size_t)(whole - 1) * sizeof order[0]);
                    whole--;
                }
                order[whole++] = b;
            }
            is_whole[b] = true;
            touched += layout->bundles[b].count;
            last[b] = touched;
        }
    }
    return count;
}

// "(2 + 2 + K) Psi / N_d". Traffic 3 Psi (N-1)/N: an all-gather for forward, one for backward, a reduce-scatter.
static void zero3_formula(const struct stage *stage, const struct terms *t, int rank, struct formula *f)
{
    f->held_bytes[KIND_PARAMETER] = t->p * (t->all.own + t->persistent.whole);
    f->held_bytes[KIND_GRADIENT] = t->g * t->trainable.own;
    f->held_bytes[KIND_OPTIMIZER] = t->moments * t->trainable.own;
    f->held_bytes[KIND_MASTER] = t->master * t->trainable.own;
    f->held_bytes[KIND_PADDING] = t->p * (t->all.own_padding + t->persistent.whole_padding) +
                                  (t->g + t->moments + t->master) * t->trainable.own_padding;
    f->step_bytes[OPERATION_REDUCE_SCATTER] = t->micro_steps * scatter_bytes(t);
    for (int i = 0; i < stage->layout.bundle_count; i++) {
        const struct bundle *bundle = &stage->layout.bundles[i];
        int share = bundle->share_count == bundle->padded_count ? 0 : rank;
        uint64_t sent = (t->ranks - 1) * t->p * bundle_share_real(bundle, share);
        if (!bundle->persistent)
            f->step_bytes[OPERATION_ALL_GATHER] += gathers(stage, i, t->micro_steps) * sent;
        else if (!bundle->frozen)
            f->applied_bytes[OPERATION_ALL_GATHER] += sent;
    }
    norm_traffic(t, f);
}

// Staging: so many slots of the largest bundle, and the tied ones' own.
static uint64_t slots_bytes(const struct slots *slots, int bundle_count, bool skip_persistent)
{
    uint64_t tied = 0;
    for (int i = 0; i < bundle_count; i++)
        tied += slots->layout->bundles[i].tied ? slots->layout->bundles[i].padded_count : 0;
    uint64_t turns = slots_largest(slots->layout, bundle_count, skip_persistent);
    return ((uint64_t)slots->slot_count * turns + tied) * slots->element_bytes;
}

static const struct {
    void (*compute)(const struct stage *, const struct terms *, int, struct formula *);
    const char *memory, *traffic;
} formulas[] = {
    {ddp_formula, "(p + g + K) Psi", "2 Psi (N-1)/N elements"},
    {zero1_formula, "(p + g) Psi + K Psi/N", "2 Psi (N-1)/N elements"},
    {zero2_formula, "p Psi + (g + K) Psi/N", "2 Psi (N-1)/N elements"},
    {zero3_formula, "(p + g + K) Psi/N", "3 Psi (N-1)/N elements"},
};

void formula_of(const struct stage *stage, int rank, uint64_t activation_bytes, uint64_t report_bytes,
                struct formula *out)
{
    *out = (struct formula){0};
    struct terms t = terms_of(stage, rank);
    formulas[stage->setting.config->stage].compute(stage, &t, rank, out);
    const struct layout *layout = &stage->layout;
    if (stage->has_buckets)
        out->held_bytes[KIND_STAGING] += slots_bytes(&stage->buckets, layout->trainable_count, false);
    if (stage->has_wire)
        out->held_bytes[KIND_STAGING] += slots_bytes(&stage->wire, layout->trainable_count, false);
    if (stage->gathered.layout)
        out->held_bytes[KIND_STAGING] += slots_bytes(&stage->gathered, layout->bundle_count, true);
    out->held_bytes[KIND_ACTIVATION] = activation_bytes;
    out->step_bytes[OPERATION_ALL_GATHER] += (t.ranks - 1) * report_bytes;
}

const char *formula_memory_text(const struct stage *stage)
{
    return formulas[stage->setting.config->stage].memory;
}

const char *formula_traffic_text(const struct stage *stage)
{
    return formulas[stage->setting.config->stage].traffic;
}
