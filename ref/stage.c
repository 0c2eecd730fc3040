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
            memcpy((char *)place->whole + stage->layout.offset_of[param] * dtype_bytes(precision), room->rounded,
                   count * dtype_bytes(precision));
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

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out)
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
    TRY(optimizer_open(&out->optimizer));
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
    return move_cast(&stage->move, TIER_DEVICE, close_bucket(stage, bundle), config->precision,
                     stage->gradients_whole + b->offset * dtype_bytes(config->accumulation_dtype),
                     config->accumulation_dtype, b->count, stage->micro > 0);
}

int stage_store_gradient(struct stage *stage, int bundle, const void *own, enum dtype dtype, bool add)
{
    const struct place *place = &stage->places[bundle];
    enum dtype kept_dtype = stage->setting.config->accumulation_dtype;
    size_t count = bundle_share_real(&stage->layout.bundles[bundle], stage_share(stage, bundle));
    size_t kept_bytes = count * dtype_bytes(kept_dtype);
    struct spot kept = {place->gradient_tier, place->gradient}, made = {TIER_DEVICE, (void *)(uintptr_t)own};
    if (kept.tier == TIER_DEVICE)
        return own == place->gradient ? ERR_NONE
                                      : move_cast(&stage->move, TIER_DEVICE, own, dtype, place->gradient, kept_dtype,
                                                  count, add);
    // Gradients leave for the host while backward goes on, bucket by bucket, in the communication dtype (ZeRO-Offload,
    // section 4.1).
    struct spot arrived = kept;
    bool as_it_is = !add && dtype == kept_dtype;
    if (!as_it_is || kept.tier == TIER_NVME)
        arrived = (struct spot){TIER_HOST, ring_take(&stage->arrivals)};
    TRY(move_copy(&stage->move, "gradient", arrived, made, count * dtype_bytes(dtype), NULL));
    struct spot sum = arrived;
    if (!as_it_is) {
        sum = kept.tier == TIER_HOST ? kept : (struct spot){TIER_HOST, ring_take(&stage->sums)};
        if (add && kept.tier == TIER_NVME)
            TRY(move_copy(&stage->move, "read gradient", sum, kept, kept_bytes, NULL));
        TRY(move_cast(&stage->move, TIER_HOST, arrived.address, dtype, sum.address, kept_dtype, count, add));
    }
    if (stage_last_micro_step(stage))
        TRY(optimizer_look(&stage->optimizer, bundle, TIER_HOST, sum.address));
    if (kept.tier == TIER_NVME)
        TRY(move_copy(&stage->move, "write gradient", kept, sum, kept_bytes, NULL));
    // Sub-groups are updated while the next gradients arrive.
    bool early = stage_last_micro_step(stage) && optimizer_is_eager(&stage->optimizer);
    return early ? optimizer_update_early(&stage->optimizer, bundle) : ERR_NONE;
}

int stage_scatter_gradient(struct stage *stage, int bundle)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct config *config = stage->setting.config;
    const struct place *place = &stage->places[bundle];
    enum dtype dtype = config->communication_dtype;
    void *wire;
    TRY(stage_to_wire(stage, bundle, close_bucket(stage, bundle), config->precision, &wire));
    bool straight = stage->micro == 0 && dtype == config->accumulation_dtype && place->gradient_tier == TIER_DEVICE;
    TRY(exchange_reduce_scatter(&stage->exchange, b, wire, straight ? place->gradient : NULL, dtype));
    if (straight)
        return ERR_NONE;
    char *own = (char *)wire + bundle_share_begin(b, comm_rank(stage->setting.comm)) * dtype_bytes(dtype);
    return stage_store_gradient(stage, bundle, own, dtype, stage->micro > 0);
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
    return move_cast(&stage->move, TIER_DEVICE, whole, dtype, *out, stage->setting.config->communication_dtype,
                     stage->layout.bundles[bundle].count, false);
}

int stage_gather_whole(struct stage *stage, int bundle)
{
    return exchange_all_gather(&stage->exchange, &stage->layout.bundles[bundle], NULL, stage->places[bundle].whole,
                               stage->setting.config->precision);
}

int stage_fetch(struct stage *stage, int bundle, void *whole)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    if (place->parameter_tier == TIER_DEVICE)
        return exchange_all_gather(&stage->exchange, b, place->parameter, whole, precision);
    int rank = comm_rank(stage->setting.comm);
    size_t bytes = bundle_share_real(b, rank) * dtype_bytes(precision);
    struct spot share = {TIER_HOST, place->parameter};
    struct spot own = {TIER_DEVICE, (char *)whole + bundle_share_begin(b, rank) * dtype_bytes(precision)};
    if (place->parameter_tier == TIER_NVME) {
        share.address = slots_find(&stage->host_params, bundle);
        bool hit = share.address;
        stage->host_hits += hit;
        stage->host_misses += !hit;
        if (!hit) {
            share.address = slots_take(&stage->host_params, bundle);
            TRY(move_copy(&stage->move, "read parameters", share, (struct spot){TIER_NVME, place->parameter}, bytes,
                          NULL));
        }
    }
    TRY(move_copy(&stage->move, "parameters", own, share, bytes, NULL));
    return exchange_all_gather(&stage->exchange, b, NULL, whole, precision);
}

int stage_update(struct stage *stage, int (*publish)(struct stage *stage, int bundle), bool *applied)
{
    struct optimizer *o = &stage->optimizer;
    int trainable_count = stage->layout.trainable_count;
    TRY(optimizer_begin(o, applied));
    if (stage->host_params.layout)
        slots_empty(&stage->host_params);
    for (int i = 0; o->waiting && i < trainable_count; i++) {
        TRY(optimizer_return(o, i));
        if (publish)
            TRY(publish(stage, i));
    }
    // What follows runs beside the next step, and leaves the collectives to others.
    if (o->delays)
        TRY(flow_wait(stage->setting.flow));
    o->returned += o->waiting;
    o->waiting = false;
    for (int i = 0; *applied && i < trainable_count; i++) {
        struct place *place = &stage->places[i];
        TRY(optimizer_update(o, i));
        if (!o->delays && publish)
            TRY(publish(stage, i));
        o->updated[i] = false;
        if (!o->delays)
            continue;
        void *used = place->gradient;
        place->gradient = place->other_gradient;
        place->other_gradient = used;
    }
    o->waiting = *applied && o->delays;
    o->returned += *applied && !o->delays;
    return ERR_NONE;
}

static int collect(struct stage *stage, int bundle, const void *share, void *whole, enum dtype dtype)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    struct comm *comm = stage->setting.comm;
    if (bundle_is_everybodys(b)) {
        if (whole != share)
            memcpy(whole, share, b->count * dtype_bytes(dtype));
        return ERR_NONE;
    }
    size_t counts[comm_world(comm)], offsets[comm_world(comm)];
    for (int rank = 0; rank < comm_world(comm); rank++) {
        counts[rank] = bundle_share_real(b, rank);
        offsets[rank] = bundle_share_begin(b, rank);
    }
    struct ledger *ledger = comm_ledger(comm);
    comm_count_in(comm, NULL);
    int rc = comm_all_gather(comm, share, whole, counts, offsets, dtype);
    comm_count_in(comm, ledger);
    return rc;
}

int stage_share(const struct stage *stage, int bundle)
{
    return bundle_is_everybodys(&stage->layout.bundles[bundle]) ? 0 : comm_rank(stage->setting.comm);
}

// Bytes between memory and a state's place, through a buffer where the place is on NVMe.
static int pass_bytes(struct stage *stage, struct spot place, void *memory, size_t bytes, bool write)
{
    if (place.tier != TIER_NVME) {
        memcpy(write ? place.address : memory, write ? memory : place.address, bytes);
        return ERR_NONE;
    }
    enum { BUFFER_BYTES = 4 << 20 };
    void *buffer;
    if (posix_memalign(&buffer, TIER_NVME_ALIGNMENT, BUFFER_BYTES) != 0)
        return err_set(ERR_MEMORY, "no memory to reach a state on NVMe");
    int code = ERR_NONE;
    for (size_t at = 0; code == ERR_NONE && at < bytes; at += BUFFER_BYTES) {
        size_t length = bytes - at < BUFFER_BYTES ? bytes - at : BUFFER_BYTES;
        size_t whole = move_bytes(TIER_NVME, TIER_HOST, length);
        char *there = (char *)place.address + at, *here = (char *)memory + at;
        if (write) {
            memset(buffer, 0, whole);
            memcpy(buffer, here, length);
            code = tier_nvme_write(stage->setting.nvme, there, buffer, whole);
        } else {
            code = tier_nvme_read(stage->setting.nvme, there, buffer, whole);
            memcpy(here, buffer, length);
        }
    }
    free(buffer);
    return code;
}

static struct spot spot_of(const struct place *place, enum state state)
{
    void *const addresses[] = {place->master, place->exp_avg, place->exp_avg_sq};
    return (struct spot){place->optimizer_tier, addresses[state]};
}

static size_t share_real(const struct stage *stage, int bundle)
{
    return bundle_share_real(&stage->layout.bundles[bundle], stage_share(stage, bundle));
}

int stage_read_copy(struct stage *stage, int bundle, void *out)
{
    const struct place *place = &stage->places[bundle];
    size_t bytes = share_real(stage, bundle) * dtype_bytes(stage->setting.config->precision);
    return pass_bytes(stage, (struct spot){place->parameter_tier, place->parameter}, out, bytes, false);
}

int stage_write_copy(struct stage *stage, int bundle, const void *in)
{
    const struct place *place = &stage->places[bundle];
    size_t bytes = share_real(stage, bundle) * dtype_bytes(stage->setting.config->precision);
    return pass_bytes(stage, (struct spot){place->parameter_tier, place->parameter}, (void *)(uintptr_t)in, bytes,
                      true);
}

int stage_read_share(struct stage *stage, int bundle, enum state state, float *out)
{
    size_t count = share_real(stage, bundle);
    if (!stage->layout.bundles[bundle].frozen)
        return pass_bytes(stage, spot_of(&stage->places[bundle], state), out, count * sizeof *out, false);
    void *copy = malloc(count * sizeof *out + 1);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for a share of %zu elements", count);
    int code = stage_read_copy(stage, bundle, copy);
    if (code == ERR_NONE)
        dtype_widen(stage->setting.config->precision, copy, out, count);
    free(copy);
    return code;
}

int stage_write_share(struct stage *stage, int bundle, enum state state, const float *in)
{
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    size_t count = share_real(stage, bundle);
    if (!stage->layout.bundles[bundle].frozen)
        TRY(pass_bytes(stage, spot_of(place, state), (void *)(uintptr_t)in, count * sizeof *in, true));
    if (state != STATE_PARAMETER || (void *)place->master == place->parameter)
        return ERR_NONE;
    void *copy = malloc(count * sizeof *in + 1);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for a share of %zu elements", count);
    dtype_narrow(precision, in, copy, count);
    int code = stage_write_copy(stage, bundle, copy);
    if (code == ERR_NONE && place->pending) {
        enum ledger_tier tier = place->parameter_tier == TIER_DEVICE ? TIER_HOST : place->parameter_tier;
        code = pass_bytes(stage, (struct spot){tier, place->pending}, copy, count * dtype_bytes(precision), true);
    }
    free(copy);
    return code;
}

// Every rank's share of a bundle, read by `read`, in whole.
static int collect_with(struct stage *stage, int bundle, enum dtype dtype, void *whole,
                        int (*read)(struct stage *stage, int bundle, enum state state, void *out), enum state state)
{
    void *share = malloc(stage->layout.bundles[bundle].share_count * dtype_bytes(dtype) + 1);
    if (!share)
        return err_set(ERR_MEMORY, "no memory to collect a share");
    int code = read(stage, bundle, state, share);
    if (code == ERR_NONE)
        code = collect(stage, bundle, share, whole, dtype);
    free(share);
    return code;
}

static int read_state(struct stage *stage, int bundle, enum state state, void *out)
{
    return stage_read_share(stage, bundle, state, out);
}

static int read_copy(struct stage *stage, int bundle, enum state state, void *out)
{
    (void)state;
    return stage_read_copy(stage, bundle, out);
}

int stage_regather(struct stage *stage)
{
    for (int i = 0; i < stage->layout.bundle_count; i++)
        if (stage->places[i].whole)
            TRY(collect_with(stage, i, stage->setting.config->precision, stage->places[i].whole, read_copy,
                             STATE_PARAMETER));
    return ERR_NONE;
}

int stage_collect(struct stage *stage, int bundle, enum state state, float *whole)
{
    return collect_with(stage, bundle, DTYPE_FP32, whole, read_state, state);
}

int stage_collect_copy(struct stage *stage, int bundle, void *whole)
{
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    if (!place->whole)
        return collect_with(stage, bundle, precision, whole, read_copy, STATE_PARAMETER);
    memcpy(whole, place->whole, stage->layout.bundles[bundle].count * dtype_bytes(precision));
    return ERR_NONE;
}
