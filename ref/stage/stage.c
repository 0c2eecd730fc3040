// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/stage.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

extern const struct stage_operations ddp_stage, zero1_stage, zero2_stage, zero3_stage;

int stage_find(int number, const struct stage_operations **out)
{
    static const struct stage_operations *const stages[] = {&ddp_stage, &zero1_stage, &zero2_stage, &zero3_stage};
    if (number < 0 || number >= (int)(sizeof stages / sizeof stages[0]))
        return err_set(ERR_USAGE, "stage %d: expected 0 (data parallelism), 1, 2 or 3", number);
    *out = stages[number];
    return ERR_NONE;
}

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
        model_initialise(model, param, stage->setting.seed, room->tensor);
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

static int initialise(struct stage *stage)
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

int stage_plan(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
{
    const struct config *config = setting->config;
    *out = (struct stage){.operations = operations, .setting = *setting};
    out->exchange =
        (struct exchange){setting->comm, setting->executor, config->reduce_bucket_size, config->allgather_bucket_size};
    out->move = (struct move){setting->executor, setting->ledger, setting->nvme};
    size_t params = (size_t)setting->model->param_count + 1;
    out->params = calloc(params, sizeof *out->params);
    out->gradients = calloc(params, sizeof *out->gradients);
    out->placements = calloc(params, sizeof *out->placements);  // there are at most as many buckets
    out->touched_at = calloc(params, sizeof *out->touched_at);
    out->asked_at = calloc(params, sizeof *out->asked_at);
    if (!out->params || !out->gradients || !out->placements || !out->touched_at || !out->asked_at)
        return err_set(ERR_MEMORY, "no memory for the tables of %d parameters", setting->model->param_count);
    out->optimizer = (struct optimizer){
        .model = setting->model,
        .config = config,
        .layout = &out->layout,
        .placements = out->placements,
        .comm = setting->comm,
        .move = out->move,
        .replicated = operations->replicates_update,
        .shard = operations->replicates_update ? 0 : comm_rank(setting->comm),
        .threads = setting->threads,
    };
    TRY(operations->open(out));
    return optimizer_open(&out->optimizer);
}

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
{
    TRY(stage_plan(operations, setting, out));
    return initialise(out);
}

void stage_close(struct stage *stage)
{
    optimizer_close(&stage->optimizer);
    buffer_cache_close(&stage->gradient_buffers);
    buffer_cache_close(&stage->comm_buffers);
    buffer_cache_close(&stage->gathered);
    buffer_cache_close(&stage->host_params);
    access_trace_close(&stage->access_trace);
    layout_close(&stage->layout);
    free(stage->params);
    free(stage->gradients);
    free(stage->placements);
    for (size_t i = 0; i < stage->name_count; i++)
        free(stage->names[i]);
    free(stage->names);
    free(stage->touched_at);
    free(stage->asked_at);
    *stage = (struct stage){0};
}

void stage_begin_micro_step(struct stage *stage, int micro)
{
    stage->micro = micro;
}

bool stage_last_micro_step(const struct stage *stage)
{
    return stage->micro + 1 == (int)stage->setting.config->accumulation;
}

bool stage_next_bucket(const struct stage *stage, int layer, int *next, int *bucket)
{
    const struct model_layer *u = &stage->setting.model->layers[layer];
    while (*next < u->param_count) {
        int at = (*next)++;
        *bucket = stage->layout.bucket_of[u->params[at]];
        bool seen = false;
        for (int i = 0; i < at; i++)
            seen |= stage->layout.bucket_of[u->params[i]] == *bucket;
        if (!seen)
            return true;
    }
    return false;
}

bool stage_next_complete(const struct stage *stage, int layer, int *next, int *bucket)
{
    while (stage_next_bucket(stage, layer, next, bucket)) {
        const struct bucket *b = &stage->layout.buckets[*bucket];
        if (!b->frozen && b->low_layer == layer)
            return true;
    }
    return false;
}

void stage_point_params(struct stage *stage, int bucket, const void *full)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->params[b->params[i]] = (const char *)full + stage->layout.offset_of[b->params[i]] * element_bytes;
}
