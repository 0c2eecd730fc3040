// SPDX-License-Identifier: Apache-2.0
// The largest gradient of all ranks, and the global norm: two passes over a gradient, since squares are rounded to a
// fixed point that the largest determines (ref/arithmetic/norm.h).
//
// A gradient on its way to NVMe would be read there for the second pass. But the fixed point depends on the exponent of
// the largest square alone, which is at least the bucket's own and usually near that of the step before. So while the
// gradient is in memory, its squares are summed for a few exponents, from the larger of the bucket's own and one below
// that of the step before. If that of this step is among them, its sum is the norm's, and nothing is read.
#include "ref/optimizer/gradient_scan.h"
#include "ref/optimizer/optimizer_internal.h"

#include "base/err.h"
#include "ref/partition/collectives.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Issues one scan of the first `count` of o->scan's ranges, which lie in one memory. None: nothing is issued.
static int issue_scan(struct optimizer *o, const char *name, int (*run)(void *), enum ledger_tier tier,
                      struct gradient_scan a, size_t count)
{
    const struct norm_range *ranges = o->scan->ranges;
    struct executor_span *spans = o->scan_spans;
    size_t work_bytes = 0, results = (size_t)a.result_count;
    if (count == 0)
        return ERR_NONE;
    a.range_count = count;
    *o->scan = a;
    for (size_t i = 0; i < count; i++) {
        spans[i] = (struct executor_span){ranges[i].values, ranges[i].count * dtype_bytes(a.dtype), EXECUTOR_READ};
        work_bytes += spans[i].bytes;
    }
    const struct executor_span others[OPTIMIZER_SCAN_RESULTS] = {
        {a.max_out, a.max_out ? results * sizeof *a.max_out : 0, EXECUTOR_READ_WRITE},
        {a.max_in, a.max_in ? sizeof *a.max_in : 0, EXECUTOR_READ},
        {a.sum_out, a.sum_out ? results * sizeof *a.sum_out : 0, EXECUTOR_READ_WRITE},
    };
    memcpy(spans + count, others, sizeof others);
    return executor_issue(o->move.executor,
                          &(struct executor_operation){.name = name,
                                                       .lane = tier == TIER_DEVICE ? LANE_COMPUTE : LANE_CPU,
                                                       .run = run,
                                                       .arguments = o->scan,
                                                       .arguments_bytes = sizeof a + count * sizeof *ranges,
                                                       .spans = spans,
                                                       .span_count = count + OPTIMIZER_SCAN_RESULTS,
                                                       .work_bytes = work_bytes});
}

// This rank's shard of a bucket's gradient.
static struct norm_range shard_of(const struct optimizer *o, int bucket)
{
    const struct placement *p = &o->placements[bucket];
    return (struct norm_range){p->gradient_shard, bucket_shard_real(&o->layout->buckets[bucket], p->shard), 0};
}

// Adds a part of a range, unless it is empty. Returns how many were added.
static size_t add_part(const struct optimizer *o, struct norm_range of, size_t at, size_t count, struct norm_range *out)
{
    if (count > 0)
        *out = (struct norm_range){(const char *)of.values + at * dtype_bytes(o->config->accumulation_dtype), count,
                                   of.into};
    return count > 0;
}

// A range of a bucket's shard, which begins at its element `from`, without the elements that another part of the model
// counts: the ranges that are left. Returns how many there are, at most one more than the bucket has parameters.
static size_t counted_parts(const struct optimizer *o, int bucket, struct norm_range of, size_t from,
                            struct norm_range out[])
{
    size_t end = from + of.count, begin = from, counted_end = from, parts = 0;
    struct piece piece;
    for (int next = 0; bucket_next_piece(o->layout, o->model, bucket, o->placements[bucket].shard, &next, &piece);) {
        size_t piece_begin = piece.shard_index > from ? piece.shard_index : from;
        size_t piece_end = piece.shard_index + piece.count < end ? piece.shard_index + piece.count : end;
        if (piece_begin >= piece_end || o->model->params[piece.param].duplicate)
            continue;
        if (piece_begin > counted_end) {
            parts += add_part(o, of, begin - from, counted_end - begin, &out[parts]);
            begin = piece_begin;
        }
        counted_end = piece_end;
    }
    return parts + add_part(o, of, begin - from, counted_end - begin, &out[parts]);
}

// The sums of a gradient that goes to NVMe, at the exponents that are guessed.
static int issue_guesses(struct optimizer *o, int bucket, enum ledger_tier tier, struct gradient_scan a,
                         struct norm_range gradient)
{
    if (!o->guesses_exponent || o->placements[bucket].gradient_tier != TIER_NVME)
        return ERR_NONE;
    a.max_out = NULL;
    a.max_in = &o->max_bits[bucket];
    a.last_exponent = o->exponent;
    a.sum_out = &o->guesses[bucket * OPTIMIZER_GUESSES];
    a.result_count = OPTIMIZER_GUESSES;
    a.first = true;
    return issue_scan(o, "sum of squares", gradient_scan_guesses, tier, a,
                      counted_parts(o, bucket, gradient, 0, o->scan->ranges));
}

int optimizer_scan(struct optimizer *o, int bucket, enum ledger_tier tier, const void *gradient)
{
    assert(bucket >= 0 && bucket < o->layout->trainable_count && tier != TIER_NVME);
    const struct gradient_scan a = {
        .dtype = o->config->accumulation_dtype, .max_out = &o->max_bits[bucket], .result_count = 1};
    const struct norm_range range = {gradient, shard_of(o, bucket).count, 0};
    o->scanned[bucket] = true;
    o->scan->ranges[0] = range;
    TRY(issue_scan(o, "largest gradient", gradient_scan_maximum, tier, a, 1));
    return issue_guesses(o, bucket, tier, a, range);
}

// The guess of a bucket that is at the exponent of max_bits, any if all its gradients are 0; -1: there is none.
static int find_guess(const struct optimizer *o, int bucket, uint32_t max_bits)
{
    if (!o->guesses_exponent || max_bits >= f32_bits(INFINITY))
        return -1;
    if (o->max_bits[bucket] == 0)
        return 0;
    int i = gradient_exponent(max_bits) - gradient_lowest_guess(o->max_bits[bucket], o->exponent);
    return i >= 0 && i < OPTIMIZER_GUESSES ? i : -1;
}

// True if every bucket on NVMe has a guess at the exponent of max_bits.
static bool is_guessed(const struct optimizer *o, uint32_t max_bits)
{
    bool guessed = true;
    for (int i = 0; i < o->layout->trainable_count; i++)
        guessed &= o->placements[i].gradient_tier != TIER_NVME || find_guess(o, i, max_bits) >= 0;
    return guessed;
}

// The squares of one bucket's shard: in memory in place; on NVMe piece by piece as it is read.
static int scan_squares(struct optimizer *o, int bucket, struct gradient_scan a)
{
    const struct norm_range shard = shard_of(o, bucket);
    bool on_nvme = o->placements[bucket].gradient_tier == TIER_NVME;
    size_t length = on_nvme ? optimizer_sub_group_count(o, bucket) : shard.count;
    o->reads_for_norm |= on_nvme;
    a.sum_out = &o->sums[bucket];
    a.result_count = 1;
    for (size_t from = 0; from < shard.count; from += length) {
        struct norm_range range;
        (void)add_part(o, shard, from, shard.count - from < length ? shard.count - from : length, &range);
        if (on_nvme) {
            optimizer_drop_ahead(o);
            struct location there = {TIER_NVME, (void *)(uintptr_t)range.values};
            struct location here = {TIER_HOST, buffer_pool_take(&o->host_buffers)};
            TRY(move_copy(&o->move, "read gradient", here, there, range.count * dtype_bytes(a.dtype), NULL));
            range.values = here.address;
        }
        size_t parts = counted_parts(o, bucket, range, from, o->scan->ranges);
        TRY(issue_scan(o, "sum of squares", gradient_scan_squares, TIER_HOST, a, parts));
        a.first &= parts == 0;
    }
    return ERR_NONE;
}

// Issues one scan of all gradients on the device.
static int scan_on_device(struct optimizer *o, const char *name, int (*run)(void *), struct gradient_scan a)
{
    size_t count = 0;
    a.result_count = o->layout->trainable_count;
    for (int i = 0; i < a.result_count; i++) {
        struct norm_range shard = shard_of(o, i);
        shard.into = (size_t)i;
        if (o->placements[i].gradient_tier == TIER_DEVICE)
            count += a.max_out ? add_part(o, shard, 0, shard.count, &o->scan->ranges[count])
                               : counted_parts(o, i, shard, 0, &o->scan->ranges[count]);
    }
    return issue_scan(o, name, run, TIER_DEVICE, a, count);
}

static int ranks_of(const struct comm *comm)
{
    return comm ? comm_world(comm) : 0;
}

size_t optimizer_gathered_bytes(const struct optimizer *o)
{
    int ranks = ranks_of(o->norm_comm), parts = ranks_of(o->parts_comm);
    return (1 + (size_t)(ranks > parts ? ranks : parts)) * sizeof(struct norm_sum);
}

// *all: every rank's number, in the order of ranks, [*count]; in a dry run this rank's alone.
static int gather_numbers(struct optimizer *o, struct comm *comm, const void *own, size_t bytes, const void **all,
                          int *count)
{
    char *mine = o->gathered, *others = mine + sizeof(struct norm_sum);
    bool is_dry = executor_is_dry(o->move.executor);
    const struct executor_span result = {others, (size_t)comm_world(comm) * bytes, EXECUTOR_READ};
    memcpy(mine, own, bytes);
    TRY(exchange_numbers(o->move.executor, comm, mine, others, bytes));
    *all = is_dry ? mine : others;
    *count = is_dry ? 1 : comm_world(comm);
    return executor_wait_for(o->move.executor, &result);
}

// Replaces each rank's value by that of all of them together.
static int agree_on_maximum(struct optimizer *o, struct comm *comm, uint32_t *max_bits)
{
    const void *gathered;
    int count;
    TRY(gather_numbers(o, comm, max_bits, sizeof *max_bits, &gathered, &count));
    const uint32_t *all = gathered;
    for (int rank = 0; rank < count; rank++)
        if (all[rank] > *max_bits)
            *max_bits = all[rank];
    return ERR_NONE;
}

static int agree_on_sum(struct optimizer *o, struct comm *comm, struct norm_sum *sum)
{
    const void *gathered;
    int count;
    TRY(gather_numbers(o, comm, sum, sizeof *sum, &gathered, &count));
    const struct norm_sum *all = gathered;
    *sum = (struct norm_sum){0};
    for (int rank = 0; rank < count; rank++)
        norm_add(sum, all[rank]);
    return ERR_NONE;
}

// Waits for every bucket's result of a scan.
static int wait_for_results(struct optimizer *o, const void *results, size_t bytes)
{
    const struct executor_span span = {results, (size_t)o->layout->trainable_count * bytes, EXECUTOR_READ};
    return executor_wait_for(o->move.executor, &span);
}

int optimizer_global_maximum(struct optimizer *o, uint32_t *out)
{
    const struct gradient_scan scan = {.dtype = o->config->accumulation_dtype, .max_out = o->max_bits};
    executor_set_bucket(o->move.executor, -1);
    TRY(scan_on_device(o, "largest gradient", gradient_scan_maximum, scan));
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (!o->scanned[i] && o->placements[i].gradient_tier != TIER_DEVICE)
            TRY(optimizer_scan(o, i, o->placements[i].gradient_tier, o->placements[i].gradient_shard));
    TRY(wait_for_results(o, o->max_bits, sizeof *o->max_bits));
    memset(o->scanned, 0, (size_t)o->layout->trainable_count * sizeof *o->scanned);
    uint32_t mine = 0;
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (o->max_bits[i] > mine)
            mine = o->max_bits[i];
    *out = mine;
    if (o->norm_comm)
        TRY(agree_on_maximum(o, o->norm_comm, out));
    return o->parts_comm ? agree_on_maximum(o, o->parts_comm, out) : ERR_NONE;
}

// The sum of a bucket's squares, when all scans are complete. guessed: those of gradients on NVMe were made as they
// passed.
static struct norm_sum squares_of(const struct optimizer *o, int bucket, uint32_t max_bits, bool guessed)
{
    if (o->placements[bucket].gradient_tier != TIER_NVME || !guessed)
        return o->sums[bucket];
    return o->guesses[bucket * OPTIMIZER_GUESSES + find_guess(o, bucket, max_bits)];
}

int optimizer_global_sum(struct optimizer *o, uint32_t max_bits, struct norm_sum *out)
{
    bool guessed = is_guessed(o, max_bits);
    o->reads_for_norm = false;
    TRY(wait_for_results(o, o->guesses, OPTIMIZER_GUESSES * sizeof *o->guesses));
    const struct gradient_scan scan = {
        .dtype = o->config->accumulation_dtype, .max_bits = max_bits, .sum_out = o->sums, .first = true};
    TRY(scan_on_device(o, "sum of squares", gradient_scan_squares, scan));
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (o->placements[i].gradient_tier == TIER_HOST || (o->placements[i].gradient_tier == TIER_NVME && !guessed))
            TRY(scan_squares(o, i, scan));
    TRY(wait_for_results(o, o->sums, sizeof *o->sums));
    o->rescanned += o->reads_for_norm;
    struct norm_sum mine = {0};
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (o->placements[i].in_norm)
            norm_add(&mine, squares_of(o, i, max_bits, guessed));
    o->guesses_exponent = max_bits < f32_bits(INFINITY);
    o->exponent = o->guesses_exponent ? gradient_exponent(max_bits) : 0;
    *out = mine;
    if (o->norm_comm)
        TRY(agree_on_sum(o, o->norm_comm, out));
    return o->parts_comm ? agree_on_sum(o, o->parts_comm, out) : ERR_NONE;
}
