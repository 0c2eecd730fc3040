// SPDX-License-Identifier: Apache-2.0
// The memory that stages hold: whole states and shares of them, and the places where the optimizer finds them.
#include "stage.h"

#include "err.h"

// Elements of the bundles [0, bundle_count) that are padding in a whole buffer, and in one rank's shares.
static size_t whole_padding(const struct stage *stage, int bundle_count)
{
    size_t padding = 0;
    for (int i = 0; i < bundle_count; i++)
        padding += stage->layout.bundles[i].padded_count - stage->layout.bundles[i].count;
    return padding;
}

static int share_of(const struct stage *stage, const struct bundle *bundle)
{
    return bundle->share_count == bundle->padded_count ? 0 : comm_rank(stage->setting.comm);
}

static size_t share_padding(const struct stage *stage, int bundle_count)
{
    size_t padding = 0;
    for (int i = 0; i < bundle_count; i++) {
        const struct bundle *bundle = &stage->layout.bundles[i];
        padding += bundle->share_count - bundle_share_real(bundle, share_of(stage, bundle));
    }
    return padding;
}

static int allocate(struct stage *stage, enum ledger_kind kind, const char *name, size_t count, size_t padding_count,
                    size_t element_bytes, void *out)
{
    return tier_allocate(stage->setting.tier, kind, name, count * element_bytes, padding_count * element_bytes, out);
}

int stage_allocate_whole_params(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    char *memory;
    TRY(allocate(stage, KIND_PARAMETER, "parameters", layout->padded_count, whole_padding(stage, layout->bundle_count),
                 element_bytes, &memory));
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        char *whole = memory + b->offset * element_bytes;
        stage->places[i].whole = whole;
        stage->places[i].parameter = whole + (size_t)share_of(stage, b) * b->share_count * element_bytes;
        stage_point_params(stage, i, whole);
    }
    return ERR_NONE;
}

int stage_allocate_param_shares(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    char *memory;
    TRY(allocate(stage, KIND_PARAMETER, "parameter shares", layout->share_count,
                 share_padding(stage, layout->bundle_count), element_bytes, &memory));
    size_t persistent_count = 0, persistent_padding = 0;
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        stage->places[i].parameter = memory + b->share_offset * element_bytes;
        persistent_count += b->persistent ? b->padded_count : 0;
        persistent_padding += b->persistent ? b->padded_count - b->count : 0;
    }
    TRY(allocate(stage, KIND_PARAMETER, "persistent parameters", persistent_count, persistent_padding, element_bytes,
                 &memory));
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        if (!b->persistent)
            continue;
        stage->places[i].whole = memory;
        stage_point_params(stage, i, memory);
        memory += b->padded_count * element_bytes;
    }
    return ERR_NONE;
}

int stage_allocate_whole_gradients(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->accumulation_dtype);
    TRY(allocate(stage, KIND_GRADIENT, "gradients", layout->trainable_padded_count,
                 whole_padding(stage, layout->trainable_count), element_bytes, &stage->gradients_whole));
    for (int i = 0; i < layout->trainable_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        stage->places[i].gradient =
            stage->gradients_whole + (b->offset + (size_t)share_of(stage, b) * b->share_count) * element_bytes;
    }
    return ERR_NONE;
}

int stage_allocate_gradient_shares(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->accumulation_dtype);
    char *memory;
    TRY(allocate(stage, KIND_GRADIENT, "gradient shares", layout->trainable_share_count,
                 share_padding(stage, layout->trainable_count), element_bytes, &memory));
    for (int i = 0; i < layout->trainable_count; i++)
        stage->places[i].gradient = memory + layout->bundles[i].share_offset * element_bytes;
    return ERR_NONE;
}

int stage_allocate_optimizer(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t count = layout->trainable_share_count, padding = share_padding(stage, layout->trainable_count);
    float *exp_avg, *exp_avg_sq, *master = NULL;
    TRY(allocate(stage, KIND_OPTIMIZER, "exp_avg", count, padding, sizeof(float), &exp_avg));
    TRY(allocate(stage, KIND_OPTIMIZER, "exp_avg_sq", count, padding, sizeof(float), &exp_avg_sq));
    if (stage->setting.config->precision != DTYPE_FP32)
        TRY(allocate(stage, KIND_MASTER, "fp32 master parameters", count, padding, sizeof(float), &master));
    for (int i = 0; i < layout->trainable_count; i++) {
        struct place *place = &stage->places[i];
        size_t at = layout->bundles[i].share_offset;
        place->exp_avg = exp_avg + at;
        place->exp_avg_sq = exp_avg_sq + at;
        place->master = master ? master + at : place->parameter;
    }
    return ERR_NONE;
}

int stage_allocate_buckets(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    int trainable = stage->layout.trainable_count;
    int slots = slots_least(&stage->layout, trainable, false, stage->setting.model->unit_count);
    stage->has_buckets = true;
    if (config->overlap_comm)
        slots *= 2;  // one set is filled while the other is sent
    return slots_open(&stage->layout, trainable, false, dtype_bytes(config->precision), slots, stage->setting.tier,
                      "gradient buckets", &stage->buckets);
}

int stage_allocate_wire(struct stage *stage, enum dtype source, bool always)
{
    const struct config *config = stage->setting.config;
    stage->has_wire = always || source != config->communication_dtype;
    int slots = config->overlap_comm ? 2 : 1;
    if (slots_least(&stage->layout, stage->layout.trainable_count, false, stage->setting.model->unit_count) == 0)
        slots = 0;
    return slots_open(&stage->layout, stage->has_wire ? stage->layout.trainable_count : 0, false,
                      dtype_bytes(config->communication_dtype), stage->has_wire ? slots : 0, stage->setting.tier,
                      "gradients on the wire", &stage->wire);
}
