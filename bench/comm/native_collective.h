// SPDX-License-Identifier: Apache-2.0
// The collectives of MPI and of NCCL, on the buffers of comm.h's: the baseline of the canonical order. Each chooses the
// order of additions by world, sizes and network.
#pragma once

#include "ref/comm/comm_internal.h"

// Runs the call by MPI; all ranks, which must be processes, call it together. Reductions are sums, out of place; of
// bf16 and fp16, of which MPI knows none, each addition of two ranks is rounded. The ledger does not count it, ranks do
// not compare their calls, and a failed rank is not detected. ERR_USAGE: more elements than an int can count, or ranks
// that are threads. ERR_IO: an error of MPI.
int mpi_collective_run(struct comm *comm, const struct comm_call *call);

// Returns the name and version of the MPI library, such as "Open MPI v4.1.4"; null: built without MPI.
const char *mpi_collective_library(void);

// Runs the call by NCCL on device memory; all ranks call it together, and it is complete on return. NCCL's collectives
// need equal shards: uneven ones run as a group of ncclReduce or ncclBroadcast, and an all-to-all as a group of
// ncclSend and ncclRecv, as in nccl-tests. Reductions are sums of fp32, bf16 or fp16, out of place. The ledger does not
// count it, and ranks do not compare their calls. A failed rank is reported as in comm.h. ERR_USAGE: the comm is not
// over NCCL.
int nccl_collective_run(struct comm *comm, const struct comm_call *call);

// Enqueues a call without waiting for its end; after an error NCCL is as it was left. nccl_collective_enqueue: of
// struct comm_call, as nccl_collective_run.
typedef int nccl_enqueue_function(struct comm *comm, const void *call);
nccl_enqueue_function nccl_collective_enqueue;

struct CUgraphExec_st;  // cudaGraphExec_t points to it

// Returns whether NCCL's calls can be captured in a CUDA graph.
bool nccl_graph_is_possible(const struct comm *comm);

// Captures `calls` of a call in a graph; all ranks call these functions together, on memory that exists until the graph
// is closed, before the comm is. run: launches it once and waits for its end. A failed rank is reported as in comm.h.
int nccl_graph_open(struct comm *comm, nccl_enqueue_function *enqueue, const void *call, size_t calls,
                    struct CUgraphExec_st **out);
int nccl_graph_run(struct comm *comm, struct CUgraphExec_st *graph);
void nccl_graph_close(struct CUgraphExec_st *graph);  // null-safe

// Returns the library's name and version, such as "NCCL 2.28.3", valid while the comm is open; null: not over NCCL.
const char *nccl_collective_library(const struct comm *comm);
