// SPDX-License-Identifier: Apache-2.0
// The initial values of a stage's states. They are functions of the seed alone, so that every rank makes its own
// shards.
#include "ref/stage/stage_internal.h"
#include "ref/stage/stage_shard.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"

#include <stdlib.h>
#include <string.h>

// Room for one bucket's shard and one whole tensor, while a rank writes its initial shards.
struct initial {
    float *tensor, *shard;
    void *rounded;  // the tensor in the model's dtype
};

static int initialise_bucket(struct stage *stage, int bucket, const struct initial *room)
{
    const struct model *model = stage->setting.model;
    enum dtype precision = stage->setting.config->precision;
    const struct bucket *b = &stage->layout.buckets[bucket];
    const struct placement *placement = &stage->placements[bucket];
    for (int i = 0; i < b->param_count; i++) {
        int param = b->params[i];
        size_t count = model->params[param].count;
        TRY(model_initialise(model, param, stage->setting.seed, room->tensor));
        // The master begins as the rounded parameter, widened: both hold one value.
        dtype_narrow(precision, room->tensor, room->rounded, count);
        dtype_widen(precision, room->rounded, room->tensor, count);
        if (placement->full_params)
            TRY(bytes_copy((char *)placement->full_params + stage->layout.offset_of[param] * dtype_bytes(precision),
                           room->rounded, count * dtype_bytes(precision)));
        struct piece piece;
        for (int next = 0; bucket_next_piece(&stage->layout, model, bucket, stage_shard(stage, bucket), &next, &piece);)
            if (piece.param == param)
                memcpy(room->shard + piece.shard_index, room->tensor + piece.param_index,
                       piece.count * sizeof *room->shard);
    }
    TRY(stage_write_shard(stage, bucket, STATE_PARAMETER, room->shard));
    if (b->frozen)
        return ERR_NONE;
    memset(room->shard, 0, b->shard_elements * sizeof *room->shard);
    TRY(stage_write_shard(stage, bucket, STATE_EXP_AVG, room->shard));
    return stage_write_shard(stage, bucket, STATE_EXP_AVG_SQ, room->shard);
}

int stage_initialise(struct stage *stage)
{
    const struct model *model = stage->setting.model;
    size_t tensor_count = 1, shard_elements = 1;
    for (int i = 0; i < model->param_count; i++)
        if (model->params[i].count > tensor_count)
            tensor_count = model->params[i].count;
    for (int i = 0; i < stage->layout.bucket_count; i++)
        if (stage->layout.buckets[i].shard_elements > shard_elements)
            shard_elements = stage->layout.buckets[i].shard_elements;
    struct initial room = {malloc(tensor_count * sizeof(float)), malloc(shard_elements * sizeof(float)),
                           malloc(tensor_count * sizeof(float))};
    int code = room.tensor && room.shard && room.rounded
                   ? ERR_NONE
                   : err_set(ERR_MEMORY, "no memory to initialise a tensor of %zu elements", tensor_count);
    for (int i = 0; code == ERR_NONE && i < stage->layout.bucket_count; i++)
        code = initialise_bucket(stage, i, &room);
    free(room.tensor);
    free(room.shard);
    free(room.rounded);
    return code;
}
