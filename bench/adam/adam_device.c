// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_device.h"

#include "base/err.h"
#ifdef ZG_HAVE_CUDA
#include "ref/cuda/isa_cuda.h"
#include "bench/pcie/pcie_link.h"
#include "ref/cuda/tier_cuda.h"
#endif

#include <assert.h>
#include <string.h>

enum { ARRAY_COUNT = 5, ROUNDS_MAX = 4096 };

// A step over arrays on the device.
struct set {
    void *memory[ARRAY_COUNT];
    struct adam_step step;
};

struct trial {
    const struct adam_device *device;
    const struct adam_case *of;
    struct set ours, theirs;  // theirs: the baseline's, which leaves wrong values
    uint64_t rounds, step_count;
};

int adam_device_find(struct adam_device *out)
{
#ifdef ZG_HAVE_CUDA
    const struct pcie_link *link;
    TRY(pcie_cuda(&link));
    *out = (struct adam_device){&cuda_accelerator, link->begin, link->end, isa_cuda_mix};
    return out->accelerator->enter(0);
#else
    (void)out;
    return err_set(ERR_USAGE, "this version is built without CUDA");
#endif
}

static void close_set(const struct adam_device *device, struct set *set)
{
    for (int i = 0; i < ARRAY_COUNT; i++)
        if (set->memory[i]) {
            accelerator_disclaim(set->memory[i]);
            (void)device->accelerator->release(set->memory[i]);
        }
}

static int open_set(const struct adam_device *device, const struct adam_case *of, struct adam_arrays *arrays,
                    struct set *out)
{
    const void *const from[ARRAY_COUNT] = {arrays->param, arrays->exp_avg, arrays->exp_avg_sq, arrays->grad,
                                           arrays->model_params};
    const size_t element_bytes[ARRAY_COUNT] = {sizeof(float), sizeof(float), sizeof(float),
                                               dtype_bytes(of->variant->grad_dtype), sizeof(struct bf16)};
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t bytes = of->count * element_bytes[i];
        void *memory;
        TRY(device->accelerator->allocate(bytes, &memory));
        int code = accelerator_claim(device->accelerator, memory, bytes);
        if (code != ERR_NONE) {
            (void)device->accelerator->release(memory);
            return code;
        }
        out->memory[i] = memory;
        TRY(bytes_copy(memory, from[i], bytes));
    }
    const struct adam_arrays on_device = {.count = of->count,
                                          .param = out->memory[0],
                                          .exp_avg = out->memory[1],
                                          .exp_avg_sq = out->memory[2],
                                          .grad = out->memory[3],
                                          .model_params = out->memory[4]};
    return adam_case_step(of, &on_device, &out->step);
}

static int run_ours(struct trial *trial, double *ms)
{
    TRY(trial->device->begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        adam_update(&trial->ours.step);
    trial->step_count += trial->rounds;
    return trial->device->end(ms);
}

static int run_theirs(struct trial *trial, double *ms)
{
    TRY(trial->device->begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        trial->device->mix(&trial->theirs.step);
    return trial->device->end(ms);
}

// Runs pairs in turn; which of the two begins alternates.
static int take_turns(struct trial *trial, const struct bench_options *options, struct bench_samples *samples,
                      struct bench_samples *baselines)
{
    double ms = 0, baseline_ms = 0;
    for (trial->rounds = 1; trial->rounds < ROUNDS_MAX && ms * 1e6 < BENCH_SAMPLE_NS; trial->rounds *= 2)
        TRY(run_ours(trial, &ms));
    double scale = 1e6 / ((double)trial->of->count * (double)trial->rounds);
    samples->count = baselines->count = 0;
    for (size_t i = 0; i < options->warmup + options->repeat; i++) {
        if (i % 2)
            TRY(run_theirs(trial, &baseline_ms));
        TRY(run_ours(trial, &ms));
        if (i % 2 == 0)
            TRY(run_theirs(trial, &baseline_ms));
        if (i < options->warmup)
            continue;
        samples->values[samples->count++] = ms * scale;
        baselines->values[baselines->count++] = baseline_ms * scale;
    }
    return ERR_NONE;
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

static int print(const struct trial *trial, const struct bench_options *options, uint64_t begin_ns,
                 const struct bench_samples *samples, const struct bench_samples *baselines)
{
    const struct adam_variant *variant = trial->of->variant;
    size_t bytes = 2 * 3 * sizeof(float) + dtype_bytes(variant->grad_dtype) + (variant->writes_model_params ? 2 : 0);
    struct bench_record record = {
        .name = "adam",
        .description =
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i}", "step", variant->name, "recipe",
                      recipe_name(trial->of->recipe), "isa", trial->device->accelerator->name, "grad",
                      dtype_name(variant->grad_dtype), "copy", variant->writes_model_params ? "bf16" : "none", "params",
                      (json_int_t)trial->of->count, "bytes_per_param", (int)bytes),
        .unit = "ns_per_param",
        .lower_is_better = true,
        .verified = true,
        .items = (double)(trial->of->count * trial->rounds),
        .begin_ns = begin_ns,
        .item_bytes = (double)bytes,
        .samples = samples,
        .baseline_name = variant->baseline,
        .baseline = baselines,
    };
    return bench_print(options, &record);
}

static int measure(struct trial *trial, const struct bench_options *options, struct adam_arrays *arrays)
{
    struct bench_samples samples, baselines;
    uint64_t begin_ns = clock_now_ns();
    adam_arrays_fill(arrays, trial->of->variant->grad_dtype);
    TRY(open_set(trial->device, trial->of, arrays, &trial->ours));
    TRY(open_set(trial->device, trial->of, arrays, &trial->theirs));
    TRY(take_turns(trial, options, &samples, &baselines));
    TRY(check(trial, arrays));
    return print(trial, options, begin_ns, &samples, &baselines);
}

int adam_device_run(const struct adam_device *device, const struct adam_case *of, const struct bench_options *options,
                    struct adam_arrays *arrays)
{
    assert(!of->variant->norm && arrays->count == of->count);
    bench_progress("adam %s %s on %s, %zu parameters", of->variant->name, recipe_name(of->recipe),
                   device->accelerator->name, of->count);
    struct trial trial = {.device = device, .of = of};
    int code = measure(&trial, options, arrays);
    close_set(device, &trial.ours);
    close_set(device, &trial.theirs);
    if (code == ERR_NONE)
        return ERR_NONE;
    return err_prefix(code, "adam %s %s on %s, %zu parameters", of->variant->name, recipe_name(of->recipe),
                      device->accelerator->name, of->count);
}
