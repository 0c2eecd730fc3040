// SPDX-License-Identifier: Apache-2.0
#include "stage.h"

#include "err.h"

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

// A rank writes its initial share from whole initial tensors, one at a time.
static int initialise(struct stage *stage)
{
    const struct model *model = stage->setting.model;
    enum dtype precision = stage->setting.config->precision;
    size_t element_bytes = dtype_bytes(precision);
    size_t largest = 1;
    for (int i = 0; i < model->param_count; i++)
        if (model->params[i].count > largest)
            largest = model->params[i].count;
    float *tensor = malloc(largest * sizeof *tensor);
    if (!tensor)
        return err_set(ERR_MEMORY, "no memory to initialise a tensor of %zu elements", largest);
    for (int i = 0; i < model->param_count; i++) {
        int bundle = stage->layout.bundle_of[i];
        const struct bundle *b = &stage->layout.bundles[bundle];
        const struct place *place = &stage->places[bundle];
        model_initialise(model, i, stage->setting.seed, tensor);
        // The master begins as the rounded parameter, widened: both hold one value.
        if (place->whole)
            dtype_narrow(precision, tensor, (char *)place->whole + stage->layout.offset_of[i] * element_bytes,
                         model->params[i].count);
        struct piece piece;
        int share = b->padded_count == b->share_count ? 0 : comm_rank(stage->setting.comm);
        for (int next = 0; bundle_next_piece(&stage->layout, model, bundle, share, &next, &piece);) {
            if (piece.param != i)
                continue;
            void *own = (char *)place->parameter + piece.share_index * element_bytes;
            dtype_narrow(precision, tensor + piece.param_index, own, piece.count);
            if (place->master && (void *)place->master != place->parameter)
                dtype_widen(precision, own, place->master + piece.share_index, piece.count);
        }
    }
    free(tensor);
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        size_t real = bundle_share_real(&stage->layout.bundles[i], stage->optimizer.share);
        memset(stage->places[i].exp_avg, 0, real * sizeof(float));
        memset(stage->places[i].exp_avg_sq, 0, real * sizeof(float));
    }
    return ERR_NONE;
}

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
{
    const struct config *config = setting->config;
    *out = (struct stage){.operations = operations, .setting = *setting};
    out->exchange = (struct exchange){setting->comm, setting->flow, config->reduce_bucket_size,
                                      config->allgather_bucket_size};
    size_t params = (size_t)setting->model->param_count + 1;
    out->params = calloc(params, sizeof *out->params);
    out->gradients = calloc(params, sizeof *out->gradients);
    out->places = calloc(params, sizeof *out->places);  // there are at most as many bundles
    out->touched_at = calloc(params, sizeof *out->touched_at);
    if (!out->params || !out->gradients || !out->places || !out->touched_at)
        return err_set(ERR_MEMORY, "no memory for the tables of %d parameters", setting->model->param_count);
    out->optimizer = (struct optimizer){
        .model = setting->model,
        .config = config,
        .layout = &out->layout,
        .places = out->places,
        .comm = setting->comm,
        .flow = setting->flow,
        .replicated = operations->replicates_update,
        .share = operations->replicates_update ? 0 : comm_rank(setting->comm),
        .threads = setting->threads,
    };
    TRY(operations->open(out));
    TRY(optimizer_open(&out->optimizer));
    return initialise(out);
}

void stage_close(struct stage *stage)
{
    optimizer_close(&stage->optimizer);
    slots_close(&stage->buckets);
    slots_close(&stage->wire);
    slots_close(&stage->gathered);
    layout_close(&stage->layout);
    free(stage->params);
    free(stage->gradients);
    free(stage->places);
    free(stage->touched_at);
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

static void point_gradients(struct stage *stage, int bundle, int unit, void *whole)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->gradients[b->params[i]] = (struct model_gradient){
            .data = (char *)whole + stage->layout.offset_of[b->params[i]] * element_bytes,
            .accumulate = b->tied && unit != b->high_unit,
        };
}

int stage_open_buckets(struct stage *stage, int unit)
{
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);) {
        if (stage->layout.bundles[bundle].frozen)
            continue;
        void *bucket = slots_find(&stage->buckets, bundle);
        if (!bucket)
            bucket = slots_take(&stage->buckets, bundle);
        point_gradients(stage, bundle, unit, bucket);
    }
    return ERR_NONE;
}

int stage_open_gradients(struct stage *stage, int unit)
{
    if (stage->has_buckets)
        return stage_open_buckets(stage, unit);
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);) {
        const struct bundle *b = &stage->layout.bundles[bundle];
        if (!b->frozen)
            point_gradients(stage, bundle, unit, stage->gradients_whole + b->offset * element_bytes);
    }
    return ERR_NONE;
}

static void *close_bucket(struct stage *stage, int bundle)
{
    void *bucket = slots_find(&stage->buckets, bundle);
    slots_drop(&stage->buckets, bundle);
    return bucket;
}

int stage_keep_gradient(struct stage *stage, int bundle)
{
    if (!stage->has_buckets)
        return ERR_NONE;
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct config *config = stage->setting.config;
    return exchange_cast(&stage->exchange, close_bucket(stage, bundle), config->precision,
                         stage->gradients_whole + b->offset * dtype_bytes(config->accumulation_dtype),
                         config->accumulation_dtype, b->count, stage->micro > 0);
}

int stage_scatter_gradient(struct stage *stage, int bundle)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct config *config = stage->setting.config;
    int rank = comm_rank(stage->setting.comm);
    void *share = stage->places[bundle].gradient, *wire;
    TRY(stage_to_wire(stage, bundle, close_bucket(stage, bundle), config->precision, &wire));
    if (stage->micro == 0 && config->communication_dtype == config->accumulation_dtype)
        return exchange_reduce_scatter(&stage->exchange, b, wire, share, config->communication_dtype);
    TRY(exchange_reduce_scatter(&stage->exchange, b, wire, NULL, config->communication_dtype));
    size_t own_bytes = (size_t)rank * b->share_count * dtype_bytes(config->communication_dtype);
    return exchange_cast(&stage->exchange, (char *)wire + own_bytes, config->communication_dtype, share,
                         config->accumulation_dtype, bundle_share_real(b, rank), stage->micro > 0);
}

bool stage_needs_buckets(const struct stage *stage)
{
    const struct config *config = stage->setting.config;
    return config->accumulation > 1 || !config->contiguous_gradients || config->accumulation_dtype != config->precision;
}

int stage_to_wire(struct stage *stage, int bundle, void *whole, enum dtype dtype, void **out)
{
    *out = whole;
    if (!stage->has_wire)
        return ERR_NONE;
    *out = slots_take(&stage->wire, bundle);
    return exchange_cast(&stage->exchange, whole, dtype, *out, stage->setting.config->communication_dtype,
                         stage->layout.bundles[bundle].count, false);
}

int stage_update_and_gather(struct stage *stage)
{
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        TRY(optimizer_update(&stage->optimizer, i));
        TRY(exchange_all_gather(&stage->exchange, &stage->layout.bundles[i], NULL, stage->places[i].whole,
                                stage->setting.config->precision));
    }
    return ERR_NONE;
}

static int collect(struct stage *stage, int bundle, const void *share, void *whole, enum dtype dtype)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    struct comm *comm = stage->setting.comm;
    if (b->share_count == b->padded_count) {
        if (whole != share)
            memcpy(whole, share, b->count * dtype_bytes(dtype));
        return ERR_NONE;
    }
    size_t counts[comm_world(comm)], offsets[comm_world(comm)];
    for (int rank = 0; rank < comm_world(comm); rank++) {
        counts[rank] = bundle_share_real(b, rank);
        offsets[rank] = (size_t)rank * b->share_count;
    }
    struct ledger *ledger = comm_ledger(comm);
    comm_count_in(comm, NULL);
    int rc = comm_all_gather(comm, share, whole, counts, offsets, dtype);
    comm_count_in(comm, ledger);
    return rc;
}

int stage_share(const struct stage *stage, int bundle)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    return b->share_count == b->padded_count ? 0 : comm_rank(stage->setting.comm);
}

int stage_read_share(struct stage *stage, int bundle, enum state state, float *out)
{
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    size_t count = bundle_share_real(&stage->layout.bundles[bundle], stage_share(stage, bundle));
    const float *const shares[] = {place->master, place->exp_avg, place->exp_avg_sq};
    if (shares[state])
        memcpy(out, shares[state], count * sizeof *out);
    else if (precision == DTYPE_FP32)
        memcpy(out, place->parameter, count * sizeof *out);
    else
        dtype_widen(precision, place->parameter, out, count);
    return ERR_NONE;
}

int stage_write_share(struct stage *stage, int bundle, enum state state, const float *in)
{
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    size_t count = bundle_share_real(&stage->layout.bundles[bundle], stage_share(stage, bundle));
    float *const shares[] = {place->master, place->exp_avg, place->exp_avg_sq};
    if (shares[state])
        memcpy(shares[state], in, count * sizeof *in);
    if (state == STATE_PARAMETER && (void *)place->master != place->parameter)
        dtype_narrow(precision, in, place->parameter, count);
    return ERR_NONE;
}

int stage_regather(struct stage *stage)
{
    for (int i = 0; i < stage->layout.bundle_count; i++) {
        const struct place *place = &stage->places[i];
        if (place->whole)
            TRY(collect(stage, i, place->parameter, place->whole, stage->setting.config->precision));
    }
    return ERR_NONE;
}

int stage_collect(struct stage *stage, int bundle, enum state state, float *whole)
{
    const struct place *place = &stage->places[bundle];
    const float *const shares[] = {place->master, place->exp_avg, place->exp_avg_sq};
    return collect(stage, bundle, shares[state], whole, DTYPE_FP32);
}

int stage_collect_copy(struct stage *stage, int bundle, void *whole)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    if (!place->whole)
        return collect(stage, bundle, place->parameter, whole, precision);
    memcpy(whole, place->whole, b->count * dtype_bytes(precision));
    return ERR_NONE;
}
