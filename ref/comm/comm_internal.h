// SPDX-License-Identifier: Apache-2.0
// What a backend of comm.h implements: one function that carries out a described call. comm.c has checked the call,
// signed it, and counts it afterwards; so a backend moves data and nothing else.
#ifndef ZG_COMM_BACKEND_H
#define ZG_COMM_BACKEND_H

#include "ref/comm/comm.h"
#include "ref/comm/comm_native.h"

enum comm_operation {
    COMM_ALL_TO_ALL,
    COMM_REDUCE_SCATTER,
    COMM_ALL_GATHER,
    COMM_ALL_REDUCE,
    COMM_BROADCAST,
    COMM_BARRIER
};

// What all ranks must agree about, as plain numbers without padding: it is compared as bytes.
struct comm_signature {
    uint64_t sequence;       // collectives this rank has begun, this one included
    uint64_t count;          // elements of the whole buffer; 0 for all-to-all, whose counts are compared in pairs
    uint64_t shards_digest;  // of the counts by rank, where there are any
    uint32_t operation, send_dtype, recv_dtype, reduction, add, root;
    uint64_t group;  // of a hierarchical sum; 0: none
};
_Static_assert(sizeof(struct comm_signature) == 4 * 8 + 6 * 4, "no padding");

// One call of a collective by one rank. The arrays are the caller's and have an entry a rank.
struct comm_call {
    struct comm_signature signature;
    enum comm_operation operation;
    enum dtype send_dtype, recv_dtype;  // they differ in a reduce-scatter at most
    enum comm_reduction reduction;
    bool add;
    int root;
    int group;  // ranks in a group of a hierarchical sum; 0: the canonical order
    const void *send;
    void *recv;                                // broadcast: send and recv are the buffer
    size_t count;                              // elements of the whole buffer; all-to-all: that this rank sends
    const size_t *counts;                      // elements of each rank's shard; all-to-all: to send to each
    const size_t *offsets;                     // where each shard lies in the whole; all-to-all: in send
    const size_t *recv_counts, *recv_offsets;  // all-to-all
};

struct comm_ops {
    const char *name;
    bool has_native;  // sums of its own: run then looks at comm.native, and fills it in
    // Does not return before nobody touches this rank's buffers any more, whether it fails or not.
    int (*run)(struct comm *comm, const struct comm_call *call);
    int (*exchange)(struct comm *comm, int peer, const void *send, void *recv, size_t bytes);  // null: there is none
    // Without waiting: the failure of a rank, if this one has heard of any.
    int (*check)(struct comm *comm);
    void (*abort)(struct comm *comm, const char *message);
    void (*close)(struct comm *comm);
};

// A backend's handle begins with this.
struct comm {
    const struct comm_ops *ops;
    int rank, world;
    uint64_t sequence;
    struct ledger *ledger;
    enum ledger_purpose purpose;
    int group;  // of its sums
    bool uses_native;
    struct comm_native native;  // of this rank
};

// Notes that `count` elements of a format have come of a sum, of the whole from `offset` on.
void comm_native_compare(struct comm *comm, enum dtype dtype, const void *canonical, const void *native, size_t offset,
                         size_t count);

const char *comm_operation_name(enum comm_operation operation);

// Fills call->signature from the rest of the call.
void comm_call_sign(struct comm_call *call, uint64_t sequence, int world);

// "reduce-scatter of 12 fp32 to bf16, adding, in shards with digest 1a2b3c4d".
void comm_signature_text(const struct comm_signature *signature, char *text, size_t text_bytes);

// This rank's part when count elements are shared nearly equally: the first count % world shards are one larger.
size_t comm_shard(size_t count, int world, int rank, size_t *offset);

// out[i] = the call's reduction of in[0][i] .. in[world-1][i] in canonical order, or in groups, added to out[i] if the
// call says so. Of maxima that compare equal, and of NaNs, the lowest rank's bits win. Aliasing is as in dtype_fold.
void comm_fold(const struct comm_call *call, const void *const in[], int world, void *out, size_t count);

#endif
