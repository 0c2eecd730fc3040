// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_case.h"

#include "base/err.h"
#include "base/size.h"
#ifdef ZG_HAVE_CUDA
#include "bench/memory/memory_cuda.h"
#include "ref/cuda/cuda_lane.h"

#include <cuda_runtime_api.h>
#endif

#include <stdio.h>

#ifdef ZG_HAVE_CUDA
static void set_by_driver(void *to, unsigned char byte, size_t bytes)
{
    cuda_lane_note(cudaMemsetAsync(to, byte, bytes, cuda_lane_stream()), "cudaMemsetAsync");
}
#endif

// Finds the GPU and makes it current.
static int find(struct memory_device *out)
{
    *out = (struct memory_device){0};
    TRY(bench_gpu_find(&out->gpu));
#ifdef ZG_HAVE_CUDA
    out->copy = memory_cuda_copy;
    out->write = memory_cuda_write;
    out->read = memory_cuda_read;
    out->set = set_by_driver;
#endif
    return ERR_NONE;
}

static int print(const struct memory_case *c, const struct memory_bench *bench, uint64_t begin_ns,
                 const struct bench_samples rates[3])
{
    enum { OWN, COPY, SET };
    const struct bench_device device = memory_case_device(c);
    const char *operation = memory_operation_name(c->operation);
    int against = c->operation == MEMORY_WRITE ? SET : COPY;
    double own = bench_median(&rates[OWN]), copied = bench_median(&rates[COPY]);
    double array_sample_bytes = (double)memory_case_bytes(c) * (double)c->rounds;
    char size[SIZE_TEXT_BYTES], row[256];
    struct bench_record record = {
        .name = "memory",
        .description =
            json_pack("{s:s, s:I, s:b}", "operation", operation, "array_bytes", (json_int_t)memory_case_bytes(c),
                      "in_cache", 2 * memory_case_bytes(c) <= c->device->gpu.cache_bytes),
        .detail = json_pack("{s:f, s:f, s:f}", "GB_per_s", own, "device_copy_GB_per_s", copied, "share_of_device_copy",
                            own / copied),
        .unit = "GB/s",
        .items = array_sample_bytes * memory_operation_bytes(c->operation),
        .baseline_items = array_sample_bytes * memory_operation_bytes(against == SET ? MEMORY_WRITE : MEMORY_COPY),
        .begin_ns = begin_ns,
        .samples = &rates[OWN],
        .baseline_name = against == SET ? "cudaMemsetAsync" : "cudaMemcpyAsync",
        .baseline = &rates[against],
        .row = row,
    };
    if (record.description)
        bench_device_describe(&device, record.description);
    snprintf(row, sizeof row, "memory  %-8s %9s on %s %8.1f GB/s (%.1f to %.1f)  %s %.1f  %5.1f %% of the device copy",
             operation, size_short_text(memory_case_bytes(c), size), bench_device_name(&device), own,
             bench_quantile(&rates[OWN], 0.1), bench_quantile(&rates[OWN], 0.9), record.baseline_name,
             bench_median(record.baseline), 100 * own / copied);
    return bench_print(&bench->options, &record);
}

static int measure(struct memory_case *c, const struct memory_bench *bench, uint64_t begin_ns)
{
    struct bench_samples rates[3];
    const struct bench_timed works[] = {
        {memory_case_run, c, 1, &rates[0]}, {memory_case_copy, c, 1, &rates[1]}, {memory_case_set, c, 1, &rates[2]}};
    bool is_write = c->operation == MEMORY_WRITE;
    TRY(bench_choose_rounds(memory_case_run, c, &c->rounds));
    TRY(bench_take_turns(works, is_write ? 3 : 2, bench->options.warmup, bench->options.repeat));
    TRY(memory_case_compare(c));
    double array_sample_bytes = (double)memory_case_bytes(c) * (double)c->rounds;
    bench_rate(&rates[0], array_sample_bytes * memory_operation_bytes(c->operation));
    bench_rate(&rates[1], array_sample_bytes * memory_operation_bytes(MEMORY_COPY));
    if (is_write)
        bench_rate(&rates[2], array_sample_bytes);
    return print(c, bench, begin_ns, rates);
}

static int run_case(const struct memory_device *device, const struct memory_bench *bench,
                    enum memory_operation operation, size_t bytes)
{
    struct memory_case c = {.device = device, .operation = operation, .count = bytes / sizeof(memory_word)};
    char size[SIZE_TEXT_BYTES];
    uint64_t begin_ns = clock_now_ns();
    bench_progress("memory %s on %s, arrays of %zu bytes", memory_operation_name(operation),
                   device->gpu.accelerator->name, bytes);
    int code = memory_case_open(&c);
    bool fits = code != ERR_MEMORY;
    if (code == ERR_NONE)
        code = measure(&c, bench, begin_ns);
    memory_case_close(&c);
    return fits ? code
                : bench_skip("memory %s with %d arrays of %s: %s", memory_operation_name(operation), c.array_count,
                             size_short_text(bytes, size), err_message());
}

int memory_device_run(const struct memory_device *device, const struct memory_bench *bench)
{
    for (size_t s = 0; s < bench->options.size_count; s++)
        for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++)
            if (memory_bench_wants(bench, operation))
                TRY(run_case(device, bench, (enum memory_operation)operation, bench->options.sizes[s]));
    return ERR_NONE;
}

int memory_device_bench(struct memory_bench *bench)
{
    // Two sizes that do not stay in a GPU's cache, and between them one that does.
    static const size_t sizes[] = {512u << 20, 8u << 20, (size_t)4 << 30};
    struct bench_device found;
    struct memory_device device;
    bool absent;
    if (bench->options.thread_count > 0)
        return err_set(ERR_USAGE, "--threads has no effect on a device");
    TRY(memory_bench_sizes(bench, sizes, bench->options.quick ? 1 : sizeof sizes / sizeof sizes[0]));
    TRY(bench_device_find(bench->device, 1, false, &found, &absent));
    if (absent)
        return bench_skip("memory: %s", err_message());
    TRY(find(&device));
    return memory_device_run(&device, bench);
}
