// SPDX-License-Identifier: Apache-2.0
// For tests of transports: every collective over formats, sizes and alignments, against plain loops. They compare full
// buffers, with poison around and between the shards, so that a byte written elsewhere shows as well.
#pragma once

#include "ref/comm/comm_test.h"

#include "ref/arithmetic/random.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { GAP_COUNT = 3, COUNT_MAX = 70001, SEND_MAX = COUNT_MAX + 64 };

// The values that each rank sends, by format and rank, with one rank more than the largest world has; and their
// reductions in one world. Written before the ranks start.
enum { VALUES_COUNT = 12 };
static char *values[DTYPE_BYTE + 1][VALUES_COUNT];
static float plain_sums[DTYPE_BYTE + 1][SEND_MAX], plain_maxima[DTYPE_BYTE + 1][SEND_MAX];

static inline void make_values(void)
{
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BYTE; dtype++)
        for (int rank = 0; rank < VALUES_COUNT; rank++) {
            values[dtype][rank] = malloc(SEND_MAX * dtype_bytes(dtype));
            uint64_t key = random_key(dtype, (uint64_t)rank);
            for (size_t i = 0; i < SEND_MAX; i++) {
                uint64_t bits = random_at(key, i);
                bool byte = dtype == DTYPE_BYTE;
                store(dtype, values[dtype][rank], i,
                      byte ? (float)(bits % 256) : ldexpf(random_normal(bits), (int)(bits % 9) - 4));
            }
        }
}

static inline void free_values(void)
{
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BYTE; dtype++)
        for (int rank = 0; rank < VALUES_COUNT; rank++)
            free(values[dtype][rank]);
}

// The definition of a sum: groups of ranks ascending, in each its ranks ascending, left folds in fp32.
static inline float sum_plainly(enum dtype dtype, int world, int group, size_t i)
{
    float sum = 0;
    for (int first = 0; first < world; first += group) {
        float of_group = load(dtype, values[dtype][first], i);
        for (int rank = first + 1; rank < first + group; rank++)
            of_group = of_group + load(dtype, values[dtype][rank], i);
        sum = first == 0 ? of_group : sum + of_group;
    }
    return sum;
}

static inline void reduce_values(int world, int group)
{
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BYTE; dtype++)
        for (size_t i = 0; i < SEND_MAX; i++) {
            plain_sums[dtype][i] = sum_plainly(dtype, world, group, i);
            float maximum = load(dtype, values[dtype][0], i);
            for (int rank = 1; rank < world; rank++) {
                float value = load(dtype, values[dtype][rank], i);
                maximum = value > maximum ? value : maximum;
            }
            plain_maxima[dtype][i] = maximum;
        }
}

// Numbers of elements in the shards. The limits at which a transport changes its method lie between them.
enum shape { EMPTY, ONE_EACH, PRIME, UNEVEN, ONE_RANK_HAS_ALL, AT_2048, AT_2049, MIDDLE, LARGE, SHAPE_COUNT };

static const char *const shape_names[SHAPE_COUNT] = {"no elements", "one each", "a prime", "uneven", "one rank has all",
                                                     "2048",        "2049",     "20011",   "70001"};

static inline size_t shape_shard(enum shape shape, int world, int rank)
{
    static const size_t totals[SHAPE_COUNT] = {
        [PRIME] = 997, [AT_2048] = 2048, [AT_2049] = 2049, [MIDDLE] = 20011, [LARGE] = COUNT_MAX};
    size_t index = (size_t)rank, ranks = (size_t)world;
    switch (shape) {
    case ONE_EACH:
        return 1;
    case UNEVEN:
        return index % 3 == 1 ? 0 : 5 + 731 * (index % 4);
    case ONE_RANK_HAS_ALL:
        return rank == world / 2 ? 50021 : 0;
    default:
        return totals[shape] / ranks + (index < totals[shape] % ranks);
    }
}

struct shards {
    size_t counts[RANKS_MAX], offsets[RANKS_MAX];
    size_t total, extent;  // elements, without and with the gaps
};

// Shards one after the other, with a gap before each.
static inline struct shards shards_of(enum shape shape, int world, int rotation, size_t gap_count)
{
    struct shards s = {0};
    for (int rank = 0; rank < world; rank++) {
        s.counts[rank] = shape_shard(shape, world, (rank + rotation) % world);
        s.offsets[rank] = s.extent + gap_count;
        s.total += s.counts[rank];
        s.extent = s.offsets[rank] + s.counts[rank];
    }
    return s;
}

struct test_case {
    const char *collective;
    enum shape shape;
    enum dtype dtype;
    bool in_place, gaps;
    enum comm_reduction reduction;
};

// The buffers of one rank in one case, and their expected contents. In place, send and recv are the same.
struct buffers {
    struct area send, recv, send_expected, recv_expected;
};

static inline struct buffers buffers_open(const struct rank *rank, const struct test_case *c, size_t send_count,
                                          size_t recv_count)
{
    // Shards begin at any element, aligned for vector stores or not.
    size_t send_shift = (size_t)(rank->index % 3) * dtype_bytes(c->dtype);
    size_t recv_shift = (size_t)(rank->index % 5) * dtype_bytes(c->dtype);
    size_t send_bytes = send_count * dtype_bytes(c->dtype), recv_bytes = recv_count * dtype_bytes(c->dtype);
    struct buffers b = {.send = area_open(send_bytes, send_shift), .send_expected = area_open(send_bytes, send_shift)};
    if (c->in_place) {
        b.recv = b.send;
        b.recv_expected = b.send_expected;
    } else {
        b.recv = area_open(recv_bytes, recv_shift);
        b.recv_expected = area_open(recv_bytes, recv_shift);
    }
    return b;
}

// Called when the buffers have their contents.
static inline void buffers_send(const struct test_case *c, struct buffers *b)
{
    area_send(&b->send);
    if (c->in_place)
        b->recv = b->send;
    else
        area_send(&b->recv);
}

static inline void fill(struct area *a, struct area *b, size_t offset_bytes, const void *from, size_t bytes)
{
    memcpy(a->data + offset_bytes, from, bytes);
    memcpy(b->data + offset_bytes, from, bytes);
}

static inline void compare(struct rank *rank, const struct test_case *c, const char *what, const struct area *got,
                           const struct area *expected)
{
    if (memcmp(got->memory, expected->memory, got->bytes) == 0)
        return;
    size_t i = 0;
    while (got->memory[i] == expected->memory[i])
        i++;
    rank_wrong(rank, "%s of %s (%s%s%s%s): %s differs at byte %td of its data", c->collective, shape_names[c->shape],
               dtype_name(c->dtype), c->in_place ? ", in place" : "", c->gaps ? ", with gaps" : "",
               c->reduction == COMM_MAX ? ", maximum" : "", what, got->memory + i - got->data);
}

// Compares and frees the buffers. rc is the collective's result.
static inline void buffers_close(struct rank *rank, const struct test_case *c, struct buffers *b, int rc)
{
    if (rc != ERR_NONE)
        rank_wrong(rank, "%s of %s: %s", c->collective, shape_names[c->shape], err_message());
    area_return(&b->recv);
    compare(rank, c, "recv", &b->recv, &b->recv_expected);
    if (!c->in_place) {
        area_return(&b->send);
        compare(rank, c, "send", &b->send, &b->send_expected);
        free(b->recv.memory);
        free(b->recv_expected.memory);
    }
    free(b->send.memory);
    free(b->send_expected.memory);
}

static inline void reduce_scatter_case(struct rank *rank, const struct test_case *c)
{
    struct shards shards = shards_of(c->shape, rank->world, 0, c->gaps ? GAP_COUNT : 0);
    size_t offset = shards.offsets[rank->index], count = shards.counts[rank->index];
    size_t bytes = dtype_bytes(c->dtype), recv_offset = c->in_place ? offset * bytes : 0;
    struct buffers b = buffers_open(rank, c, shards.extent, count);
    fill(&b.send, &b.send_expected, 0, values[c->dtype][rank->index], shards.extent * bytes);
    for (size_t i = 0; i < count; i++)
        store(c->dtype, b.recv_expected.data + recv_offset, i, plain_sums[c->dtype][offset + i]);
    buffers_send(c, &b);
    int rc = comm_reduce_scatter(rank->comm, b.send.data_there, b.recv.data_there + recv_offset, shards.counts,
                                 shards.offsets, c->dtype);
    buffers_close(rank, c, &b, rc);
}

static inline void reduce_scatter_body(struct rank *rank)
{
    for (enum shape shape = EMPTY; shape < SHAPE_COUNT; shape++)
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++)
            for (int form = 0; form < 4; form++)
                reduce_scatter_case(rank, &(struct test_case){.collective = "reduce-scatter",
                                                              .shape = shape,
                                                              .dtype = dtype,
                                                              .in_place = form % 2,
                                                              .gaps = form / 2});
}

static inline void all_gather_case(struct rank *rank, const struct test_case *c)
{
    struct shards shards = shards_of(c->shape, rank->world, 0, GAP_COUNT);
    size_t bytes = dtype_bytes(c->dtype), offset = shards.offsets[rank->index], count = shards.counts[rank->index];
    struct buffers b = buffers_open(rank, c, c->in_place ? shards.extent : count, shards.extent);
    size_t send_offset = c->in_place ? offset * bytes : 0;
    fill(&b.send, &b.send_expected, send_offset, values[c->dtype][rank->index], count * bytes);
    for (int peer = 0; peer < rank->world; peer++)
        memcpy(b.recv_expected.data + shards.offsets[peer] * bytes, values[c->dtype][peer],
               shards.counts[peer] * bytes);
    buffers_send(c, &b);
    int rc = comm_all_gather(rank->comm, b.send.data_there + send_offset, b.recv.data_there, shards.counts,
                             shards.offsets, c->dtype);
    buffers_close(rank, c, &b, rc);
}

static inline void all_gather_body(struct rank *rank)
{
    for (enum shape shape = EMPTY; shape < SHAPE_COUNT; shape++)
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BYTE; dtype++)
            for (int in_place = 0; in_place < 2; in_place++)
                all_gather_case(rank,
                                &(struct test_case){
                                    .collective = "all-gather", .shape = shape, .dtype = dtype, .in_place = in_place});
}

// Elements of a buffer that has no gaps.
static inline size_t block_count(enum shape shape, int world)
{
    return shards_of(shape, world, 0, 0).total;
}

static inline void all_reduce_case(struct rank *rank, const struct test_case *c)
{
    size_t count = block_count(c->shape, rank->world);
    struct buffers b = buffers_open(rank, c, count, count);
    fill(&b.send, &b.send_expected, 0, values[c->dtype][rank->index], count * dtype_bytes(c->dtype));
    const float *results = c->reduction == COMM_MAX ? plain_maxima[c->dtype] : plain_sums[c->dtype];
    for (size_t i = 0; i < count; i++)
        store(c->dtype, b.recv_expected.data, i, results[i]);
    buffers_send(c, &b);
    int rc = comm_all_reduce(rank->comm, b.send.data_there, b.recv.data_there, count, c->dtype, c->reduction);
    buffers_close(rank, c, &b, rc);
}

static inline void all_reduce_body(struct rank *rank)
{
    for (enum shape shape = EMPTY; shape < SHAPE_COUNT; shape++)
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BYTE; dtype++)
            for (int form = 0; form < 4; form++) {
                enum comm_reduction reduction = form / 2 ? COMM_MAX : COMM_SUM;
                // Maxima are meant for a few numbers in host memory and are slow for many.
                if (reduction == COMM_MAX ? shape <= MIDDLE && !carried : dtype != DTYPE_BYTE)
                    all_reduce_case(rank, &(struct test_case){.collective = "all-reduce",
                                                              .shape = shape,
                                                              .dtype = dtype,
                                                              .in_place = form % 2,
                                                              .reduction = reduction});
            }
}

// Rank a sends rank b the shard that the shape gives to rank a + b, so that counts differ in both directions.
static inline void all_to_all_case(struct rank *rank, const struct test_case *c)
{
    struct shards shards = shards_of(c->shape, rank->world, rank->index, GAP_COUNT);
    size_t bytes = dtype_bytes(c->dtype);
    struct buffers b = buffers_open(rank, c, shards.extent, shards.extent);
    fill(&b.send, &b.send_expected, 0, values[c->dtype][rank->index], shards.extent * bytes);
    for (int peer = 0; peer < rank->world; peer++) {
        struct shards theirs = shards_of(c->shape, rank->world, peer, GAP_COUNT);
        memcpy(b.recv_expected.data + shards.offsets[peer] * bytes,
               values[c->dtype][peer] + theirs.offsets[rank->index] * bytes, theirs.counts[rank->index] * bytes);
    }
    buffers_send(c, &b);
    int rc = comm_all_to_all(rank->comm, b.send.data_there, shards.counts, shards.offsets, b.recv.data_there,
                             shards.counts, shards.offsets, c->dtype);
    buffers_close(rank, c, &b, rc);
}

static inline void all_to_all_body(struct rank *rank)
{
    for (enum shape shape = EMPTY; shape < SHAPE_COUNT; shape++)
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BYTE; dtype++)
            all_to_all_case(rank, &(struct test_case){.collective = "all-to-all", .shape = shape, .dtype = dtype});
}

static inline void broadcast_body(struct rank *rank)
{
    for (enum shape shape = EMPTY; shape < SHAPE_COUNT; shape++)
        for (int root = 0; root < rank->world; root++) {
            struct test_case c = {.collective = "broadcast", .shape = shape, .dtype = DTYPE_BYTE, .in_place = true};
            size_t bytes = block_count(shape, rank->world) * sizeof(float);
            struct buffers b = buffers_open(rank, &c, bytes, bytes);
            memcpy(b.send.data, values[DTYPE_FP32][rank->index], bytes);
            memcpy(b.send_expected.data, values[DTYPE_FP32][root], bytes);
            buffers_send(&c, &b);
            buffers_close(rank, &c, &b, comm_broadcast(rank->comm, b.send.data_there, bytes, root));
        }
}

// In canonical order, or in that of comm_set_group and reduce_values.
static inline void every_collective(struct rank *rank)
{
    void (*const bodies[])(struct rank *) = {reduce_scatter_body, all_gather_body, all_reduce_body, all_to_all_body,
                                             broadcast_body};
    for (int i = 0; i < 5 && rank->report[0] == '\0'; i++)
        bodies[i](rank);
}

// Small messages: many calls one after the other, with sizes around those at which a message leaves its cache line or
// its slot.
enum { CALLS = 400, FLOATS_MAX = 2100 };

// Floats in a rank's shard: zero, one, primes, the rest of a cache line, and the limits of a slot.
static const size_t shard_counts[] = {0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 127, 128, 129, 251, 256, 257, 2047, 2048, 2049};
enum { SHARD_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

// The float that a rank sends to another at a position in a call: a small integer, so that sums are exact.
static inline float number(int call, int from, int to, size_t position)
{
    return (float)random_below(random_at(random_key((uint64_t)call, (uint64_t)from), (uint64_t)to << 32 | position),
                               999);
}

struct call {
    int index, root;
    size_t counts[RANKS_MAX], offsets[RANKS_MAX], total;  // of the shards
};

// All ranks draw the same call. Shards are equal, or end with a smaller one.
static inline struct call draw(int index, int world)
{
    uint64_t key = random_key(2024, (uint64_t)index);
    size_t shard = shard_counts[random_below(random_at(key, 0), SHARD_COUNTS)];
    struct call call = {.index = index, .root = (int)random_below(random_at(key, 1), (uint64_t)world)};
    if (random_below(random_at(key, 2), 2))
        shard /= (size_t)world;  // the whole has the size
    for (int rank = 0; rank < world; rank++) {
        call.counts[rank] = rank + 1 == world && world > 1 && random_below(random_at(key, 3), 2) ? shard / 2 : shard;
        call.offsets[rank] = call.total;
        call.total += call.counts[rank];
    }
    return call;
}

static inline void expect(struct rank *rank, const struct call *call, const char *what, size_t at, float got,
                          float expected)
{
    if (got != expected)
        rank_wrong(rank, "%s, call %d of %zu floats, root %d: element %zu is %g, not %g", what, call->index,
                   call->total, call->root, at, (double)got, (double)expected);
}

static inline float sum(const struct call *call, int world, size_t position)
{
    float total = 0;
    for (int from = 0; from < world; from++)
        total += number(call->index, from, 0, position);
    return total;
}

static inline int run_sum(struct rank *rank, const struct call *call, bool scatters, float *send, float *recv)
{
    size_t first = scatters ? call->offsets[rank->index] : 0;
    size_t count = scatters ? call->counts[rank->index] : call->total;
    for (size_t i = 0; i < call->total; i++)
        send[i] = number(call->index, rank->index, 0, i);
    TRY(scatters ? comm_reduce_scatter(rank->comm, send, recv, call->counts, call->offsets, DTYPE_FP32)
                 : comm_all_reduce(rank->comm, send, recv, count, DTYPE_FP32, COMM_SUM));
    for (size_t i = 0; i < count; i++)
        expect(rank, call, scatters ? "reduce-scatter" : "all-reduce", i, recv[i], sum(call, rank->world, first + i));
    return ERR_NONE;
}

static inline int run_all_gather(struct rank *rank, const struct call *call, float *send, float *recv)
{
    for (size_t i = 0; i < call->counts[rank->index]; i++)
        send[i] = number(call->index, rank->index, 0, i);
    TRY(comm_all_gather(rank->comm, send, recv, call->counts, call->offsets, DTYPE_FP32));
    for (int from = 0; from < rank->world; from++)
        for (size_t i = 0; i < call->counts[from]; i++)
            expect(rank, call, "all-gather", call->offsets[from] + i, recv[call->offsets[from] + i],
                   number(call->index, from, 0, i));
    return ERR_NONE;
}

// A rank sends to others as much as the shards say: each receives equal parts.
static inline int run_all_to_all(struct rank *rank, const struct call *call, float *send, float *recv)
{
    size_t counts[RANKS_MAX], offsets[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = call->counts[rank->index];
        offsets[peer] = (size_t)peer * counts[peer];
        for (size_t i = 0; i < call->counts[peer]; i++)
            send[call->offsets[peer] + i] = number(call->index, rank->index, peer, i);
    }
    TRY(comm_all_to_all(rank->comm, send, call->counts, call->offsets, recv, counts, offsets, DTYPE_FP32));
    for (int from = 0; from < rank->world; from++)
        for (size_t i = 0; i < counts[from]; i++)
            expect(rank, call, "all-to-all", offsets[from] + i, recv[offsets[from] + i],
                   number(call->index, from, rank->index, i));
    return ERR_NONE;
}

static inline int run_broadcast(struct rank *rank, const struct call *call, float *buffer)
{
    for (size_t i = 0; i < call->total; i++)
        buffer[i] = number(call->index, rank->index, 0, i);
    TRY(comm_broadcast(rank->comm, buffer, call->total * sizeof *buffer, call->root));
    for (size_t i = 0; i < call->total; i++)
        expect(rank, call, "broadcast", i, buffer[i], number(call->index, call->root, 0, i));
    return ERR_NONE;
}

// Half of the calls are broadcasts. The next call writes the buffers again immediately. A rank is late at times.
static inline void many_calls(struct rank *rank)
{
    float *send = calloc(2 * FLOATS_MAX * RANKS_MAX, sizeof *send), *recv = send + FLOATS_MAX * RANKS_MAX;
    for (int index = 0; index < CALLS && rank->report[0] == '\0'; index++) {
        struct call call = draw(index, rank->world);
        uint64_t operation = random_below(random_at(99, (uint64_t)index), 8);
        if (random_below(random_at((uint64_t)rank->index, (uint64_t)index), 64) == 0)
            sleep_seconds(100e-6);
        int rc = operation < 2    ? run_sum(rank, &call, operation, send, recv)
                 : operation == 2 ? run_all_gather(rank, &call, send, recv)
                 : operation == 3 ? run_all_to_all(rank, &call, send, recv)
                                  : run_broadcast(rank, &call, recv);
        if (rc != ERR_NONE)
            rank_wrong(rank, "call %d: %s", index, err_message());
    }
    free(send);
}
