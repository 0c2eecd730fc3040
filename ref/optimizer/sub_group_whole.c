// SPDX-License-Identifier: Apache-2.0
// The update of a bucket that is one whole tensor. Where ranks have slices of it, all of them make the whole one's:
// each makes the direction of its slice, gathers those of the others, and moves its own.
#include "ref/optimizer/whole.h"

#include "base/err.h"
#include "ref/model/part.h"
#include "ref/optimizer/optimizer_internal.h"
#include "ref/partition/collectives.h"

#include <assert.h>

// The whole tensor of a bucket; *slice is this rank's of it, null: it has all.
static const struct model_param *whole_param(const struct optimizer *o, int bucket, const struct model_slice **slice)
{
    const struct model_part *part = o->model->part;
    int param = o->layout->buckets[bucket].params[0];
    const struct model_param *whole = part ? &part->whole->params[part->slices[param].param] : &o->model->params[param];
    *slice = o->model->params[param].count < whole->count ? &part->slices[param] : NULL;
    return whole;
}

size_t optimizer_scratch_bytes(const struct optimizer *o, enum ledger_tier tier)
{
    size_t most = 0;
    const struct model_slice *slice;
    for (int i = 0; i < o->layout->trainable_count; i++) {
        if (!o->layout->buckets[i].whole || optimizer_tier(&o->placements[i]) != tier)
            continue;
        size_t floats = o->whole->scratch_floats(whole_param(o, i, &slice));
        most = floats > most ? floats : most;
    }
    return most * sizeof(float);
}

size_t optimizer_sliced_bytes(const struct optimizer *o, int bucket)
{
    const struct model_slice *slice = NULL;
    if (o->layout->buckets[bucket].whole)
        whole_param(o, bucket, &slice);
    return slice ? (size_t)(comm_world(o->slices_comm) - 1) * model_slice_count(slice) * sizeof(float) : 0;
}

int optimizer_issue_whole(struct optimizer *o, const struct sub_group *group, enum ledger_tier here)
{
    struct sub_group first = *group, last = *group;
    const struct model_slice *slice;
    size_t whole_count = whole_param(o, group->bucket, &slice)->count, count = group->count;
    float *scratch = buffer_pool_take(&o->scratch[here]), *slices = scratch + whole_count;
    first.scratch = (struct executor_span){scratch, o->scratch[here].buffer_bytes, EXECUTOR_WRITE};
    if (!slice)
        return optimizer_issue_operation(o, &first, here);
    size_t ranks = (size_t)comm_world(o->slices_comm);
    const struct bucket bucket = {
        .count = ranks * count, .padded_count = ranks * count, .shard_elements = count, .owner = -1};
    const struct exchange exchange = {.comm = o->slices_comm, .executor = o->move.executor};
    last.scratch = (struct executor_span){scratch, o->scratch[here].buffer_bytes, EXECUTOR_READ_WRITE};
    last.gradient = last.exp_avg = NULL;
    first.scratch.address = slices + (size_t)comm_rank(o->slices_comm) * count;
    first.scratch.bytes = count * sizeof(float);
    first.master = first.model_params = NULL;
    TRY(optimizer_issue_operation(o, &first, here));
    TRY(exchange_all_gather(&exchange, &bucket, NULL, slices, DTYPE_FP32));
    return optimizer_issue_operation(o, &last, here);
}

// The tensor, from what all ranks have of it behind it; or nothing where this one has all.
static void join(const struct optimizer *o, const struct model_slice *own, const struct model_param *whole, float *x)
{
    for (int rank = 0; own && rank < comm_world(o->slices_comm); rank++) {
        const struct model_slice slice = model_slice_at(own, rank);
        model_slice_put(&slice, x + whole->count + (size_t)rank * model_slice_count(own), sizeof *x, x);
    }
}

int optimizer_run_whole(const struct sub_group *g)
{
    const struct optimizer *o = g->optimizer;
    const struct model_slice *slice;
    const struct model_param *whole = whole_param(o, g->bucket, &slice);
    const struct whole_step step = {.config = o->config,
                                    .param = whole,
                                    .count = g->count,
                                    .step = g->step,
                                    .t = g->t,
                                    .grad = g->gradient,
                                    .grad_dtype = o->config->accumulation_dtype,
                                    .grad_divisor = g->divisor,
                                    .grad_coefficient = g->coefficient,
                                    .master = g->master,
                                    .momentum = g->exp_avg,
                                    .model_params = g->model_params,
                                    .model_dtype = o->config->precision};
    float *scratch = (float *)(uintptr_t)g->scratch.address;
    assert(g->from == 0 && g->count == (slice ? model_slice_count(slice) : whole->count));
    if (g->gradient)
        o->whole->direct(&step, scratch);
    if (!g->master)
        return ERR_NONE;
    join(o, slice, whole, scratch);
    float *by = o->whole->transform(&step, scratch), *other = by == scratch ? by + whole->count : scratch;
    if (slice)
        model_slice_take(slice, by, sizeof *by, other);
    o->whole->move(&step, slice ? other : by);
    return ERR_NONE;
}
