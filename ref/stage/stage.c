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

// Room for one bundle's share and one whole tensor, while a rank writes its initial shares.
struct initial {
    float *tensor, *share;
    void *rounded;  // the tensor in the model's dtype
};

static int initialise_bundle(struct stage *stage, int bundle, const struct initial *room)
{
    const struct model *model = stage->setting.model;
    enum dtype precision = stage->setting.config->precision;
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct place *place = &stage->places[bundle];
    for (int i = 0; i < b->param_count; i++) {
        int param = b->params[i];
        size_t count = model->params[param].count;
        model_initialise(model, param, stage->setting.seed, room->tensor);
        // The master begins as the rounded parameter, widened: both hold one value.
        dtype_narrow(precision, room->tensor, room->rounded, count);
        dtype_widen(precision, room->rounded, room->tensor, count);
        if (place->whole)
            TRY(bytes_copy((char *)place->whole + stage->layout.offset_of[param] * dtype_bytes(precision),
                            room->rounded, count * dtype_bytes(precision)));
        struct piece piece;
        for (int next = 0; bundle_next_piece(&stage->layout, model, bundle, stage_share(stage, bundle), &next, &piece);)
            if (piece.param == param)
                memcpy(room->share + piece.share_index, room->tensor + piece.param_index,
                       piece.count * sizeof *room->share);
    }
    TRY(stage_write_share(stage, bundle, STATE_PARAMETER, room->share));
    if (b->frozen)
        return ERR_NONE;
    memset(room->share, 0, b->share_count * sizeof *room->share);
    TRY(stage_write_share(stage, bundle, STATE_EXP_AVG, room->share));
    return stage_write_share(stage, bundle, STATE_EXP_AVG_SQ, room->share);
}

static int initialise(struct stage *stage)
{
    const struct model *model = stage->setting.model;
    size_t tensor_count = 1, share_count = 1;
    for (int i = 0; i < model->param_count; i++)
        if (model->params[i].count > tensor_count)
            tensor_count = model->params[i].count;
    for (int i = 0; i < stage->layout.bundle_count; i++)
        if (stage->layout.bundles[i].share_count > share_count)
            share_count = stage->layout.bundles[i].share_count;
    struct initial room = {malloc(tensor_count * sizeof(float)), malloc(share_count * sizeof(float)),
                           malloc(tensor_count * sizeof(float))};
    int code = room.tensor && room.share && room.rounded
                   ? ERR_NONE
                   : err_set(ERR_MEMORY, "no memory to initialise a tensor of %zu elements", tensor_count);
    for (int i = 0; code == ERR_NONE && i < stage->layout.bundle_count; i++)
        code = initialise_bundle(stage, i, &room);
    free(room.tensor);
    free(room.share);
    free(room.rounded);
    return code;
}

int stage_plan(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
{
    const struct config *config = setting->config;
    *out = (struct stage){.operations = operations, .setting = *setting};
    out->exchange = (struct exchange){setting->comm, setting->flow, config->reduce_bucket_size,
                                      config->allgather_bucket_size};
    out->move = (struct move){setting->flow, setting->ledger, setting->nvme};
    size_t params = (size_t)setting->model->param_count + 1;
    out->params = calloc(params, sizeof *out->params);
    out->gradients = calloc(params, sizeof *out->gradients);
    out->places = calloc(params, sizeof *out->places);  // there are at most as many bundles
    out->touched_at = calloc(params, sizeof *out->touched_at);
    out->asked_at = calloc(params, sizeof *out->asked_at);
    if (!out->params || !out->gradients || !out->places || !out->touched_at || !out->asked_at)
        return err_set(ERR_MEMORY, "no memory for the tables of %d parameters", setting->model->param_count);
    out->optimizer = (struct optimizer){
        .model = setting->model,
        .config = config,
        .layout = &out->layout,
        .places = out->places,
        .comm = setting->comm,
        .move = out->move,
        .replicated = operations->replicates_update,
        .share = operations->replicates_update ? 0 : comm_rank(setting->comm),
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
    slots_close(&stage->buckets);
    slots_close(&stage->wire);
    slots_close(&stage->gathered);
    slots_close(&stage->host_params);
    order_close(&stage->order);
    layout_close(&stage->layout);
    free(stage->params);
    free(stage->gradients);
    free(stage->places);
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

bool stage_next_bundle(const struct stage *stage, int unit, int *next, int *bundle)
{
    const struct model_unit *u = &stage->setting.model->units[unit];
    while (*next < u->param_count) {
        int at = (*next)++;
        *bundle = stage->layout.bundle_of[u->params[at]];
        bool seen = false;
        for (int i = 0; i < at; i++)
            seen |= stage->layout.bundle_of[u->params[i]] == *bundle;
        if (!seen)
            return true;
    }
    return false;
}

bool stage_next_complete(const struct stage *stage, int unit, int *next, int *bundle)
{
    while (stage_next_bundle(stage, unit, next, bundle)) {
        const struct bundle *b = &stage->layout.bundles[*bundle];
        if (!b->frozen && b->low_unit == unit)
            return true;
    }
    return false;
}

void stage_point_params(struct stage *stage, int bundle, const void *whole)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->params[b->params[i]] = (const char *)whole + stage->layout.offset_of[b->params[i]] * element_bytes;
}
