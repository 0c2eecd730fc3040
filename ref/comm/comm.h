// SPDX-License-Identifier: Apache-2.0
// Collectives among the ranks of data parallelism. Sums are in canonical order: ranks ascending, left fold in fp32, one
// rounding to their own format (dtype_fold). Their bits depend only on the values, not on the transport, the
// number of buckets, or the cut of a buffer into shards. Callers scale results themselves, once, afterwards. Sums in
// hierarchical order (comm_set_group) depend only on the values and the size of a group.
//
// All ranks call the same collectives in the same order with matching counts; a mismatch is an error on every rank,
// whose message names both calls. A broadcast waits for its root alone, so an error about one may
// appear in a later call, at the latest in the first one for which all wait. When a rank fails (comm_abort, or it
// closes its handle early), every other rank returns ERR_PEER within a second, with the rank and message of the first
// failure. Counts are in elements.
//
// A result in an accelerator's memory is complete after accelerator_wait, which also returns errors of making it.
//
// Aliasing: send and recv may share memory only in the in-place form that each function describes. One thread at a time
// uses a handle.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;

enum comm_reduction { COMM_SUM, COMM_MAX };

int comm_rank(const struct comm *comm);
int comm_world(const struct comm *comm);

// The distance between neighbours in a part (comm_split), in ranks of the world that was opened; 1 for that world.
int comm_stride(const struct comm *comm);

// Selects the ledger for this rank's traffic; null: none. It counts what the rank sends to others:
//   all-to-all       the counts to other ranks
//   reduce-scatter   the sum of the other ranks' counts
//   all-gather       (world-1) x its own count
//   all-reduce       as a reduce-scatter over near-equal shards and an all-gather of them
//   broadcast        the root: (world-1) x bytes
//   send             the bytes
void comm_count_in(struct comm *comm, struct ledger *ledger);
struct ledger *comm_ledger(const struct comm *comm);

// Sets the purpose of the traffic that follows; PURPOSE_OTHER at first.
void comm_count_as(struct comm *comm, enum ledger_purpose purpose);

// Says which ranks of a mesh these are; GROUP_WORLD at first.
void comm_count_for(struct comm *comm, enum ledger_group group);

// Counts `count` collectives or messages that a plan only imagines, as if they had sent `bytes` together.
void comm_count(const struct comm *comm, enum ledger_purpose purpose, enum ledger_operation operation, uint64_t count,
                uint64_t bytes);

// Makes later sums hierarchical. Each `ranks` consecutive ranks, for example those of a host, form a group. The sum of
// a group is a left fold in fp32, ranks ascending, without rounding; the sums of the groups are folded in the same way,
// groups ascending, with one rounding at the end. 0, 1 and the world's size select the canonical order. All ranks call
// it with the same number. ERR_USAGE: it does not divide the world. Not supported for memory on a GPU.
int comm_set_group(struct comm *comm, int ranks);

// Collective: every rank names the ranks of its part of the world, itself included, in ascending order, and all ranks
// of a part name the same. A part is a world of its own, in which members[i] is rank i and which acts independently of
// the other parts; *out is its handle, without a ledger. It fails when this world fails. Every rank closes it before
// this world's handle. ERR_INTERNAL: the ranks disagree about a part.
int comm_split(struct comm *comm, const int members[], int count, struct comm **out);

// recv + recv_offsets[p] receives recv_counts[p] elements from rank p, which sends them from its
// send + send_offsets[rank]. recv_counts[p] here equals send_counts[rank] there. Not in place.
int comm_all_to_all(struct comm *comm, const void *send, const size_t send_counts[], const size_t send_offsets[],
                    void *recv, const size_t recv_counts[], const size_t recv_offsets[], enum dtype dtype);

// Rank r receives in recv[counts[r]] the sum over ranks of its shard, send + offsets[r]. In place: recv == this rank's
// shard of send; the other shards of send stay unchanged. Formats: fp32, bf16, fp16.
int comm_reduce_scatter(struct comm *comm, const void *send, void *recv, const size_t counts[], const size_t offsets[],
                        enum dtype dtype);

// recv + offsets[p] receives counts[p] elements from rank p's send. In place: send == recv + offsets[rank].
int comm_all_gather(struct comm *comm, const void *send, void *recv, const size_t counts[], const size_t offsets[],
                    enum dtype dtype);

// An all-gather of one part of `bytes` from every rank: all + r * bytes receives rank r's. In place: own is this rank's
// part of all.
int comm_all_gather_equal(struct comm *comm, const void *own, void *all, size_t bytes);

// recv[count] = the sum or the maximum over ranks of send[count]. In place: recv == send. COMM_MAX compares bytes as
// unsigned numbers; among floats, NaN wins. COMM_MAX supports host memory only.
int comm_all_reduce(struct comm *comm, const void *send, void *recv, size_t count, enum dtype dtype,
                    enum comm_reduction reduction);

// If the bytes are few, the root may return before the others have called.
int comm_broadcast(struct comm *comm, void *buffer, size_t bytes, int root);
int comm_barrier(struct comm *comm);

// Sends a message to `peer`, and receives one from it; the other ranks do not take part. Messages from one rank to
// another arrive in the order of the sends. A send copies its message and returns, unless the one before it to this
// peer has not been received yet: then it may wait for that, so that memory of the transport holds one message from
// each rank to each other at most. The receiver names the size and the tag that it expects; another message, or a peer
// that fails or leaves, is an error on both ranks. Supports host memory only. ERR_USAGE: NCCL, whose ranks have no
// messages here.
int comm_send(struct comm *comm, int peer, uint64_t tag, const void *buffer, size_t bytes);
int comm_receive(struct comm *comm, int peer, uint64_t tag, void *buffer, size_t bytes);

// Exchanges `bytes` in each direction between this rank and `peer`; the other ranks do not take part. Neither counts
// nor compares the call. send and recv do not overlap. ERR_USAGE: the ranks are threads, which have no link.
int comm_exchange(struct comm *comm, int peer, const void *send, void *recv, size_t bytes);

// Makes the present and later calls of every rank fail with this rank and this message, unless another rank failed
// first. Any thread may call it.
void comm_abort(struct comm *comm, const char *message);

// Closes the handle. A rank that closes while others are in a collective, or enter one later, counts as failed.
// Null-safe.
void comm_close(struct comm *comm);

// Opens a world whose ranks are threads of this process: fills comms[world]. The thread of each rank uses and closes
// its handle.
int comm_local_open(int world, struct comm *comms[]);

// Opens one rank of a world of any size whose other ranks do not exist, for a plan: collectives assume that every rank
// has this rank's numbers. Supports all-gathers and barriers; other collectives return ERR_INTERNAL.
int comm_dry_open(int rank, int world, struct comm **out);
