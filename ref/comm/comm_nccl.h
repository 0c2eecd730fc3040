// SPDX-License-Identifier: Apache-2.0
// The backend for ranks with one GPU each. NCCL moves data in the accelerator's memory, and the GPU folds sums in
// canonical order. Another transport, `control`, moves data in host memory, compares the calls of all ranks, and
// detects the failure of a rank, because NCCL alone would wait for a dead rank forever.
#pragma once

#include "ref/comm/comm_internal.h"

#include <nccl.h>

// The functions of NCCL and CUDA that this backend calls; a test replaces them.
struct comm_nccl_calls {
    const char *(*text)(ncclResult_t result);
    ncclResult_t (*version)(int *out);
    ncclResult_t (*unique_id)(ncclUniqueId *out);
    ncclResult_t (*init)(ncclComm_t *out, int world, ncclUniqueId id, int rank);  // non-blocking
    ncclResult_t (*async_error)(ncclComm_t comm, ncclResult_t *out);
    ncclResult_t (*abort)(ncclComm_t comm);
    ncclResult_t (*finalize)(ncclComm_t comm);
    ncclResult_t (*destroy)(ncclComm_t comm);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*send)(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream);
    ncclResult_t (*recv)(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*broadcast)(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream);
    ncclResult_t (*all_gather)(const void *from, void *to, size_t send_count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream);
    ncclResult_t (*reduce)(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           int root, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*reduce_scatter)(const void *from, void *to, size_t recv_count, ncclDataType_t type,
                                   ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*all_reduce)(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream);
    cudaStream_t (*stream)(void);                    // of the calling thread
    int (*is_done)(cudaStream_t stream, bool *out);  // sets *out to whether all work of the stream is complete
};

// Loads the functions of the libraries. ERR_USAGE: NCCL is not installed.
int comm_nccl_library(const struct comm_nccl_calls **out);

struct comm_nccl_options {
    const struct comm_nccl_calls *calls;  // null: those of the libraries
    size_t stage_bytes;                   // GPU memory that receives other ranks' values until they are folded
    uint64_t limit_ns;                    // a call that takes longer times out
};

// The libraries, 64 MiB, two minutes.
extern const struct comm_nccl_options comm_nccl_defaults;

struct comm_nccl {
    struct comm comm;
    struct comm *control;
    struct comm_nccl_options options;
    ncclComm_t nccl;                        // null after a failure
    char library[32];                       // such as "NCCL 2.28.3"
    const struct accelerator *accelerator;  // owns the memory that NCCL moves
    void *stage;                            // in its memory: comm_nccl_options.stage_bytes
};

// Collective over the ranks of `control`, each with its own GPU chosen (cuda_lane_use). The handle closes `control`;
// after an error the caller does.
int comm_nccl_open(struct comm *control, const struct comm_nccl_options *options, struct comm **out);

// Returns the failure of a rank, if control knows of one.
int comm_nccl_check(struct comm_nccl *nccl);

// Begin and end a group of calls, which NCCL runs as one. The end returns once NCCL has enqueued the group.
int comm_nccl_begin(struct comm_nccl *nccl);
int comm_nccl_end(struct comm_nccl *nccl);

// Waits until NCCL has enqueued the calls made so far and, if `finished`, until the stream has completed them.
int comm_nccl_wait_until(struct comm_nccl *nccl, bool finished);

// Converts the result of an NCCL call to an error of this program; ncclInProgress is no error.
int comm_nccl_code(const struct comm_nccl *nccl, ncclResult_t result, const char *call);

// Enqueues the transfers and folds of a call that all ranks agree on, for memory on the accelerator.
int comm_nccl_move(struct comm_nccl *nccl, const struct comm_call *call);

// Ends a call that has returned `code`: waits for all work on the thread's stream, and gives up after an error.
int comm_nccl_finish(struct comm_nccl *nccl, int code);

// Aborts NCCL after an error, so that no kernel accesses the buffers afterwards, and makes all ranks fail. Returns the
// error for the caller to return: the failure that `control` knows, which names a rank, else `code`.
int comm_nccl_give_up(struct comm_nccl *nccl, int code);
