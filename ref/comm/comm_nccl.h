// SPDX-License-Identifier: Apache-2.0
// Ranks with a GPU each: NCCL carries what lies in an accelerator's memory, between GPUs and beside the processors, and
// the sums are the same folds in canonical order as everywhere, done on the GPU. What lies in this processor's memory
// is carried by another transport, `control`, that also makes the ranks agree about each call, and says when one of
// them has failed: NCCL alone would wait for a dead rank for ever.
#ifndef ZG_COMM_NCCL_H
#define ZG_COMM_NCCL_H

#include "ref/comm/comm_backend.h"

#include <nccl.h>

// What is called of NCCL and CUDA; a test puts its own there.
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
    cudaStream_t (*stream)(void);                    // the calling thread's
    int (*is_done)(cudaStream_t stream, bool *out);  // whether all that was enqueued there is complete
};

// The libraries' own. ERR_USAGE: there is no NCCL on this machine.
int comm_nccl_library(const struct comm_nccl_calls **out);

struct comm_nccl_options {
    const struct comm_nccl_calls *calls;  // null: the libraries' own
    size_t stage_bytes;                   // on the GPU, for what others send of a reduction until it is folded
    uint64_t limit_ns;                    // a call that takes longer than this has failed
};

// 64 MiB, two minutes.
extern const struct comm_nccl_options comm_nccl_defaults;

struct comm_nccl {
    struct comm comm;
    struct comm *control;
    struct comm_nccl_options options;
    ncclComm_t nccl;                        // null: nothing more is possible
    char library[32];                       // "NCCL 2.28.3"
    const struct accelerator *accelerator;  // whose memory is carried
    void *stage, *native;  // on the accelerator: see comm_nccl_options, and a native sum with the canonical one
    size_t native_bytes;
};

// All ranks of `control` call it together, each with its GPU chosen (cuda_lane_use), no two with the same one. The
// handle closes `control` when it is closed; after an error the caller does.
int comm_nccl_open(struct comm *control, const struct comm_nccl_options *options, struct comm **out);

// Begins and ends what NCCL shall see as one. After the end it has been enqueued, or there is an error.
int comm_nccl_begin(struct comm_nccl *nccl);
int comm_nccl_end(struct comm_nccl *nccl);

// Waits for all that was enqueued on the thread's stream.
int comm_nccl_wait(struct comm_nccl *nccl);

// An NCCL call's result as an error of this program; ncclInProgress is none.
int comm_nccl_code(const struct comm_nccl *nccl, ncclResult_t result, const char *call);

// Memory of the accelerator.
int comm_nccl_allocate(const struct comm_nccl *nccl, size_t bytes, void **out);
void comm_nccl_release(const struct comm_nccl *nccl, void *memory);

// Enqueues a call that all ranks have agreed about, of memory on the accelerator.
int comm_nccl_move(struct comm_nccl *nccl, const struct comm_call *call);

// Carries out a sum by NCCL's own, and the canonical one beside it to compare.
int comm_nccl_native(struct comm_nccl *nccl, const struct comm_call *call);

// Carries out a call by what NCCL itself has for it, alone, and waits for its end (nccl_collective.h).
int comm_nccl_collective(struct comm_nccl *nccl, const struct comm_call *call);

// After an error of what was enqueued: see comm_nccl.c. Returns the error that the caller shall return.
int comm_nccl_give_up(struct comm_nccl *nccl, int code);

#endif
