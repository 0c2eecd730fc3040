// SPDX-License-Identifier: Apache-2.0
// The interface between comm.c and the backends of comm.h. comm.c checks and signs each call and counts it afterwards;
// a backend compares the signatures of all ranks and moves the data.
#pragma once

#include "ref/comm/comm.h"

enum comm_operation {
    COMM_ALL_TO_ALL,
    COMM_REDUCE_SCATTER,
    COMM_ALL_GATHER,
    COMM_ALL_REDUCE,
    COMM_BROADCAST,
    COMM_BARRIER
};

// The properties of a call that all ranks must agree on: plain numbers without padding, compared as bytes.
struct comm_signature {
    uint64_t sequence;       // collectives this rank has begun, including this one
    uint64_t count;          // elements of the full buffer; 0 for all-to-all, whose counts are compared in pairs
    uint64_t shards_digest;  // of the counts by rank, for operations that have them
    uint32_t operation, dtype, reduction, root;
    uint64_t group;  // ranks in a group of a hierarchical sum; 0: the canonical order
};
_Static_assert(sizeof(struct comm_signature) == 4 * 8 + 4 * 4, "no padding");

// One call of a collective by one rank. The arrays belong to the caller and have one entry for each rank.
struct comm_call {
    struct comm_signature signature;
    enum comm_operation operation;
    enum dtype dtype;
    enum comm_reduction reduction;
    int root;
    int group;  // ranks in a group of a hierarchical sum; 0: the canonical order
    const void *send;
    void *recv;                                // broadcast: send and recv are the buffer
    size_t count;                              // elements of the full buffer; all-to-all: sent by this rank
    const size_t *counts;                      // elements of each rank's shard; all-to-all: sent to each rank
    const size_t *offsets;                     // of each shard in the full buffer; all-to-all: in send
    const size_t *recv_counts, *recv_offsets;  // all-to-all
};

// A message between two ranks. Its kind: the tag and the size, which sender and receiver must agree on, compared as
// bytes.
struct comm_message {
    struct comm_message_kind {
        uint64_t tag, bytes;
    } kind;
    int peer;
    void *buffer;  // a send only reads it
};

// A rank's part of a world that is split.
struct comm_part {
    int rank, world;     // this rank's number in the part, and the ranks of the part
    int first;           // the lowest rank of the part, as the whole world numbers it
    const int *members;  // [world] all of them
};

struct comm_ops {
    const char *name;
    // Returns, with or without an error, only after all other ranks have finished with this rank's buffers.
    int (*run)(struct comm *comm, const struct comm_call *call);
    int (*exchange)(struct comm *comm, int peer, const void *send, void *recv, size_t bytes);  // null: not supported
    int (*send)(struct comm *comm, const struct comm_message *message);  // null: not supported, nor receive
    int (*receive)(struct comm *comm, const struct comm_message *message);
    // Collective, after all ranks have agreed on the parts.
    int (*split)(struct comm *comm, const struct comm_part *part, struct comm **out);
    // Returns the failure of a rank, if this rank knows of one; does not wait.
    int (*check)(struct comm *comm);
    void (*abort)(struct comm *comm, const char *message);
    void (*close)(struct comm *comm);
};

// The first member of every backend's handle.
struct comm {
    const struct comm_ops *ops;
    int rank, world;
    int stride;  // comm_stride; 0: not split
    uint64_t sequence;
    struct ledger *ledger;
    enum ledger_purpose purpose;
    enum ledger_group counted_group;
    int group;  // ranks in a group of hierarchical sums; 0: the canonical order
};

const char *comm_operation_name(enum comm_operation operation);

// Fills call->signature from the rest of the call.
void comm_call_sign(struct comm_call *call, uint64_t sequence, int world);

// Writes a text such as "reduce-scatter of 12 bf16 in shards with digest 1a2b3c4d".
void comm_signature_text(const struct comm_signature *signature, char *text, size_t text_bytes);

// "rank 1 expects message 7 of 64 bytes from rank 0, which sends message 8 of 64 bytes".
void comm_message_text(const struct comm *comm, const struct comm_message *expected,
                       const struct comm_message_kind *sent, char *text, size_t text_bytes);

// Returns the elements and sets the offset of a rank's shard of count elements. Shards are nearly equal: the first
// count % world are one element larger.
size_t comm_shard(size_t count, int world, int rank, size_t *offset);

// A rank sends the one to a rank, and receives the other from another.
struct comm_transfer {
    const char *send;
    char *recv;
    size_t send_bytes, recv_bytes;
};

// The transfer of an all-to-all or an all-gather.
struct comm_transfer comm_transfer_of(const struct comm_call *call, int rank, int to, int from);

// A reduction in which each rank owns one shard. Piece k of all shards is in flight at the same time.
struct comm_pieces {
    const struct comm_call *call;
    const size_t *counts, *offsets;  // of the shards in send
    size_t element_bytes, piece_count;
};

size_t comm_largest_shard(const size_t counts[], int world);
size_t comm_piece_length(const struct comm_pieces *p, int rank, size_t k);
const char *comm_piece_in_send(const struct comm_pieces *p, int rank, size_t k);

// Fills the counts and offsets of an all-reduce's shards; returns the all-gather of the reduced shards.
struct comm_call comm_gather_after(const struct comm_call *call, int world, int rank, size_t counts[],
                                   size_t offsets[]);

// out[i] = the call's reduction of in[0][i] .. in[world-1][i], in canonical or hierarchical order. Among equal
// maxima, and among NaNs, the lowest rank's bits win. Aliasing is as in dtype_fold.
void comm_fold(const struct comm_call *call, const void *const in[], int world, void *out, size_t count);
