// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_grid.cuh"

unsigned grid_blocks(size_t work, unsigned rounds)
{
    int multiprocessors = 0;
    if (cuda_lane_note(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, cuda_lane_device()),
                       "the number of multiprocessors"))
        multiprocessors = 1;
    size_t most = (size_t)multiprocessors * GRID_BLOCKS_HELD * rounds;
    size_t needed = work / GRID_THREADS + (work % GRID_THREADS > 0);
    return (unsigned)(needed < most ? needed : most);
}

// The calling thread's memory, freed when the thread ends.
struct scratch_memory {
    void *memory;
    size_t bytes;
    int device;
    bool is_pinned;  // of the host

    cudaError_t release(void *given) const
    {
        return is_pinned ? cudaFreeHost(given) : cudaFree(given);
    }
    ~scratch_memory()
    {
        // A thread that ends cannot report an error.
        (void)release(memory);
    }
};

static thread_local struct scratch_memory of_thread[SCRATCH_COUNT];

void *grid_scratch(size_t bytes, enum scratch which)
{
    const size_t least = 4096;
    struct scratch_memory &scratch = of_thread[which];
    if (scratch.memory && scratch.bytes >= bytes && scratch.device == cuda_lane_device())
        return scratch.memory;
    // The stream, which makes the thread's device current, may still use what is freed. That is freed last, so that
    // other memory has another address.
    void *before = scratch.memory;
    cuda_lane_note(cudaStreamSynchronize(cuda_lane_stream()), "the memory of results");
    scratch.bytes = bytes > least ? bytes : least;
    scratch.device = cuda_lane_device();
    scratch.is_pinned = which == SCRATCH_RESULTS;
    if (cuda_lane_note(scratch.is_pinned ? cudaHostAlloc(&scratch.memory, scratch.bytes, cudaHostAllocDefault)
                                         : cudaMalloc(&scratch.memory, scratch.bytes),
                       "memory for results"))
        scratch.memory = NULL;
    cuda_lane_note(scratch.release(before), "the memory of results");
    return scratch.memory;
}

int grid_fetch(void *to, const void *from, size_t bytes, const char *what)
{
    int code = cuda_lane_launched(what);
    if (code == 0)
        code = cuda_lane_note(cudaStreamSynchronize(cuda_lane_stream()), what);
    if (code == 0)
        memcpy(to, from, bytes);
    return code;
}
