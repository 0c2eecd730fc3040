// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/optimizer_internal.h"

#include "base/err.h"
#include "ref/optimizer/clip.h"
#include "ref/optimizer/lr.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Of fp32, without the sign: those of NaN are larger.
static const uint32_t INFINITY_BITS = 0x7f800000u;

struct adam_hyper optimizer_group(const struct config *config, int group, uint64_t step, uint64_t t)
{
    assert(group >= 0 && t >= 1 && step >= 1);
    struct adam_hyper hyper = config->adam;
    if (config->groups) {
        hyper = config->groups[group].adam;
        if (config->groups[group].lr_by_step)
            hyper.lr = config->groups[group].lr_by_step[step - 1];
        return hyper;
    }
    hyper.lr = lr_at(config, t);
    for (int i = 0; i < group; i++) {
        hyper.lr *= 0.5;
        hyper.weight_decay = 0.0;
    }
    return hyper;
}

float optimizer_divisor(const struct config *config, int world, double loss_scale)
{
    return (float)((double)world * (double)config->accumulation * loss_scale);
}

int optimizer_open(struct optimizer *o)
{
    o->recipe = recipe_find(o->config->recipe);
    if (!o->recipe)
        return err_set(ERR_USAGE, "unknown recipe \"%s\"", o->config->recipe);
    size_t groups = (size_t)o->model->group_count, buckets = (size_t)o->layout->bucket_count + 1;
    o->states = calloc(groups, sizeof *o->states);
    o->states_before = calloc(groups, sizeof *o->states_before);
    o->scalars = calloc(groups, sizeof *o->scalars);
    o->max_bits = calloc(buckets, sizeof *o->max_bits);
    o->scanned = calloc(buckets, sizeof *o->scanned);
    o->updated = calloc(buckets, sizeof *o->updated);
    o->speculated = calloc(buckets, sizeof *o->speculated);
    o->sums = calloc(buckets, sizeof *o->sums);
    if (!o->states || !o->states_before || !o->scalars || !o->max_bits || !o->scanned || !o->updated ||
        !o->speculated || !o->sums)
        return err_set(ERR_MEMORY, "no memory for the optimizer's tables");
    scaler_open(&o->scaler, &o->config->loss_scale);
    return ERR_NONE;
}

void optimizer_close(struct optimizer *o)
{
    void **tables[] = {(void **)&o->states,  (void **)&o->states_before, (void **)&o->scalars,    (void **)&o->max_bits,
                       (void **)&o->scanned, (void **)&o->updated,       (void **)&o->speculated, (void **)&o->sums};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        free(*tables[i]);
        *tables[i] = NULL;
    }
}

// The two passes over a gradient: its largest magnitude; and its sum of squares, relative to the largest of all.
struct scan_arguments {
    const void *gradient;
    size_t count;
    enum dtype dtype;
    uint32_t max_bits;
    uint32_t *max_out;
    struct norm_sum *sum_out;
};

static int run_scan_maximum(void *arguments)
{
    struct scan_arguments *a = arguments;
    *a->max_out = norm_max(a->dtype, a->gradient, a->count);
    return ERR_NONE;
}

static int run_add_squares(void *arguments)
{
    struct scan_arguments *a = arguments;
    norm_accumulate(a->sum_out, a->dtype, a->gradient, a->count, a->max_bits);
    return ERR_NONE;
}

static int issue_scan(struct optimizer *o, const char *name, int (*run)(void *), enum ledger_tier tier,
                      const struct scan_arguments *a)
{
    struct executor_span span = {a->gradient, a->count * dtype_bytes(a->dtype), EXECUTOR_READ};
    return executor_issue(o->move.executor,
                          &(struct executor_operation){.name = name,
                                                       .lane = tier == TIER_DEVICE ? LANE_COMPUTE : LANE_CPU,
                                                       .run = run,
                                                       .arguments = a,
                                                       .arguments_bytes = sizeof *a,
                                                       .spans = &span,
                                                       .span_count = 1,
                                                       .work_bytes = span.bytes});
}

// The scan of `count` elements of a range, from its element `at` on.
static int issue_range(struct optimizer *o, enum ledger_tier tier, struct scan_arguments a, const char *range,
                       size_t at, size_t count)
{
    a.gradient = range + at * dtype_bytes(a.dtype);
    a.count = count;
    return count > 0 ? issue_scan(o, "sum of squares", run_add_squares, tier, &a) : ERR_NONE;
}

int optimizer_scan(struct optimizer *o, int bucket, enum ledger_tier tier, const void *gradient)
{
    assert(bucket >= 0 && bucket < o->layout->trainable_count && tier != TIER_NVME);
    struct scan_arguments a = {
        .gradient = gradient,
        .count = bucket_shard_real(&o->layout->buckets[bucket], o->placements[bucket].shard),
        .dtype = o->config->accumulation_dtype,
        .max_out = &o->max_bits[bucket],
    };
    o->scanned[bucket] = true;
    return issue_scan(o, "largest gradient", run_scan_maximum, tier, &a);
}

// Issues the scan of a range of a bucket's shard that begins at element `from` and that `a` describes, without the
// elements that another part of the model counts.
static int issue_squares(struct optimizer *o, int bucket, enum ledger_tier tier, struct scan_arguments a, size_t from)
{
    const char *gradient = a.gradient;
    size_t end = from + a.count, begin = from, counted_end = from;
    struct piece piece;
    for (int next = 0; bucket_next_piece(o->layout, o->model, bucket, o->placements[bucket].shard, &next, &piece);) {
        size_t piece_begin = piece.shard_index > from ? piece.shard_index : from;
        size_t piece_end = piece.shard_index + piece.count < end ? piece.shard_index + piece.count : end;
        if (piece_begin >= piece_end || o->model->params[piece.param].duplicate)
            continue;
        if (piece_begin > counted_end) {
            TRY(issue_range(o, tier, a, gradient, begin - from, counted_end - begin));
            begin = piece_begin;
        }
        counted_end = piece_end;
    }
    return issue_range(o, tier, a, gradient, begin - from, counted_end - begin);
}

// The squares of one bucket's shard: in place, or piece by piece as it is read from NVMe.
static int scan_squares(struct optimizer *o, int bucket, uint32_t max_bits)
{
    const struct placement *placement = &o->placements[bucket];
    size_t count = bucket_shard_real(&o->layout->buckets[bucket], o->placements[bucket].shard);
    size_t element_bytes = dtype_bytes(o->config->accumulation_dtype);
    bool on_nvme = placement->gradient_tier == TIER_NVME;
    size_t length = on_nvme ? optimizer_sub_group_count(o, bucket) : count;
    o->sums[bucket] = (struct norm_sum){0};
    for (size_t from = 0; from < count; from += length) {
        struct scan_arguments a = {
            .gradient = (char *)placement->gradient_shard + from * element_bytes,
            .count = count - from < length ? count - from : length,
            .dtype = o->config->accumulation_dtype,
            .max_bits = max_bits,
            .sum_out = &o->sums[bucket],
        };
        if (on_nvme) {
            struct location there = {TIER_NVME, (void *)(uintptr_t)a.gradient};
            struct location here = {TIER_HOST, buffer_pool_take(&o->host_buffers)};
            TRY(move_copy(&o->move, "read gradient", here, there, a.count * element_bytes, NULL));
            a.gradient = here.address;
        }
        TRY(issue_squares(o, bucket, on_nvme ? TIER_HOST : placement->gradient_tier, a, from));
    }
    return ERR_NONE;
}

// The ranks that must agree about all gradients. Where every rank has those of all dense parameters, the ranks of an
// expert group have different experts. Null: this rank has all.
static struct comm *comm_of_norm(const struct optimizer *o)
{
    return o->replicated ? o->expert_comm : o->comm;
}

// True if this rank adds the bucket to the norm: every element counts once.
static bool counts(const struct optimizer *o, int bucket)
{
    return !o->replicated || !o->expert_comm || o->layout->buckets[bucket].expert || comm_rank(o->expert_comm) == 0;
}

// Replaces each rank's value by that of all of them together.
static int agree_on_maximum(struct comm *comm, uint32_t *max_bits)
{
    uint32_t all[comm_world(comm)];
    TRY(comm_all_gather_equal(comm, max_bits, all, sizeof *max_bits));
    for (int rank = 0; rank < comm_world(comm); rank++)
        if (all[rank] > *max_bits)
            *max_bits = all[rank];
    return ERR_NONE;
}

static int agree_on_sum(struct comm *comm, struct norm_sum *sum)
{
    struct norm_sum all[comm_world(comm)];
    TRY(comm_all_gather_equal(comm, sum, all, sizeof *sum));
    *sum = (struct norm_sum){0};
    for (int rank = 0; rank < comm_world(comm); rank++)
        norm_add(sum, all[rank]);
    return ERR_NONE;
}

static int global_maximum(struct optimizer *o, uint32_t *out)
{
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (!o->scanned[i])
            TRY(optimizer_scan(o, i, o->placements[i].gradient_tier, o->placements[i].gradient_shard));
    TRY(executor_wait(o->move.executor));
    memset(o->scanned, 0, (size_t)o->layout->trainable_count * sizeof *o->scanned);
    uint32_t mine = 0;
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (o->max_bits[i] > mine)
            mine = o->max_bits[i];
    *out = mine;
    if (comm_of_norm(o))
        TRY(agree_on_maximum(comm_of_norm(o), out));
    return o->parts_comm ? agree_on_maximum(o->parts_comm, out) : ERR_NONE;
}

static int global_sum(struct optimizer *o, uint32_t max_bits, struct norm_sum *out)
{
    for (int i = 0; i < o->layout->trainable_count; i++)
        TRY(scan_squares(o, i, max_bits));
    TRY(executor_wait(o->move.executor));
    struct norm_sum mine = {0};
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (counts(o, i))
            norm_add(&mine, o->sums[i]);
    *out = mine;
    if (comm_of_norm(o))
        TRY(agree_on_sum(comm_of_norm(o), out));
    return o->parts_comm ? agree_on_sum(o->parts_comm, out) : ERR_NONE;
}

int optimizer_advance(struct optimizer *o, double scale)
{
    const struct config *config = o->config;
    size_t states_bytes = (size_t)o->model->group_count * sizeof *o->states;
    memcpy(o->states_before, o->states, states_bytes);
    o->lr_before = o->lr;
    o->divisor = optimizer_divisor(config, o->ranks, scale);
    o->step++;
    for (int group = 0; group < o->model->group_count; group++) {
        struct adam_hyper hyper = optimizer_group(config, group, o->step + o->skipped, o->step);
        o->lr = group == 0 ? hyper.lr : o->lr;
        TRY(recipe_begin_step(o->recipe, &hyper, o->step, &o->states[group], &o->scalars[group]));
    }
    return ERR_NONE;
}

// Takes back optimizer_advance.
static void retreat(struct optimizer *o)
{
    memcpy(o->states, o->states_before, (size_t)o->model->group_count * sizeof *o->states);
    o->lr = o->lr_before;
    o->step--;
}

int optimizer_begin(struct optimizer *o, bool *apply)
{
    const struct config *config = o->config;
    double scale = scaler_scale(&o->scaler);
    uint64_t start = config->delayed_update_start_step;
    o->delays = start > 0 && o->step + o->skipped + 1 >= start;
    uint32_t max_bits;
    TRY(global_maximum(o, &max_bits));
    bool overflow = config->check_overflow && max_bits >= INFINITY_BITS;
    *apply = !overflow;
    TRY(scaler_update(&o->scaler, overflow));
    if (overflow) {
        optimizer_drop(o);
        if (o->began)
            retreat(o);
        o->began = false;
        o->skipped++;
        return ERR_NONE;
    }
    struct norm_sum sum;
    TRY(global_sum(o, max_bits, &sum));
    // The gradient was made with the scale before this step's scaler_update, so that scale divides it.
    if (!o->began)
        TRY(optimizer_advance(o, scale));
    o->began = false;
    o->norm = norm_finish(sum, max_bits) / (double)o->divisor;
    o->coefficient = clip_coefficient(config->clip_form, o->norm, config->gradient_clipping);
    if (o->coefficient != 1.0f)
        o->redone += optimizer_drop(o);
    return ERR_NONE;
}
