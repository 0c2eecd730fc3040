// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_case.h"

#include "base/err.h"
#include "bench/harness/bench_device.h"

#include <assert.h>
#include <stdio.h>

// COPY_UNIT_BYTES: copies begin at and cover multiples of it, as those of large arrays do.
enum { ARRAY_COUNT = 5, COPY_UNIT_BYTES = 256 };

// A step over arrays on the device.
struct set {
    void *memory[ARRAY_COUNT];
    struct adam_step step;
};

// The driver copies one half of an allocation to the other; both together are as large as the step's arrays.
struct halves {
    void *memory;
    size_t bytes;  // of a half
};

struct trial {
    const struct bench_gpu *device;
    const struct adam_case *of;
    struct set ours, theirs;  // theirs: the mix's, which leaves wrong values
    struct halves halves;
    uint64_t rounds, step_count;
};

// The results of a case: Adam, the mix, and the driver's copy.
struct taken {
    struct bench_samples adam, mix, copy;
};

// Bytes of the arrays, and bytes that a step must move, per parameter.
static size_t state_bytes(const struct adam_variant *variant)
{
    return 3 * sizeof(float) + dtype_bytes(variant->grad_dtype) + (variant->writes_model_params ? sizeof(uint16_t) : 0);
}

static size_t moved_bytes(const struct adam_variant *variant)
{
    return 3 * sizeof(float) + state_bytes(variant);
}

static struct bench_device device_of(const struct trial *trial)
{
    return (struct bench_device){trial->device->accelerator, 1};
}

static void close_trial(struct trial *trial)
{
    const struct bench_device device = device_of(trial);
    for (int i = 0; i < ARRAY_COUNT; i++) {
        bench_device_free(&device, trial->ours.memory[i], 0);
        bench_device_free(&device, trial->theirs.memory[i], 0);
    }
    bench_device_free(&device, trial->halves.memory, 0);
}

static int open_set(const struct trial *trial, struct adam_arrays *arrays, struct set *out)
{
    const struct bench_device device = device_of(trial);
    const struct adam_case *of = trial->of;
    const void *const from[ARRAY_COUNT] = {arrays->param, arrays->exp_avg, arrays->exp_avg_sq, arrays->grad,
                                           arrays->model_params};
    const size_t element_bytes[ARRAY_COUNT] = {sizeof(float), sizeof(float), sizeof(float),
                                               dtype_bytes(of->variant->grad_dtype), sizeof(struct bf16)};
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t bytes = of->count * element_bytes[i];
        TRY(bench_device_alloc(&device, bytes, &out->memory[i]));
        TRY(bytes_copy(out->memory[i], from[i], bytes));
    }
    const struct adam_arrays on_device = {.count = of->count,
                                          .param = out->memory[0],
                                          .exp_avg = out->memory[1],
                                          .exp_avg_sq = out->memory[2],
                                          .grad = out->memory[3],
                                          .model_params = out->memory[4]};
    return adam_case_step(of, &on_device, &out->step);
}

static int open_halves(const struct trial *trial, struct halves *out)
{
    const struct bench_device device = device_of(trial);
    size_t units = trial->of->count * state_bytes(trial->of->variant) / (2 * COPY_UNIT_BYTES) + 1;
    out->bytes = units * COPY_UNIT_BYTES;
    TRY(bench_device_alloc(&device, 2 * out->bytes, &out->memory));
    return bench_device_fill(&device, out->memory, 1, 2 * out->bytes);
}

static int run_adam(void *context, double *ms)
{
    struct trial *trial = context;
    TRY(trial->device->begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        adam_update(&trial->ours.step);
    trial->step_count += trial->rounds;
    return trial->device->end(ms);
}

static int run_mix(void *context, double *ms)
{
    struct trial *trial = context;
    TRY(trial->device->begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        trial->device->mix(&trial->theirs.step);
    return trial->device->end(ms);
}

static int run_copy(void *context, double *ms)
{
    struct trial *trial = context;
    const struct halves *halves = &trial->halves;
    TRY(trial->device->begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        TRY(trial->device->accelerator->copy((char *)halves->memory + halves->bytes, halves->memory, halves->bytes));
    return trial->device->end(ms);
}

// Parameters whose steps move as many bytes as a sample of copies: each byte of a half is read and written.
static double copied_params(const struct trial *trial)
{
    return 2.0 * (double)trial->halves.bytes * (double)trial->rounds / (double)moved_bytes(trial->of->variant);
}

static int take_turns(struct trial *trial, const struct bench_options *options, struct taken *taken)
{
    TRY(bench_choose_rounds(run_adam, trial, &trial->rounds));
    double params = (double)trial->of->count * (double)trial->rounds;
    const struct bench_timed works[] = {{run_adam, trial, params, &taken->adam},
                                        {run_mix, trial, params, &taken->mix},
                                        {run_copy, trial, copied_params(trial), &taken->copy}};
    return bench_take_turns(works, sizeof works / sizeof works[0], options->warmup, options->repeat);
}

// Copies the state to the host and verifies every element.
static int check(const struct trial *trial, struct adam_arrays *arrays)
{
    size_t bytes = trial->of->count * sizeof(float);
    struct adam_step step = trial->ours.step;
    TRY(bytes_copy(arrays->param, step.param, bytes));
    TRY(bytes_copy(arrays->exp_avg, step.exp_avg, bytes));
    TRY(bytes_copy(arrays->exp_avg_sq, step.exp_avg_sq, bytes));
    if (step.model_params)
        TRY(bytes_copy(arrays->model_params, step.model_params, trial->of->count * sizeof(struct bf16)));
    step.param = arrays->param;
    step.exp_avg = arrays->exp_avg;
    step.exp_avg_sq = arrays->exp_avg_sq;
    step.grad = arrays->grad;
    step.model_params = step.model_params ? arrays->model_params : NULL;
    return adam_arrays_check(arrays, &step, trial->step_count);
}

static json_t *case_json(const struct trial *trial)
{
    const struct adam_variant *variant = trial->of->variant;
    const struct recipe *recipe = trial->of->recipe;
    const struct bench_device device = device_of(trial);
    bool in_cache = trial->of->count * state_bytes(variant) < trial->device->cache_bytes;
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:b, s:i}", "step", variant->name, "recipe", recipe_name(recipe), "isa",
        trial->device->accelerator->name, "arithmetic", recipe->family == RECIPE_TORCH_CUDA_FUSED ? "fp64" : "fp32",
        "grad", dtype_name(variant->grad_dtype), "copy", variant->writes_model_params ? "bf16" : "none", "params",
        (json_int_t)trial->of->count, "in_cache", in_cache, "bytes_per_param", (int)moved_bytes(variant));
    if (json)
        bench_device_describe(&device, json);
    return json;
}

static int print(const struct trial *trial, const struct bench_options *options, uint64_t begin_ns,
                 const struct taken *taken)
{
    const struct adam_variant *variant = trial->of->variant;
    double bytes = (double)moved_bytes(variant), adam_ns = bench_median(&taken->adam);
    double mix_ns = bench_median(&taken->mix), copy_ns = bench_median(&taken->copy);
    bool copy_is_faster = copy_ns < mix_ns;
    struct bench_record record = {
        .name = "adam",
        .description = case_json(trial),
        .detail = json_pack("{s:f, s:f, s:f, s:f, s:f}", "GB_per_s", bytes / adam_ns, "device_copy_GB_per_s",
                            bytes / copy_ns, "share_of_device_copy", copy_ns / adam_ns, "same_streams_GB_per_s",
                            bytes / mix_ns, "share_of_same_streams", mix_ns / adam_ns),
        .unit = "ns_per_param",
        .lower_is_better = true,
        .items = (double)(trial->of->count * trial->rounds),
        .baseline_items = copy_is_faster ? copied_params(trial) : 0,
        .begin_ns = begin_ns,
        .item_bytes = bytes,
        .samples = &taken->adam,
        .baseline_name = copy_is_faster ? "cudaMemcpyAsync" : variant->baseline,
        .baseline = copy_is_faster ? &taken->copy : &taken->mix,
    };
    TRY(bench_print(options, &record));
    if (!options->json)
        printf("         %.1f %% of cudaMemcpyAsync on the device (%.1f GB/s), %.1f %% of %s (%.1f GB/s)\n",
               100 * copy_ns / adam_ns, bytes / copy_ns, 100 * mix_ns / adam_ns, variant->baseline, bytes / mix_ns);
    return ERR_NONE;
}

static int measure(struct trial *trial, const struct bench_options *options, struct adam_arrays *arrays)
{
    struct taken taken;
    uint64_t begin_ns = clock_now_ns();
    adam_arrays_fill(arrays, trial->of->variant->grad_dtype);
    TRY(open_set(trial, arrays, &trial->ours));
    TRY(open_set(trial, arrays, &trial->theirs));
    TRY(open_halves(trial, &trial->halves));
    TRY(take_turns(trial, options, &taken));
    TRY(check(trial, arrays));
    return print(trial, options, begin_ns, &taken);
}

int adam_device_run(const struct bench_gpu *device, const struct adam_case *of, const struct bench_options *options,
                    struct adam_arrays *arrays)
{
    assert(!of->variant->norm && arrays->count == of->count);
    bench_progress("adam %s %s on %s, %zu parameters", of->variant->name, recipe_name(of->recipe),
                   device->accelerator->name, of->count);
    struct trial trial = {.device = device, .of = of};
    int code = measure(&trial, options, arrays);
    close_trial(&trial);
    if (code == ERR_NONE)
        return ERR_NONE;
    return err_prefix(code, "adam %s %s on %s, %zu parameters", of->variant->name, recipe_name(of->recipe),
                      device->accelerator->name, of->count);
}
