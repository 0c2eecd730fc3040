// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/stage_internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

extern const struct stage_operations ddp_stage, zero1_stage, zero2_stage, zero3_stage;

int stage_find(int number, const struct stage_operations **out)
{
    static const struct stage_operations *const stages[] = {&ddp_stage, &zero1_stage, &zero2_stage, &zero3_stage};
    if (number < 0 || number >= (int)(sizeof stages / sizeof stages[0]))
        return err_set(ERR_USAGE, "stage %d: expected 0 (data parallelism), 1, 2 or 3", number);
    *out = stages[number];
    return ERR_NONE;
}

int stage_plan(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
{
    const struct config *config = setting->config;
    assert(setting->model && config && setting->comm && setting->executor && setting->tier && setting->threads > 0);
    *out = (struct stage){.operations = operations, .setting = *setting};
    out->move = (struct move){setting->executor, setting->ledger, setting->nvme};
    const struct groups_setting groups = {
        config,        &out->layout, operations->reduces_each_micro_step, operations->replicates_update,
        setting->comm, &out->move,   setting->model->layer_count,         setting->tier,
    };
    TRY(groups_open(&groups, &out->groups));
    size_t params = (size_t)setting->model->param_count + 1;
    out->params = calloc(params, sizeof *out->params);
    out->gradients = calloc(params, sizeof *out->gradients);
    out->placements = calloc(params, sizeof *out->placements);  // there are at most as many buckets
    if (!out->params || !out->gradients || !out->placements)
        return err_set(ERR_MEMORY, "no memory for the tables of %d parameters", setting->model->param_count);
    out->optimizer = (struct optimizer){
        .model = setting->model,
        .config = config,
        .layout = &out->layout,
        .placements = out->placements,
        .norm_comm = groups_norm_comm(&out->groups),
        .parts_comm = setting->parts_comm,
        .slices_comm = setting->slices_comm,
        .ranks = comm_world(setting->comm),
        .move = out->move,
        .tier = setting->tier,
        .threads = setting->threads,
        .whole = setting->whole,
    };
    TRY(operations->open(out));
    for (int i = 0; i < out->layout.bucket_count; i++) {
        out->placements[i].shard = stage_shard(out, i);
        out->placements[i].in_norm = groups_count_in_norm(&out->groups, &out->layout.buckets[i]);
    }
    TRY(stage_order_updates(out));
    return optimizer_open(&out->optimizer);
}

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
{
    TRY(stage_plan(operations, setting, out));
    return stage_initialise(out);
}

void stage_close(struct stage *stage)
{
    optimizer_close(&stage->optimizer);
    buffer_cache_close(&stage->gradient_buffers);
    prefetcher_close(&stage->prefetcher);
    groups_close(&stage->groups);
    layout_close(&stage->layout);
    free(stage->params);
    free(stage->gradients);
    free(stage->placements);
    free(stage->updates.order);
    for (size_t i = 0; i < stage->name_count; i++)
        free(stage->names[i]);
    free(stage->names);
    *stage = (struct stage){0};
}

int stage_ranks(const struct stage *stage)
{
    return comm_world(stage->groups.shard_comm);
}

const struct exchange *stage_exchange(const struct stage *stage, int bucket)
{
    return stage->groups.exchange_of[bucket];
}

void stage_begin_micro_step(struct stage *stage, int micro)
{
    assert(micro >= 0 && micro < (int)stage->setting.config->accumulation);
    stage->micro = micro;
}

bool stage_last_micro_step(const struct stage *stage)
{
    return stage->micro + 1 == (int)stage->setting.config->accumulation;
}

int stage_acquire(struct stage *stage, int layer, enum pass pass)
{
    if (pass == PASS_BACKWARD)
        TRY(stage_end_update(stage));
    if (stage->operations->acquire)
        TRY(stage->operations->acquire(stage, layer, pass));
    return pass == PASS_BACKWARD ? stage_open_gradients(stage, layer) : ERR_NONE;
}

int stage_release(struct stage *stage, int layer)
{
    return stage->operations->release ? stage->operations->release(stage, layer) : ERR_NONE;
}

bool stage_next_of_first_layer(const struct stage *stage, int layer, int *next, int *bucket)
{
    while (stage_next_bucket(stage, layer, next, bucket)) {
        const struct bucket *b = &stage->layout.buckets[*bucket];
        if (!b->frozen && b->low_layer == layer)
            return true;
    }
    return false;
}

int stage_reduce(struct stage *stage, int layer)
{
    const struct stage_operations *operations = stage->operations;
    int bucket;
    for (int next = 0; stage_next_of_first_layer(stage, layer, &next, &bucket);) {
        if (!operations->reduces_each_micro_step) {
            TRY(stage_keep_gradient(stage, bucket));
            if (!stage_last_micro_step(stage))
                continue;
        }
        executor_set_bucket(stage->setting.executor, bucket);
        TRY(operations->reduce(stage, bucket));
    }
    return ERR_NONE;
}

bool stage_next_bucket(const struct stage *stage, int layer, int *next, int *bucket)
{
    const int *begin = stage->layout.layer_begin + layer;
    assert(layer >= 0 && layer < stage->setting.model->layer_count && *next >= 0);
    if (*next >= begin[1] - begin[0])
        return false;
    *bucket = stage->layout.layer_buckets[begin[0] + (*next)++];
    return true;
}

int stage_step(struct stage *stage, bool *applied)
{
    assert(stage_last_micro_step(stage) && !stage->updates.waiting);
    return stage->operations->step(stage, applied);
}

void stage_point_params(struct stage *stage, int bucket, const void *full)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->params[b->params[i]] = (const char *)full + stage->layout.offset_of[b->params[i]] * element_bytes;
}
