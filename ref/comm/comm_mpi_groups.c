// SPDX-License-Identifier: Apache-2.0
// Hierarchical sums between processes. Column m is the shards of the members m of all groups. Within a group each rank
// sends column m to member m in one message, and folds the columns that it receives; then the members m of all groups
// exchange their group's sums of each other's shards. With G ranks in a group and H groups, a rank sends G + H - 2
// messages for each piece, and only H - 1 of them leave the group's host.
#include "ref/comm/comm_mpi.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

struct sums {
    struct comm_pieces pieces;
    int size, groups, own_group, own_member;
    char *packed, *received;   // [size] columns of a piece, to and from each member
    float *partial, *arrived;  // [groups] pieces: this group's sums for each owner; each group's sum of the own shard
};

static int owner_of(const struct sums *s, int group, int member)
{
    return group * s->size + member;
}

static char *column_at(const struct sums *s, char *columns, int member)
{
    return columns + (size_t)member * (size_t)s->groups * s->pieces.piece_count * s->pieces.element_bytes;
}

// Packs the pieces of a column one after the other; returns their bytes.
static size_t pack(const struct sums *s, int member, size_t k)
{
    char *column = column_at(s, s->packed, member);
    size_t used = 0;
    for (int group = 0; group < s->groups; group++) {
        int owner = owner_of(s, group, member);
        size_t bytes = comm_piece_length(&s->pieces, owner, k) * s->pieces.element_bytes;
        if (bytes > 0)
            memcpy(column + used, comm_piece_in_send(&s->pieces, owner, k), bytes);
        used += bytes;
    }
    return used;
}

static size_t own_column_bytes(const struct sums *s, size_t k)
{
    size_t bytes = 0;
    for (int group = 0; group < s->groups; group++)
        bytes += comm_piece_length(&s->pieces, owner_of(s, group, s->own_member), k) * s->pieces.element_bytes;
    return bytes;
}

static int exchange_in_group(struct comm_mpi *mpi, const struct sums *s, size_t k)
{
    size_t own_bytes = own_column_bytes(s, k);
    int count = 0;
    for (int round = 1; round < s->size; round++) {
        int to = (s->own_member + round) % s->size, from = (s->own_member - round + s->size) % s->size;
        size_t bytes = pack(s, to, k);
        if (own_bytes > 0)
            TRY(comm_mpi_receive(mpi, column_at(s, s->received, from), own_bytes, owner_of(s, s->own_group, from),
                                 &mpi->requests[count++]));
        if (bytes > 0)
            TRY(comm_mpi_send(mpi, column_at(s, s->packed, to), bytes, owner_of(s, s->own_group, to),
                              &mpi->requests[count++]));
    }
    return comm_mpi_wait(mpi, mpi->requests, count);
}

static void fold_group(const struct sums *s, size_t k)
{
    size_t used = 0;
    for (int group = 0; group < s->groups; group++) {
        int owner = owner_of(s, group, s->own_member);
        size_t length = comm_piece_length(&s->pieces, owner, k);
        const void *in[s->size];
        for (int member = 0; member < s->size; member++)
            in[member] = member == s->own_member ? comm_piece_in_send(&s->pieces, owner, k)
                                                 : column_at(s, s->received, member) + used;
        if (length > 0)
            dtype_fold(s->pieces.call->dtype, in, s->size, DTYPE_FP32,
                       s->partial + (size_t)group * s->pieces.piece_count, length);
        used += length * s->pieces.element_bytes;
    }
}

static int exchange_between_groups(struct comm_mpi *mpi, const struct sums *s, size_t k)
{
    size_t own_bytes = comm_piece_length(&s->pieces, mpi->comm.rank, k) * sizeof(float);
    int count = 0;
    for (int round = 1; round < s->groups; round++) {
        int to = (s->own_group + round) % s->groups, from = (s->own_group - round + s->groups) % s->groups;
        int receiver = owner_of(s, to, s->own_member), sender = owner_of(s, from, s->own_member);
        size_t bytes = comm_piece_length(&s->pieces, receiver, k) * sizeof(float);
        if (own_bytes > 0)
            TRY(comm_mpi_receive(mpi, s->arrived + (size_t)from * s->pieces.piece_count, own_bytes, sender,
                                 &mpi->requests[count++]));
        if (bytes > 0)
            TRY(comm_mpi_send(mpi, s->partial + (size_t)to * s->pieces.piece_count, bytes, receiver,
                              &mpi->requests[count++]));
    }
    return comm_mpi_wait(mpi, mpi->requests, count);
}

static void fold_groups(const struct sums *s, int own, size_t k, char *out)
{
    size_t length = comm_piece_length(&s->pieces, own, k);
    const void *in[s->groups];
    for (int group = 0; group < s->groups; group++)
        in[group] = (group == s->own_group ? s->partial : s->arrived) + (size_t)group * s->pieces.piece_count;
    if (length > 0)
        dtype_fold(DTYPE_FP32, in, s->groups, s->pieces.call->dtype,
                   out + k * s->pieces.piece_count * s->pieces.element_bytes, length);
}

int comm_mpi_reduce_groups(struct comm_mpi *mpi, const struct comm_call *call, const size_t counts[],
                           const size_t offsets[], char *out)
{
    assert(call->group > 1 && mpi->comm.world % call->group == 0);
    size_t world = (size_t)mpi->comm.world, largest = comm_largest_shard(counts, mpi->comm.world);
    int size = call->group, groups = mpi->comm.world / size;
    struct sums s = {.pieces = {call, counts, offsets, dtype_bytes(call->dtype), 0}, .size = size, .groups = groups};
    s.own_group = mpi->comm.rank / size;
    s.own_member = mpi->comm.rank % size;
    // Sizes pieces as fp32 for every format, so that all parts are aligned for fp32.
    s.pieces.piece_count = mpi->stage_bytes / sizeof(float) / (2 * world + 2 * (size_t)groups);
    s.partial = (float *)(void *)mpi->stage;
    s.arrived = s.partial + (size_t)groups * s.pieces.piece_count;
    s.packed = (char *)(s.arrived + (size_t)groups * s.pieces.piece_count);
    s.received = s.packed + world * s.pieces.piece_count * sizeof(float);
    for (size_t k = 0; k * s.pieces.piece_count < largest; k++) {
        TRY(exchange_in_group(mpi, &s, k));
        fold_group(&s, k);
        TRY(exchange_between_groups(mpi, &s, k));
        fold_groups(&s, mpi->comm.rank, k, out);
    }
    return ERR_NONE;
}
