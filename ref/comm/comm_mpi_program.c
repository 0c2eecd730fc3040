// SPDX-License-Identifier: Apache-2.0
// A rank of the tests of comm_mpi.c, started by mpirun.
//   collectives SEED COUNT   random collectives of random shapes, formats and positions; compares every byte with plain
//                            loops over the inputs of all ranks, which each rank regenerates
//   pieces SEED COUNT        as `collectives`, with odd message sizes and little memory, so that every message is cut
//   groups SEED COUNT        as `pieces`, with hierarchical sums
//   messages SEED COUNT      messages around a ring, cut into many of MPI's, between collectives
//   large                    single buffers beyond 2^31 bytes
// Each rank prints its error message on one line.
#include "ref/comm/comm_mpi.h"
#include "base/err.h"
#include "ref/comm/launcher.h"
#include "ref/arithmetic/random.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EDGE_BYTES = 64, POISON = 0xa5, COUNT_MAX = 70001, RANKS_MAX = 16 };

// Random numbers from the seed, the same on every rank.
static uint64_t key, position;

static int group;  // of sums

static size_t below(size_t limit)
{
    return (size_t)(random_at(key, position++) % limit);
}

static size_t some_count(void)
{
    static const size_t special[] = {0, 1, 2, 997, 2048, 2049, 20011, COUNT_MAX};
    return below(2) ? special[below(sizeof special / sizeof special[0])] : below(5000);
}

// Makes the values that a rank sends in a call: fp32, rounded to 16 bits, or bytes.
static void make_input(enum dtype dtype, uint64_t call, int rank, size_t count, void *out)
{
    uint64_t input = random_key(call, (uint64_t)rank + 1);
    for (size_t i = 0; i < count; i++) {
        float value = random_normal(random_at(input, i));
        if (dtype == DTYPE_BYTE)
            ((uint8_t *)out)[i] = (uint8_t)random_at(input, i);
        else
            dtype_narrow(dtype, &value, (char *)out + i * dtype_bytes(dtype), 1);
    }
}

// Memory with poison around it.
struct guarded {
    unsigned char *base;
    char *data;
    size_t bytes;
};

static struct guarded guarded_open(size_t bytes)
{
    struct guarded g = {malloc(bytes + 2 * EDGE_BYTES), NULL, bytes};
    memset(g.base, POISON, bytes + 2 * EDGE_BYTES);
    g.data = (char *)g.base + EDGE_BYTES;
    return g;
}

// Returns whether the data equals the expected data and the poison is unchanged.
static bool guarded_is(const struct guarded *g, const void *expected)
{
    bool good = g->bytes == 0 || memcmp(g->data, expected, g->bytes) == 0;
    for (int i = 0; i < EDGE_BYTES; i++)
        good &= g->base[i] == POISON && g->base[EDGE_BYTES + g->bytes + (size_t)i] == POISON;
    return good;
}

struct shards {
    size_t counts[RANKS_MAX], offsets[RANKS_MAX], total;
};

static struct shards some_shards(int world)
{
    struct shards s = {.total = 0};
    size_t kind = below(3), count = some_count();
    for (int rank = 0; rank < world; rank++) {
        size_t ignored;
        s.counts[rank] = kind == 0 ? comm_shard(count, world, rank, &ignored) : kind == 1 ? below(3000) : 0;
    }
    if (kind == 2)
        s.counts[below((size_t)world)] = count;
    for (int rank = 0; rank < world; rank++) {
        s.offsets[rank] = s.total;
        s.total += s.counts[rank];
    }
    return s;
}

// The reduction of all ranks' inputs, in canonical order.
static void reduce_plainly(const struct comm_call *call, uint64_t number, int world, size_t count, void *out)
{
    void *in[RANKS_MAX];
    for (int rank = 0; rank < world; rank++) {
        in[rank] = malloc(count * 4 + 1);
        make_input(call->send_dtype, number, rank, count, in[rank]);
    }
    comm_fold(call, (const void *const *)in, world, out, count);
    for (int rank = 0; rank < world; rank++)
        free(in[rank]);
}

static int try_reduce_scatter(struct comm *comm, uint64_t number, bool *good)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    enum dtype send_dtype = (enum dtype)below(3), recv_dtype = below(2) ? send_dtype : (enum dtype)below(3);
    bool add = below(2), in_place = !add && send_dtype == recv_dtype && below(2);
    struct shards s = some_shards(world);
    size_t send_bytes = dtype_bytes(send_dtype), recv_bytes = dtype_bytes(recv_dtype), own = s.counts[rank];
    struct guarded send = guarded_open(s.total * send_bytes), recv = guarded_open(own * recv_bytes);
    char *input = malloc(s.total * send_bytes + 1), *expected = malloc(own * recv_bytes + 1);
    make_input(send_dtype, number, rank, s.total, send.data);
    make_input(recv_dtype, number + 1000, rank, own, recv.data);
    memcpy(input, send.data, send.bytes);
    memcpy(expected, recv.data, recv.bytes);
    struct comm_call call = {.send_dtype = send_dtype, .recv_dtype = recv_dtype, .add = add, .group = group};
    char *all = malloc(s.total * 4 + 1);
    // The sum of the whole, with the shard's own addend in its place.
    memset(all, 0, s.total * 4 + 1);
    memcpy(all + s.offsets[rank] * recv_bytes, expected, own * recv_bytes);
    reduce_plainly(&call, number, world, s.total, all);
    memcpy(expected, all + s.offsets[rank] * recv_bytes, own * recv_bytes);
    int rc = comm_reduce_scatter(comm, send.data, send_dtype,
                                 in_place && own > 0 ? send.data + s.offsets[rank] * send_bytes : recv.data, recv_dtype,
                                 s.counts, add);
    if (in_place && own > 0)
        memcpy(input + s.offsets[rank] * send_bytes, expected, own * send_bytes);
    *good = guarded_is(&send, input) && ((in_place && own > 0) || guarded_is(&recv, expected));
    free(send.base), free(recv.base), free(input), free(expected), free(all);
    return rc;
}

static int try_all_reduce(struct comm *comm, uint64_t number, bool *good)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    enum comm_reduction reduction = below(3) ? COMM_SUM : COMM_MAX;
    enum dtype dtype = (enum dtype)below(reduction == COMM_MAX ? 4 : 3);
    bool in_place = below(2);
    size_t count = some_count(), bytes = count * dtype_bytes(dtype);
    struct guarded send = guarded_open(bytes), recv = guarded_open(bytes);
    char *expected = malloc(bytes + 1);
    make_input(dtype, number, rank, count, send.data);
    struct comm_call call = {.send_dtype = dtype, .recv_dtype = dtype, .reduction = reduction, .group = group};
    reduce_plainly(&call, number, world, count, expected);
    int rc = comm_all_reduce(comm, send.data, in_place ? send.data : recv.data, count, dtype, reduction);
    *good = guarded_is(in_place ? &send : &recv, expected);
    free(send.base), free(recv.base), free(expected);
    return rc;
}

static int try_all_gather(struct comm *comm, uint64_t number, bool *good)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    enum dtype dtype = (enum dtype)below(4);
    bool in_place = below(2);
    struct shards s = some_shards(world);
    size_t bytes = dtype_bytes(dtype), own = s.counts[rank];
    struct guarded send = guarded_open(own * bytes), recv = guarded_open(s.total * bytes);
    char *expected = malloc(s.total * bytes + 1);
    for (int peer = 0; peer < world; peer++)
        make_input(dtype, number, peer, s.counts[peer], expected + s.offsets[peer] * bytes);
    char *from = in_place ? recv.data + s.offsets[rank] * bytes : send.data;
    make_input(dtype, number, rank, own, from);
    int rc = comm_all_gather(comm, from, recv.data, s.counts, s.offsets, dtype);
    *good = guarded_is(&recv, expected);
    free(send.base), free(recv.base), free(expected);
    return rc;
}

static int try_all_to_all(struct comm *comm, uint64_t number, bool *good)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    enum dtype dtype = (enum dtype)below(4);
    size_t bytes = dtype_bytes(dtype), table[RANKS_MAX][RANKS_MAX];
    size_t send_offsets[RANKS_MAX], recv_offsets[RANKS_MAX], recv_counts[RANKS_MAX], sent = 0, received = 0;
    for (int from = 0; from < world; from++)
        for (int to = 0; to < world; to++)
            table[from][to] = below(3) ? below(2000) : 0;
    for (int peer = 0; peer < world; peer++) {
        send_offsets[peer] = sent;
        recv_offsets[peer] = received;
        recv_counts[peer] = table[peer][rank];
        sent += table[rank][peer];
        received += recv_counts[peer];
    }
    struct guarded send = guarded_open(sent * bytes), recv = guarded_open(received * bytes);
    char *expected = malloc(received * bytes + 1), *theirs = malloc(2000u * RANKS_MAX * 4);
    make_input(dtype, number, rank, sent, send.data);
    for (int peer = 0; peer < world; peer++) {
        size_t before = 0, all = 0;
        for (int to = 0; to < world; to++) {
            before += to < rank ? table[peer][to] : 0;
            all += table[peer][to];
        }
        make_input(dtype, number, peer, all, theirs);
        memcpy(expected + recv_offsets[peer] * bytes, theirs + before * bytes, recv_counts[peer] * bytes);
    }
    int rc = comm_all_to_all(comm, send.data, table[rank], send_offsets, recv.data, recv_counts, recv_offsets, dtype);
    *good = guarded_is(&recv, expected);
    free(send.base), free(recv.base), free(expected), free(theirs);
    return rc;
}

static int try_broadcast(struct comm *comm, uint64_t number, bool *good)
{
    int root = (int)below((size_t)comm_world(comm));
    size_t bytes = some_count();
    struct guarded buffer = guarded_open(bytes);
    char *expected = malloc(bytes + 1);
    make_input(DTYPE_BYTE, number, root, bytes, expected);
    make_input(DTYPE_BYTE, number, comm_rank(comm), bytes, buffer.data);
    int rc = comm_broadcast(comm, buffer.data, bytes, root);
    *good = guarded_is(&buffer, expected);
    free(buffer.base), free(expected);
    return rc;
}

static int collectives(struct comm *comm, uint64_t seed, int count)
{
    static int (*const trials[])(struct comm *, uint64_t, bool *) = {try_reduce_scatter, try_all_reduce, try_all_gather,
                                                                     try_all_to_all, try_broadcast};
    key = random_key(seed, 77);
    for (int i = 0; i < count; i++) {
        size_t which = below(5);
        bool good = false;
        TRY(trials[which](comm, random_key(seed, (uint64_t)i), &good));
        if (!good)
            return err_set(ERR_CHECK, "collective %d of kind %zu is wrong", i, which);
    }
    return comm_barrier(comm);
}

static int pieces(struct comm *comm, uint64_t seed, int count)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    mpi->message_bytes = 4099;
    mpi->stage_bytes = 128 << 10;
    return collectives(comm, seed, count);
}

static int groups(struct comm *comm, uint64_t seed, int count)
{
    group = comm_world(comm) % 3 == 0 ? 3 : 2;
    TRY(comm_set_group(comm, group));
    return pieces(comm, seed, count);
}

// Element i of a large buffer: one of 64 small whole numbers, without a period that a message could have.
static uint16_t large_element(size_t i, int rank)
{
    uint64_t number = (i + (size_t)rank * 7919) * 0x9E3779B97F4A7C15u;
    return f32_to_bf16((float)(number >> 58)).bits;
}

// 2 ranks. A broadcast, an all-to-all in which one rank sends all, and a reduce-scatter of one shard, in place.
static int large(struct comm *comm)
{
    const size_t count = ((size_t)1 << 30) + 4099;
    int rank = comm_rank(comm);
    uint16_t *buffer = malloc(count * sizeof *buffer), *other = rank == 0 ? malloc(count * sizeof *other) : buffer;
    if (!buffer || !other)
        return err_set(ERR_MEMORY, "no memory for %zu bytes", count * sizeof *buffer);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        buffer[i] = rank == 1 ? large_element(i, 1) : 0;
    TRY(comm_broadcast(comm, buffer, count * sizeof *buffer, 1));
    for (size_t i = 0; i < count; i++)
        wrong += buffer[i] != large_element(i, 1);
    const size_t none[] = {0, 0}, to_zero[] = {count, 0}, from_one[] = {0, count};
    memset(other, 0, rank == 0 ? count * sizeof *other : 0);
    TRY(comm_all_to_all(comm, buffer, rank == 1 ? to_zero : none, none, rank == 0 ? other : NULL,
                        rank == 0 ? from_one : none, none, DTYPE_BF16));
    for (size_t i = 0; i < count && rank == 0; i++)
        wrong += other[i] != large_element(i, 1);
    for (size_t i = 0; i < count && rank == 0; i++)
        buffer[i] = large_element(i, 0);
    TRY(comm_reduce_scatter(comm, buffer, DTYPE_BF16, rank == 0 ? buffer : other + count, DTYPE_BF16, to_zero, false));
    for (size_t i = 0; i < count && rank == 0; i++) {
        float sum = bf16_to_f32((struct bf16){large_element(i, 0)}) + bf16_to_f32((struct bf16){large_element(i, 1)});
        wrong += buffer[i] != f32_to_bf16(sum).bits;
    }
    free(rank == 0 ? other : NULL);
    free(buffer);
    return wrong == 0 ? comm_barrier(comm) : err_set(ERR_CHECK, "%zu elements are wrong", wrong);
}

// Each rank sends to the next one and receives from the one before, `count` messages of random sizes, with two on their
// way at times.
static int messages(struct comm *comm, uint64_t seed, int count)
{
    int world = comm_world(comm), rank = comm_rank(comm), next = (rank + 1) % world,
        before = (rank + world - 1) % world;
    ((struct comm_mpi *)comm)->message_bytes = 4099;
    for (int i = 0; world > 1 && i < count; i++) {
        key = random_key(seed, (uint64_t)i);
        position = 0;
        size_t bytes = some_count();
        char *out = malloc(bytes + 1);
        struct guarded in = guarded_open(bytes);
        make_input(DTYPE_BYTE, key, rank, bytes, out);
        TRY(comm_send(comm, next, (uint64_t)i, out, bytes));
        memset(out, POISON, bytes);
        TRY(comm_receive(comm, before, (uint64_t)i, in.data, bytes));
        make_input(DTYPE_BYTE, key, before, bytes, out);
        if (!guarded_is(&in, out))
            return err_set(ERR_CHECK, "message %d of %zu bytes is wrong", i, bytes);
        free(in.base), free(out);
        if (i % 7 == 0)
            TRY(collectives(comm, seed, 2));
    }
    return comm_barrier(comm);
}

// The collectives of parts: of the even and the odd ranks, and of neighbours in these.
static int parts(struct comm *comm, uint64_t seed, int count)
{
    int members[RANKS_MAX], size = 0;
    struct comm *part, *inner;
    for (int rank = comm_rank(comm) % 2; rank < comm_world(comm); rank += 2)
        members[size++] = rank;
    TRY(comm_split(comm, members, size, &part));
    TRY(collectives(part, seed, count));
    int first = comm_rank(part) / 2 * 2, pair[] = {first, first + 1};
    TRY(comm_split(part, pair, first + 1 < size ? 2 : 1, &inner));
    TRY(collectives(inner, seed, count));
    TRY(collectives(comm, seed, count));
    comm_close(inner);
    comm_close(part);
    return ERR_NONE;
}

int main(int argc, char **argv)
{
    struct launcher launcher;
    struct comm *comm;
    if (argc < 2 || launcher_find(&launcher) != ERR_NONE || launcher_open(&launcher, &comm) != ERR_NONE) {
        fprintf(stderr, "%s\n", err_message());
        return 2;
    }
    int rank = comm_rank(comm);
    const char *word = argv[1];
    bool seeded = argc == 4, plain = seeded || strcmp(word, "large") == 0;
    int (*const trial)(struct comm *, uint64_t, int) = strcmp(word, "pieces") == 0     ? pieces
                                                       : strcmp(word, "groups") == 0   ? groups
                                                       : strcmp(word, "parts") == 0    ? parts
                                                       : strcmp(word, "messages") == 0 ? messages
                                                                                       : collectives;
    int rc = seeded ? trial(comm, strtoull(argv[2], NULL, 10), atoi(argv[3])) : plain ? large(comm) : ERR_USAGE;
    printf("rank %d: %s\n", rank, rc == ERR_NONE ? "good" : err_message());
    fflush(stdout);
    launcher_close(comm, rc != ERR_NONE);
    if (rc != ERR_NONE)
        _exit(1);
    return 0;
}
