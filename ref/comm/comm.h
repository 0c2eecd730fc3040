// SPDX-License-Identifier: Apache-2.0
// Collectives among the ranks of data parallelism. Sums are in canonical order: ranks ascending, left fold in fp32,
// one rounding to the receiver's format (dtype_fold). So their bits depend on the values alone: not on the transport,
// the number of buckets, or how a buffer is cut. A scaling, if any, is the caller's, once, afterwards.
// Or in hierarchical order (comm_set_group), whose bits depend on the values and the size of a group alone.
//
// All ranks call the same collectives in the same order with matching counts; a mismatch is an error on every rank
// that names both calls. When a rank fails (comm_abort, or it closes its handle early), every other rank returns
// ERR_PEER within a second with the first failure's rank and message. Counts are elements.
//
// Aliasing, everywhere: send and recv may be the same memory only in the in-place form written at each function.
// A handle serves one thread at a time.
#ifndef ZG_COMM_H
#define ZG_COMM_H

#include "ref/arithmetic/dtype.h"
#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;

enum comm_reduction { COMM_SUM, COMM_MAX };

int comm_rank(const struct comm *comm);
int comm_world(const struct comm *comm);

// Where this rank's traffic is counted from now on; null: nowhere. Counted is what the rank sends to others:
//   all-to-all       the counts to other ranks
//   reduce-scatter   the sum of the other ranks' counts
//   all-gather       (world-1) x its own count
//   all-reduce       as a reduce-scatter over near-equal shards and an all-gather of them
//   broadcast        the root: (world-1) x bytes
void comm_count_in(struct comm *comm, struct ledger *ledger);
struct ledger *comm_ledger(const struct comm *comm);

// What the traffic from now on is for; PURPOSE_OTHER at first.
void comm_count_as(struct comm *comm, enum ledger_purpose purpose);

// From now on sums are hierarchical: every `ranks` ranks in a row, those of a host say, are a group. The left fold in
// fp32 of each group, ranks ascending, is not rounded; the groups' sums are folded in fp32 in the same way, groups
// ascending, with one rounding at the end. 0, 1, and as many as there are ranks: the canonical order. All ranks call it
// with the same number. ERR_USAGE: it does not divide the world. Not of memory on a GPU.
int comm_set_group(struct comm *comm, int ranks);

// recv + recv_offsets[p] receives recv_counts[p] elements from rank p, taken there from send + send_offsets[rank].
// recv_counts[p] here equals send_counts[rank] there. Not in place.
int comm_all_to_all(struct comm *comm, const void *send, const size_t send_counts[], const size_t send_offsets[],
                    void *recv, const size_t recv_counts[], const size_t recv_offsets[], enum dtype dtype);

// Every rank gives send[sum of counts]; rank r receives into recv[counts[r]] the sum over ranks of its shard, which
// starts at the sum of the counts before it. With `add` the sum is added to what recv holds (accumulation over
// micro-steps). In place: recv == this rank's shard of send, with equal formats and without add; the other shards of
// send are unchanged. fp32, bf16, fp16.
int comm_reduce_scatter(struct comm *comm, const void *send, enum dtype send_dtype, void *recv, enum dtype recv_dtype,
                        const size_t counts[], bool add);

// The same between equal formats, of shards that lie anywhere in send: rank r's is the sum of send + offsets[r].
int comm_reduce_scatter_at(struct comm *comm, const void *send, const size_t offsets[], void *recv,
                           const size_t counts[], enum dtype dtype);

// recv + offsets[p] receives counts[p] elements from rank p's send. In place: send == recv + offsets[rank].
int comm_all_gather(struct comm *comm, const void *send, void *recv, const size_t counts[], const size_t offsets[],
                    enum dtype dtype);

// recv[count] = the sum or the maximum over ranks of send[count]. In place: recv == send. COMM_MAX of bytes compares
// unsigned; of floats, NaN wins. Maxima are taken in this processor's memory alone, not in an accelerator's.
int comm_all_reduce(struct comm *comm, const void *send, void *recv, size_t count, enum dtype dtype,
                    enum comm_reduction reduction);

int comm_broadcast(struct comm *comm, void *buffer, size_t bytes, int root);
int comm_barrier(struct comm *comm);

// Between this rank and `peer` alone: each sends `bytes` and receives as many. The others take no part, and nothing is
// counted or compared. send and recv do not overlap. ERR_USAGE: ranks that are threads have no link to send through.
int comm_exchange(struct comm *comm, int peer, const void *send, void *recv, size_t bytes);

// A transport's own sums, in an order that it chooses itself, each beside the canonical one of the same values.
struct comm_native {
    uint64_t sums;                         // collectives that added up, in all
    uint64_t elements, different;          // of the results, a sum over ranks; of them, those with other bits
    uint64_t first_sum;                    // the number, from 1 up, of the first sum that differs; 0: none does
    uint64_t first_rank, first_element;    // where: the lowest such rank, and its place in the whole buffer
    uint32_t canonical_bits, native_bits;  // of that element
};

// From now on reduce-scatter and all-reduce leave the transport's own sums; maxima stay as they are. What is counted as
// sent stays what the canonical collective sends. All ranks call it. ERR_USAGE: this transport has none.
int comm_native_begin(struct comm *comm);

// Collective, not counted: what all ranks have found since.
int comm_native_found(struct comm *comm, struct comm_native *out);

// This rank gives up: every rank's present and later calls fail with this rank and this message, unless some other
// rank failed first. Any thread may call it.
void comm_abort(struct comm *comm, const char *message);

// Ends this rank's part. A rank that closes while others are in or go into a collective counts as failed. Null-safe.
void comm_close(struct comm *comm);

// Ranks are threads of this process: fills comms[world]; each handle is then used, and closed, by its rank's thread.
int comm_local_open(int world, struct comm *comms[]);

#endif
