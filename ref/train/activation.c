// SPDX-License-Identifier: Apache-2.0
#include "ref/train/activation.h"

#include "base/err.h"

#include <stdlib.h>

size_t activations_bytes(const struct activations *a, int layer)
{
    return a->config->activation_checkpointing ? model_checkpoint_bytes(a->model, layer, a->config->micro_batch) : 0;
}

static size_t largest_bytes(const struct activations *a)
{
    size_t largest = 0;
    for (int layer = 0; layer < a->model->layer_count; layer++)
        if (activations_bytes(a, layer) > largest)
            largest = activations_bytes(a, layer);
    return largest;
}

// Two buffers: one is in use while the other is copied.
static int buffer_count(const struct activations *a, enum ledger_tier farthest)
{
    return a->config->activation_tier >= farthest && largest_bytes(a) > 0 ? 2 : 0;
}

// Where the checkpoint of a micro-batch's layer is kept.
static struct location *kept_of(const struct activations *a, int micro, int layer)
{
    return &a->kept[micro % a->in_flight * a->model->layer_count + layer];
}

static int allocate_kept(struct activations *a, struct tier *tier)
{
    enum ledger_tier where = a->config->activation_tier;
    int count = a->in_flight * a->model->layer_count;
    size_t total_bytes = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = activations_bytes(a, i % a->model->layer_count);
        a->kept[i].tier = where;
        total_bytes += bytes;
        if (where == TIER_NVME && a->move->nvme && bytes > 0)
            TRY(tier_nvme_allocate(a->move->nvme, KIND_ACTIVATION, "activation checkpoints", bytes, 0,
                                   &a->kept[i].address));
    }
    if (where == TIER_NVME || total_bytes == 0)
        return ERR_NONE;
    char *memory;
    TRY(tier_allocate(tier, where, KIND_ACTIVATION, "activation checkpoints", total_bytes, 0, (void **)&memory));
    for (int i = 0; i < count; i++) {
        size_t bytes = activations_bytes(a, i % a->model->layer_count);
        a->kept[i].address = bytes > 0 ? memory : NULL;
        memory += bytes;
    }
    return ERR_NONE;
}

int activations_open(const struct model *model, const struct config *config, int in_flight, const struct move *move,
                     struct tier *tier, struct activations *out)
{
    *out = (struct activations){.model = model, .config = config, .move = move, .in_flight = in_flight};
    out->kept = calloc((size_t)in_flight * (size_t)model->layer_count + 1, sizeof *out->kept);
    if (!out->kept)
        return err_set(ERR_MEMORY, "no memory for the table of %d layers", model->layer_count);
    TRY(allocate_kept(out, tier));
    TRY(buffer_pool_open(tier, TIER_DEVICE, "activation checkpoints", largest_bytes(out), buffer_count(out, TIER_HOST),
                         &out->device_buffers));
    return buffer_pool_open(tier, TIER_HOST, "activation checkpoints", largest_bytes(out), buffer_count(out, TIER_NVME),
                            &out->host_buffers);
}

void activations_close(struct activations *a)
{
    free(a->kept);
    a->kept = NULL;
}

void *activations_room(struct activations *a, int micro, int layer)
{
    struct location kept = *kept_of(a, micro, layer);
    if (activations_bytes(a, layer) == 0)
        return NULL;
    return kept.tier == TIER_DEVICE ? kept.address : buffer_pool_take(&a->device_buffers);
}

int activations_keep(struct activations *a, int micro, int layer, void *made)
{
    struct location kept = *kept_of(a, micro, layer), from = {TIER_DEVICE, made};
    size_t bytes = activations_bytes(a, layer);
    if (bytes == 0 || kept.tier == TIER_DEVICE)
        return ERR_NONE;
    if (kept.tier == TIER_HOST)
        return move_copy(a->move, "checkpoint", kept, from, bytes, NULL);
    struct location between = {TIER_HOST, buffer_pool_take(&a->host_buffers)};
    TRY(move_copy(a->move, "checkpoint", between, from, bytes, NULL));
    return move_copy(a->move, "write checkpoint", kept, between, bytes, NULL);
}

int activations_restore(struct activations *a, int micro, int layer, void **out)
{
    struct location from = *kept_of(a, micro, layer);
    size_t bytes = activations_bytes(a, layer);
    *out = from.address;
    if (bytes == 0 || from.tier == TIER_DEVICE)
        return ERR_NONE;
    if (from.tier == TIER_NVME) {
        struct location between = {TIER_HOST, buffer_pool_take(&a->host_buffers)};
        TRY(move_copy(a->move, "read checkpoint", between, from, bytes, NULL));
        from = between;
    }
    *out = buffer_pool_take(&a->device_buffers);
    return move_copy(a->move, "checkpoint", (struct location){TIER_DEVICE, *out}, from, bytes, NULL);
}

void activations_formula(const struct activations *a, struct formula *formula)
{
    enum ledger_tier where = a->config->activation_tier;
    uint64_t micro_steps = a->config->accumulation, in_flight = (uint64_t)a->in_flight;
    const struct buffer_pool *device = &a->device_buffers, *host = &a->host_buffers;
    formula->held_bytes[TIER_DEVICE][KIND_STAGING] += (uint64_t)device->count * device->buffer_bytes;
    formula->held_bytes[TIER_HOST][KIND_STAGING] += (uint64_t)host->count * host->buffer_bytes;
    for (int layer = 0; layer < a->model->layer_count; layer++) {
        uint64_t bytes = activations_bytes(a, layer), blocks = move_bytes(TIER_NVME, TIER_HOST, bytes);
        formula->held_bytes[where][KIND_ACTIVATION] += in_flight * bytes;
        if (where == TIER_DEVICE)
            continue;
        formula->step.bytes[LANE_D2H][OPERATION_COPY] += micro_steps * bytes;
        formula->step.bytes[LANE_H2D][OPERATION_COPY] += micro_steps * bytes;
        if (where != TIER_NVME)
            continue;
        formula->held_bytes[where][KIND_PADDING] += in_flight * (blocks - bytes);
        formula->step.bytes[LANE_NVME_WRITE][OPERATION_COPY] += micro_steps * blocks;
        formula->step.bytes[LANE_NVME_READ][OPERATION_COPY] += micro_steps * blocks;
    }
}
