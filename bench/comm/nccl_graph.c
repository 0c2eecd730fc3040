// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives in a CUDA graph: the calls are captured once, and each launch runs all of them.
#include "bench/comm/native_collective.h"

#include "base/err.h"

#ifdef ZG_HAVE_NCCL
#include "ref/comm/comm_nccl.h"
#include "ref/cuda/cuda_lane.h"

#include <cuda_runtime_api.h>

#include <string.h>

// A test's part of NCCL has streams that are none of CUDA's.
bool nccl_graph_is_possible(const struct comm *comm)
{
    return strcmp(comm->ops->name, "nccl") == 0 &&
           ((const struct comm_nccl *)comm)->options.calls->stream == cuda_lane_stream;
}

// The capture is ended after an error, too. Other threads, among them NCCL's own, may do meanwhile what this one may
// not.
static int capture(struct comm *comm, nccl_enqueue_function *enqueue, const void *call, size_t calls, cudaGraph_t *out)
{
    cudaStream_t stream = cuda_lane_stream();
    int code = cuda_lane_error(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a capture");
    if (code != ERR_NONE)
        return code;
    for (size_t i = 0; i < calls && code == ERR_NONE; i++)
        code = enqueue(comm, call);
    int ended = cuda_lane_error(cudaStreamEndCapture(stream, out), "the end of a capture");
    return code == ERR_NONE ? ended : code;
}

int nccl_graph_open(struct comm *comm, nccl_enqueue_function *enqueue, const void *call, size_t calls,
                    struct CUgraphExec_st **out)
{
    cudaGraph_t graph = NULL;
    *out = NULL;
    int code = capture(comm, enqueue, call, calls, &graph);
    if (code == ERR_NONE)
        code = cuda_lane_error(cudaGraphInstantiate(out, graph, 0), "a graph");
    if (graph)
        (void)cudaGraphDestroy(graph);
    return code == ERR_NONE ? ERR_NONE : comm_nccl_give_up((struct comm_nccl *)comm, code);
}

int nccl_graph_run(struct comm *comm, struct CUgraphExec_st *graph)
{
    int code = cuda_lane_error(cudaGraphLaunch(graph, cuda_lane_stream()), "the launch of a graph");
    return comm_nccl_finish((struct comm_nccl *)comm, code);
}

void nccl_graph_close(struct CUgraphExec_st *graph)
{
    if (graph)
        (void)cudaGraphExecDestroy(graph);
}
#else
bool nccl_graph_is_possible(const struct comm *comm)
{
    (void)comm;
    return false;
}

int nccl_graph_open(struct comm *comm, nccl_enqueue_function *enqueue, const void *call, size_t calls,
                    struct CUgraphExec_st **out)
{
    (void)comm, (void)enqueue, (void)call, (void)calls, (void)out;
    return err_set(ERR_USAGE, "this binary was built without NCCL");
}

int nccl_graph_run(struct comm *comm, struct CUgraphExec_st *graph)
{
    (void)comm, (void)graph;
    return err_set(ERR_USAGE, "this binary was built without NCCL");
}

void nccl_graph_close(struct CUgraphExec_st *graph)
{
    (void)graph;
}
#endif
