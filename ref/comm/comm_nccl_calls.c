// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL and CUDA. NCCL is loaded on first use, so that the program also runs where it is not installed.
// The communicator is non-blocking: its calls return while NCCL is still working, and the rank polls for its end or
// failure, so that it can give up.
#include "ref/comm/comm_nccl.h"

#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/cuda_library.h"
#include "base/err.h"

#include <pthread.h>
#include <stdio.h>

static struct {
    pthread_once_t once;
    struct comm_nccl_calls calls;
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
    char absent[2048];  // the reason why NCCL is not available; "" if it is
} library = {.once = PTHREAD_ONCE_INIT};

static ncclResult_t init(ncclComm_t *out, int world, ncclUniqueId id, int rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return library.init(out, world, id, rank, &config);
}

static int is_done(cudaStream_t stream, bool *out)
{
    cudaError_t status = cudaStreamQuery(stream);
    *out = status == cudaSuccess;
    return status == cudaErrorNotReady ? ERR_NONE : cuda_lane_error(status, "a collective");
}

static void load(void)
{
    struct comm_nccl_calls *calls = &library.calls;
    const struct cuda_library_function functions[] = {
        {"ncclGetErrorString", &calls->text},
        {"ncclGetVersion", &calls->version},
        {"ncclGetUniqueId", &calls->unique_id},
        {"ncclAllGather", &calls->all_gather},
        {"ncclCommInitRankConfig", &library.init},
        {"ncclCommGetAsyncError", &calls->async_error},
        {"ncclCommAbort", &calls->abort},
        {"ncclCommFinalize", &calls->finalize},
        {"ncclCommDestroy", &calls->destroy},
        {"ncclGroupStart", &calls->group_start},
        {"ncclGroupEnd", &calls->group_end},
        {"ncclSend", &calls->send},
        {"ncclRecv", &calls->recv},
        {"ncclBroadcast", &calls->broadcast},
        {"ncclReduce", &calls->reduce},
        {"ncclReduceScatter", &calls->reduce_scatter},
        {"ncclAllReduce", &calls->all_reduce},
    };
    void *handle;
    if (cuda_library_open((const char *const[]){"libnccl.so.2", ZG_NCCL_LIBRARY, NULL}, NULL, &handle) != ERR_NONE) {
        snprintf(library.absent, sizeof library.absent, "no NCCL: %s", err_message());
        return;
    }
    const char *lacking = cuda_library_find(handle, functions, sizeof functions / sizeof functions[0]);
    if (lacking) {
        snprintf(library.absent, sizeof library.absent, "NCCL is older than 2.14: it lacks %s", lacking);
        return;
    }
    calls->init = init;
    calls->stream = cuda_lane_stream;
    calls->is_done = is_done;
}

int comm_nccl_library(const struct comm_nccl_calls **out)
{
    pthread_once(&library.once, load);
    *out = &library.calls;
    return library.absent[0] == '\0' ? ERR_NONE : err_set(ERR_USAGE, "%s", library.absent);
}
