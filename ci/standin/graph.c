// SPDX-License-Identifier: Apache-2.0
// Graphs: the work of a stream that is captured is kept, and a launch enqueues it once more. What CUDA refuses during a
// capture makes it invalid, so that its end fails, too.
#include "ci/standin/standin.h"

#include <stdatomic.h>
#include <stdlib.h>

struct node {
    struct standin_work work;  // a model of the work: it never runs itself
    bool (*is_ready)(void *what, bool waits);
    struct node *next;
};

// Graphs are never freed, so that the use of one that was destroyed is found.
struct CUgraph_st {
    struct node *first, **last;
    bool is_open, is_invalid, is_of_thread;
};

struct CUgraphExec_st {
    cudaGraph_t graph;
    bool is_open;
};

static atomic_int open_count;

// The capture of the calling thread, unless in relaxed mode.
static _Thread_local cudaGraph_t own;

int standin_graph_count(void)
{
    return atomic_load(&open_count);
}

static cudaError_t spoil(cudaGraph_t graph, cudaError_t status)
{
    graph->is_invalid = true;
    return standin_status(status);
}

bool standin_capture_forbids(cudaError_t status)
{
    return own && spoil(own, status) != cudaSuccess;
}

cudaError_t standin_capture_refuse(cudaGraph_t graph)
{
    return spoil(graph, cudaErrorStreamCaptureUnsupported);
}

cudaError_t standin_capture_add(cudaGraph_t graph, struct standin_work work, bool (*is_ready)(void *what, bool waits))
{
    if (graph->is_invalid)
        return standin_status(cudaErrorStreamCaptureInvalidated);
    struct node *node = work.again ? malloc(sizeof *node) : NULL;
    if (!node)
        return spoil(graph, work.again ? cudaErrorMemoryAllocation : cudaErrorStreamCaptureUnsupported);
    *node = (struct node){.work = work, .is_ready = is_ready};
    *graph->last = node;
    graph->last = &node->next;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    if (!stream)
        return standin_status(cudaErrorStreamCaptureUnsupported);
    cudaGraph_t *captured = standin_capture_of(stream), graph = calloc(1, sizeof *graph);
    if (*captured || own || !graph) {
        free(graph);
        return standin_status(graph ? cudaErrorIllegalState : cudaErrorMemoryAllocation);
    }
    *graph = (struct CUgraph_st){.last = &graph->first, .is_of_thread = mode != cudaStreamCaptureModeRelaxed};
    *captured = graph;
    own = graph->is_of_thread ? graph : NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    cudaGraph_t *captured = standin_capture_of(stream), graph = *captured;
    *out = NULL;
    if (!graph || (graph->is_of_thread && graph != own))
        return standin_status(graph ? cudaErrorStreamCaptureWrongThread : cudaErrorIllegalState);
    *captured = NULL;
    own = graph == own ? NULL : own;
    if (graph->is_invalid)
        return standin_status(cudaErrorStreamCaptureInvalidated);
    graph->is_open = true;
    atomic_fetch_add(&open_count, 1);
    *out = graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *out = standin_refuses(__func__) ? NULL : malloc(sizeof **out);
    if (!graph || !graph->is_open)
        standin_die("a graph is used that was destroyed");
    if (!*out)
        return standin_status(cudaErrorMemoryAllocation);
    **out = (struct CUgraphExec_st){graph, true};
    atomic_fetch_add(&open_count, 1);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    if (!executable->is_open)
        standin_die("a graph is launched that was destroyed");
    if (stream && *standin_capture_of(stream))
        standin_die("a graph in a graph is not modelled");
    for (const struct node *node = executable->graph->first; node; node = node->next) {
        struct standin_work work = node->work;
        work.what = work.again(node->work.what);
        cudaError_t status = work.what ? standin_enqueue_when(stream, work, node->is_ready) : cudaErrorMemoryAllocation;
        if (status != cudaSuccess)
            return standin_status(status);
    }
    return cudaSuccess;
}

static cudaError_t destroy(bool *is_open)
{
    if (!*is_open)
        standin_die("a graph is destroyed twice");
    *is_open = false;
    atomic_fetch_sub(&open_count, 1);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return destroy(&graph->is_open);
}

// Earlier launches still run.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return destroy(&executable->is_open);
}
