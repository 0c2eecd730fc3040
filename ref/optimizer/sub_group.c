// SPDX-License-Identifier: Apache-2.0
// The update of one bucket's shard, sub-group by sub-group. Adam uses each state in place if it lives in the memory
// where Adam runs; otherwise the state travels to a staging buffer and back. As far as there are buffers, the executor
// lets sub-group k + 1 arrive while k is updated and k - 1 leaves (ZeRO-Infinity, section 5.2.2).
#include "ref/optimizer/optimizer_internal.h"

#include "base/err.h"
#include "ref/optimizer/overlap.h"
#include "ref/arithmetic/adam.h"
#include "ref/optimizer/update_digest.h"

#include <assert.h>
#include <string.h>

size_t optimizer_sub_group_count(const struct optimizer *o, int bucket)
{
    // Multiples of it are whole blocks of NVMe, in two-byte elements and in four-byte ones.
    enum { GRANULE = TIER_NVME_ALIGNMENT / 2 };
    size_t shard_elements = o->layout->buckets[bucket].shard_elements, wanted = o->config->sub_group_size;
    if (wanted == 0 || wanted >= shard_elements || o->layout->buckets[bucket].whole)
        return shard_elements;
    return (wanted + GRANULE - 1) / GRANULE * GRANULE;
}

size_t optimizer_buffer_bytes(const struct optimizer *o)
{
    size_t largest = 0;
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (optimizer_sub_group_count(o, i) > largest)
            largest = optimizer_sub_group_count(o, i);
    const struct config *config = o->config;
    const enum dtype dtypes[] = {config->master_dtype, config->moment_dtype, config->accumulation_dtype,
                                 config->precision};
    size_t element_bytes = 2;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        element_bytes = dtype_bytes(dtypes[i]) > element_bytes ? dtype_bytes(dtypes[i]) : element_bytes;
    return largest * element_bytes;
}

static void *element(void *address, size_t index, size_t element_bytes)
{
    return (char *)address + index * element_bytes;
}

static int run_update(void *arguments)
{
    const struct sub_group *g = arguments;
    const struct adam_scalars *scalars = (const struct adam_scalars *)(g + 1);
    const struct optimizer *o = g->optimizer;
    const struct config *config = o->config;
    if (o->layout->buckets[g->bucket].whole)
        return optimizer_run_whole(g);
    size_t gradient_bytes = dtype_bytes(config->accumulation_dtype), model_bytes = dtype_bytes(config->precision);
    struct adam_queue queue = {.threads = o->threads};
    struct piece piece;
    for (int next = 0;
         bucket_next_piece(o->layout, o->model, g->bucket, o->placements[g->bucket].shard, &next, &piece);) {
        size_t begin = piece.shard_index > g->from ? piece.shard_index : g->from;
        size_t piece_end = piece.shard_index + piece.count, end = g->from + g->count;
        end = end < piece_end ? end : piece_end;
        if (begin >= end)
            continue;
        size_t at = begin - g->from;
        const struct adam_kept kept = {
            .param = element(g->master, at, dtype_bytes(config->master_dtype)),
            .exp_avg = element(g->exp_avg, at, dtype_bytes(config->moment_dtype)),
            .exp_avg_sq = element(g->exp_avg_sq, at, dtype_bytes(config->moment_dtype)),
            .param_dtype = config->master_dtype,
            .moment_dtype = config->moment_dtype,
        };
        struct adam_step step = {
            .recipe = o->recipe,
            .scalars = scalars[o->model->params[piece.param].group],
            .grad = (const char *)g->gradient + at * gradient_bytes,
            .grad_dtype = config->accumulation_dtype,
            .grad_divisor = g->divisor,
            .grad_coefficient = g->coefficient,
            .param = kept.param,
            .exp_avg = kept.exp_avg,
            .exp_avg_sq = kept.exp_avg_sq,
            .kept = kept.param_dtype == DTYPE_FP32 && kept.moment_dtype == DTYPE_FP32 ? NULL : &kept,
            .model_params = g->model_params ? (char *)g->model_params + at * model_bytes : NULL,
            .model_dtype = config->precision,
            .count = end - begin,
            .tensor_index = piece.param_index + (begin - piece.shard_index),
            .tensor_count = o->model->params[piece.param].count,
        };
        adam_queue_add(&queue, &step);
    }
    adam_queue_run(&queue);
    return ERR_NONE;
}

static struct executor_span order(char *byte)
{
    return (struct executor_span){byte, 1, EXECUTOR_WRITE};
}

static struct buffer_pool *buffers(struct optimizer *o, enum ledger_tier tier)
{
    return tier == TIER_DEVICE ? &o->device_buffers : &o->host_buffers;
}

// *out is the address, on tier `here` where Adam runs, of a state that lives at `there`.
static int bring(struct optimizer *o, const char *name, enum ledger_tier here, struct location there, size_t bytes,
                 void *out)
{
    void **address = out;
    *address = there.address;
    if (there.tier == here)
        return ERR_NONE;
    *address = buffer_pool_take(buffers(o, here));
    struct executor_span after = order(&o->read_order);
    bool overlaps = there.tier != TIER_NVME || o->config->offload_optimizer.pipeline_read;
    return move_copy(&o->move, name, (struct location){here, *address}, there, bytes, overlaps ? NULL : &after);
}

// Moves an updated state from `address` on tier `here` to `there`, where it lives; from the device to NVMe through the
// host. address: null where a bucket has no such state.
static int take_away(struct optimizer *o, const char *name, enum ledger_tier here, void *address, struct location there,
                     size_t bytes)
{
    if (there.tier == here || !address)
        return ERR_NONE;
    if (here == TIER_DEVICE && there.tier == TIER_NVME) {
        struct location between = {TIER_HOST, buffer_pool_take(&o->host_buffers)};
        TRY(move_copy(&o->move, name, between, (struct location){here, address}, bytes, NULL));
        here = TIER_HOST;
        address = between.address;
    }
    struct executor_span after = order(&o->write_order);
    bool overlaps = there.tier != TIER_NVME || o->config->offload_optimizer.pipeline_write;
    return move_copy(&o->move, name, there, (struct location){here, address}, bytes, overlaps ? NULL : &after);
}

int optimizer_issue_operation(struct optimizer *o, const struct sub_group *g, enum ledger_tier here)
{
    size_t scalars_bytes = (size_t)o->model->group_count * sizeof *o->scalars;
    char arguments[sizeof *g + scalars_bytes];
    memcpy(arguments, g, sizeof *g);
    memcpy(arguments + sizeof *g, o->scalars, scalars_bytes);
    size_t master_bytes = g->count * dtype_bytes(o->config->master_dtype);
    size_t moment_bytes = g->count * dtype_bytes(o->config->moment_dtype);
    struct executor_span spans[8] = {
        {g->gradient, g->count * dtype_bytes(o->config->accumulation_dtype), EXECUTOR_READ},
        {g->master, master_bytes, EXECUTOR_READ_WRITE},
        {g->exp_avg, moment_bytes, EXECUTOR_READ_WRITE},
        {g->exp_avg_sq, moment_bytes, EXECUTOR_READ_WRITE},
        {g->model_params, g->count * dtype_bytes(o->config->precision), EXECUTOR_WRITE},
    };
    for (int i = 0; i < 5; i++)
        spans[i].bytes = spans[i].address ? spans[i].bytes : 0;
    size_t span_count = 5, work_bytes = executor_span_bytes(spans, span_count);
    if (g->scratch.bytes > 0)
        spans[span_count++] = g->scratch;
    if (!o->config->offload_optimizer.pipeline_read)
        spans[span_count++] = order(&o->read_order);
    if (!o->config->offload_optimizer.pipeline_write)
        spans[span_count++] = order(&o->write_order);
    return executor_issue(o->move.executor,
                          &(struct executor_operation){.name = "Adam",
                                                       .lane = here == TIER_DEVICE ? LANE_COMPUTE : LANE_CPU,
                                                       .run = run_update,
                                                       .arguments = arguments,
                                                       .arguments_bytes = sizeof arguments,
                                                       .spans = spans,
                                                       .span_count = span_count,
                                                       .work_bytes = work_bytes});
}

// A state on its way to Adam: as `bring`, to where it is updated. In one memory it is copied if that is another place.
static int bring_state(struct optimizer *o, const char *name, enum ledger_tier here, struct location there, void *goal,
                       size_t count, enum dtype dtype, void **out)
{
    if (there.tier != here || there.address == goal)
        return bring(o, name, here, there, count * dtype_bytes(dtype), out);
    *out = goal;
    return move_cast(&o->move, here, there.address, dtype, goal, dtype, count, false);
}

// Where elements from `from` on of a bucket's states are.
static struct adam_states states_at(const struct config *config, const struct adam_states *states, size_t from)
{
    size_t master_bytes = dtype_bytes(config->master_dtype), moment_bytes = dtype_bytes(config->moment_dtype);
    return (struct adam_states){element(states->master, from, master_bytes),
                                element(states->exp_avg, from, moment_bytes),
                                element(states->exp_avg_sq, from, moment_bytes)};
}

int optimizer_bring_states(struct optimizer *o, int bucket, size_t from, size_t count, const struct adam_states *goal,
                           struct adam_states *out)
{
    const struct placement *p = &o->placements[bucket];
    enum ledger_tier here = optimizer_tier(p), there = p->optimizer_tier;
    enum dtype moment = o->config->moment_dtype;
    const struct adam_states is =
        states_at(o->config, &(struct adam_states){p->master, p->exp_avg, p->exp_avg_sq}, from);
    const struct adam_states to = states_at(o->config, goal, from);
    TRY(bring_state(o, "read master", here, (struct location){there, is.master}, to.master, count,
                    o->config->master_dtype, &out->master));
    TRY(bring_state(o, "read exp_avg", here, (struct location){there, is.exp_avg}, to.exp_avg, count, moment,
                    &out->exp_avg));
    out->exp_avg_sq = NULL;
    if (o->layout->buckets[bucket].whole)
        return ERR_NONE;
    return bring_state(o, "read exp_avg_sq", here, (struct location){there, is.exp_avg_sq}, to.exp_avg_sq, count,
                       moment, &out->exp_avg_sq);
}

// The destination of updated parameters: this rank's shard of them, or `pending` if forward may not see them yet.
static struct location target_of(const struct placement *placement, bool pending)
{
    if (!pending)
        return (struct location){placement->parameter_tier, placement->parameter};
    return (struct location){placement_pending_tier(placement), placement->pending};
}

static int update_sub_group(struct optimizer *o, int bucket, size_t from, size_t count, bool speculative, void *shard)
{
    const struct placement *placement = &o->placements[bucket];
    enum ledger_tier here = optimizer_tier(placement), states = placement->optimizer_tier;
    size_t gradient_bytes = dtype_bytes(o->config->accumulation_dtype), model_bytes = dtype_bytes(o->config->precision);
    struct adam_states present = {placement->master, placement->exp_avg, placement->exp_avg_sq};
    struct adam_states goal = speculative ? placement->speculated : present;
    struct location target = target_of(placement, o->delays || speculative);
    bool copies = target.address != placement->master;
    target.address = element(target.address, from, model_bytes);
    struct sub_group g = {.optimizer = o,
                          .bucket = bucket,
                          .divisor = o->divisor,
                          .coefficient = o->coefficient,
                          .from = from,
                          .count = count,
                          .step = o->step + o->skipped,
                          .t = o->step};
    size_t master_bytes = count * dtype_bytes(o->config->master_dtype);
    size_t moment_bytes = count * dtype_bytes(o->config->moment_dtype);
    struct adam_states to = states_at(o->config, &goal, from), brought;
    if (!optimizer_take_ahead(o, bucket, from, &brought))
        TRY(optimizer_bring_states(o, bucket, from, count, &goal, &brought));
    g.master = brought.master;
    g.exp_avg = brought.exp_avg;
    g.exp_avg_sq = brought.exp_avg_sq;
    TRY(bring(o, "read gradient", here,
              (struct location){placement->gradient_tier, element(placement->gradient_shard, from, gradient_bytes)},
              count * gradient_bytes, &g.gradient));
    if (copies && target.tier == here)
        g.model_params = target.address;
    else if (copies)
        g.model_params = shard ? element(shard, from, model_bytes) : buffer_pool_take(buffers(o, here));
    TRY((o->layout->buckets[bucket].whole ? optimizer_issue_whole : optimizer_issue_operation)(o, &g, here));
    TRY(update_digest_issue(o, bucket, from, count, speculative, &brought, g.model_params));
    // The next forward waits for these.
    if (copies)
        TRY(take_away(o, "updated parameters", here, g.model_params, target, count * model_bytes));
    TRY(take_away(o, "write master", here, g.master, (struct location){states, to.master}, master_bytes));
    TRY(take_away(o, "write exp_avg", here, g.exp_avg, (struct location){states, to.exp_avg}, moment_bytes));
    return take_away(o, "write exp_avg_sq", here, g.exp_avg_sq, (struct location){states, to.exp_avg_sq}, moment_bytes);
}

int optimizer_issue_update(struct optimizer *o, int bucket, bool speculative, void *shard)
{
    size_t count = bucket_shard_real(&o->layout->buckets[bucket], o->placements[bucket].shard);
    size_t length = optimizer_sub_group_count(o, bucket);
    for (size_t from = 0; from < count; from += length)
        TRY(update_sub_group(o, bucket, from, count - from < length ? count - from : length, speculative, shard));
    return ERR_NONE;
}

int optimizer_update(struct optimizer *o, int bucket, void *shard)
{
    assert(bucket >= 0 && bucket < o->layout->trainable_count);
    assert(!shard || (optimizer_follows_decision(o, bucket) && !o->updated[bucket]));
    if (o->updated[bucket])
        return ERR_NONE;
    o->updated[bucket] = true;
    return o->speculated[bucket] ? optimizer_commit(o, bucket) : optimizer_issue_update(o, bucket, false, shard);
}

// The device has room for one copy of its parameters, so there the updated ones are copied over it. Elsewhere the two
// copies are exchanged.
int optimizer_show_pending(struct optimizer *o, int bucket)
{
    struct placement *placement = &o->placements[bucket];
    size_t count = bucket_shard_real(&o->layout->buckets[bucket], o->placements[bucket].shard);
    if (placement->parameter_tier == TIER_DEVICE)
        return move_copy(&o->move, "updated parameters", (struct location){TIER_DEVICE, placement->parameter},
                         (struct location){TIER_HOST, placement->pending}, count * dtype_bytes(o->config->precision),
                         NULL);
    void *seen = placement->pending;
    placement->pending = placement->parameter;
    placement->parameter = seen;
    return ERR_NONE;
}

int optimizer_return(struct optimizer *o, int bucket)
{
    assert(o->waiting);
    return optimizer_show_pending(o, bucket);
}
