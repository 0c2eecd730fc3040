// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/bench_gpu.h"

#include "base/err.h"

#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/isa_cuda.h"
#include "ref/cuda/tier_cuda.h"

#include <cuda_runtime_api.h>

// The calling thread's events. They are never destroyed.
static _Thread_local struct {
    cudaEvent_t begin, end;
} own;

int bench_gpu_clock_begin(void)
{
    struct CUstream_st *stream;
    TRY(cuda_lane_open(&stream));
    if (!own.begin) {
        TRY(cuda_lane_error(cudaEventCreate(&own.begin), "an event"));
        TRY(cuda_lane_error(cudaEventCreate(&own.end), "an event"));
    }
    return cuda_lane_error(cudaEventRecord(own.begin, stream), "an event");
}

int bench_gpu_clock_end(double *ms)
{
    float took;
    TRY(cuda_lane_error(cudaEventRecord(own.end, cuda_lane_stream()), "an event"));
    TRY(cuda_lane_wait());
    TRY(cuda_lane_error(cudaEventElapsedTime(&took, own.begin, own.end), "the time between events"));
    *ms = (double)took;
    return ERR_NONE;
}

int bench_gpu_find(struct bench_gpu *out)
{
    int cache_bytes;
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    *out = (struct bench_gpu){&cuda_accelerator, bench_gpu_clock_begin, bench_gpu_clock_end, isa_cuda_mix, 0};
    TRY(out->accelerator->enter(0));
    TRY(cuda_lane_error(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, 0), "the size of the cache"));
    out->cache_bytes = (size_t)cache_bytes;
    return ERR_NONE;
}

#else
int bench_gpu_find(struct bench_gpu *out)
{
    (void)out;
    return err_set(ERR_USAGE, "this version is built without CUDA");
}
#endif
