// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_baseline.h"

#include "base/err.h"
#include "bench/harness/bench_target.h"

#include <assert.h>
#include <math.h>

enum { TRIALS = 5 };

// Zero, but volatile, so that the compiler keeps the baseline's loads and stores, which change nothing.
static const volatile uint32_t baseline_mask = 0;

static int streams_run(void *context)
{
    struct adam_baseline *b = context;
    if (!b->of->variant->norm)
        streams_step(&b->streams, baseline_mask, b->of->threads, b->rounds);
    for (uint64_t round = 0; round < b->rounds && b->of->variant->norm; round++) {
        b->sink |= streams_read(&b->streams, b->of->threads);
        b->sink |= streams_read(&b->streams, b->of->threads);
        streams_step(&b->streams, baseline_mask, b->of->threads, 1);
    }
    return ERR_NONE;
}

// The compute baseline: the divisions and square roots of a step, its slowest arithmetic, on numbers that stay in the
// L1 cache, vectorised by the compiler for the best instruction set of this CPU.

// Elements per round, each an input of the next: enough that no division waits for the previous one.
enum { BLOCK = 512 };

// Adam's last operations: m / (sqrt(v) / bias + eps), or m / ((sqrt(v) / bias + eps) / step_size).
static BENCH_INLINE float divide_block(size_t count, int per_element)
{
    _Alignas(64) float x[BLOCK];
    const volatile float one = 1;  // volatile, so that no division is folded away
    float a = one, b = one, c = one / 0x1p20f;
    for (size_t i = 0; i < BLOCK; i++)
        x[i] = 1 + (float)i / BLOCK;
    for (size_t done = 0; done < count; done += BLOCK) {
        if (per_element == 3)
            for (size_t i = 0; i < BLOCK; i++)
                x[i] = a / ((sqrtf(x[i]) / b + c) / a);
        else if (per_element == 2)
            for (size_t i = 0; i < BLOCK; i++)
                x[i] = a / (sqrtf(x[i]) / b + c);
        else
            for (size_t i = 0; i < BLOCK; i++)
                x[i] = a / (sqrtf(x[i]) * b + c);
    }
    return x[count % BLOCK];
}

BENCH_BUILDS(float, divide, (size_t count, int per_element), divide_block(count, per_element));

// Computes one square root and `per_element` (1 to 3) divisions for each of `count` elements, split over `threads`.
// Returns one of the results, so that the compiler keeps them: near 1, or NaN if any is.
static float divisions_step(size_t count, int per_element, int threads)
{
    assert(per_element >= 1 && per_element <= 3 && threads > 0);
    enum isa isa = isa_best();
    float result = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : result)
    for (int part = 0; part < threads; part++) {
        size_t begin = count / (size_t)threads * (size_t)part;
        size_t end = part + 1 == threads ? count : begin + count / (size_t)threads;
        float found = divide_builds[isa](end - begin, per_element);
        // Written so that a NaN wins.
        result = found <= result ? result : found;
    }
    return result;
}

// Divisions per element. All recipes divide m by the denominator. Most divide by a bias correction, too, Apex by both;
// PyTorch's capturable foreach form also divides the denominator by the step size.
static int divisions_of(const struct recipe *recipe)
{
    switch (recipe->family) {
    case RECIPE_DEEPSPEED:
    case RECIPE_TORCH_CUDA_SINGLE:
        return 1;
    case RECIPE_TORCH_CAPTURABLE_FOREACH:
    case RECIPE_APEX:
        return 3;
    default:
        return 2;
    }
}

static int divisions_run(void *context)
{
    struct adam_baseline *b = context;
    b->divisions = divisions_step(b->of->count * b->rounds, divisions_of(b->of->recipe), b->of->threads);
    return ERR_NONE;
}

// Times the streams in every way and the divisions, in turn, and keeps the shortest of each.
static int try_all(struct adam_baseline *b, const struct bench_work *streams, const struct bench_work *divisions,
                   uint64_t of_streams_ns[STREAMS_WAY_COUNT], uint64_t *of_divisions_ns)
{
    *of_divisions_ns = UINT64_MAX;
    for (int way = 0; way < STREAMS_WAY_COUNT; way++)
        of_streams_ns[way] = UINT64_MAX;
    for (size_t trial = 0; bench_tries(TRIALS, trial); trial++) {
        uint64_t ns;
        for (int way = 0; way < STREAMS_WAY_COUNT; way++) {
            b->streams.way = (enum streams_way)way;
            TRY(bench_time(streams, &ns));
            of_streams_ns[way] = ns < of_streams_ns[way] ? ns : of_streams_ns[way];
        }
        TRY(bench_time(divisions, &ns));
        *of_divisions_ns = ns < *of_divisions_ns ? ns : *of_divisions_ns;
    }
    return ERR_NONE;
}

int adam_baseline_choose(const struct adam_case *of, const struct adam_arrays *arrays, bool in_cache, uint64_t rounds,
                         struct adam_baseline *out)
{
    static const char *const names[] = {"divide_1_sqrt_1", "divide_2_sqrt_1", "divide_3_sqrt_1"};
    const struct bench_work streams = {.name = of->variant->baseline, .run = streams_run, .context = out};
    const struct bench_work divisions = {
        .name = names[divisions_of(of->recipe) - 1], .run = divisions_run, .context = out};
    uint64_t of_streams_ns[STREAMS_WAY_COUNT], of_divisions_ns;
    int best = 0;
    *out = (struct adam_baseline){
        .of = of,
        .rounds = rounds,
        .streams = {.param = arrays->param,
                    .exp_avg = arrays->exp_avg,
                    .exp_avg_sq = arrays->exp_avg_sq,
                    .grad = arrays->grad,
                    .grad_dtype = of->variant->grad_dtype,
                    .model_params = of->variant->writes_model_params ? arrays->baseline_model_params : NULL,
                    .count = of->count,
                    .past_cache = !in_cache},
    };
    TRY(try_all(out, &streams, &divisions, of_streams_ns, &of_divisions_ns));
    for (int way = 1; way < STREAMS_WAY_COUNT; way++)
        best = of_streams_ns[way] < of_streams_ns[best] ? way : best;
    out->streams.way = (enum streams_way)best;
    out->is_streams = of_streams_ns[best] >= of_divisions_ns;
    out->work = out->is_streams ? streams : divisions;
    return ERR_NONE;
}
