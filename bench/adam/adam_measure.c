// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_case.h"

#include "bench/adam/adam_baseline.h"
#include "ref/optimizer/clip.h"
#include "base/err.h"
#include "ref/arithmetic/norm.h"

#include <assert.h>
#include <math.h>

const struct adam_variant adam_variants[ADAM_VARIANT_COUNT] = {
    {"update", DTYPE_FP32, false, false, "copy_4r_3w"},     {"fused", DTYPE_FP32, true, false, "copy_4r_4w"},
    {"fused", DTYPE_BF16, true, false, "copy_4r_4w"},       {"whole", DTYPE_FP32, true, true, "read_2_copy_4r_4w"},
    {"whole", DTYPE_BF16, true, true, "read_2_copy_4r_4w"},
};

// A repetition has as many steps as fill BENCH_SAMPLE_NS, but at most ROUNDS_MAX.
enum { ROUNDS_MAX = 4096, TRIALS = 5 };

struct measurement {
    const struct adam_case *of;
    const struct adam_arrays *arrays;
    struct adam_step step;
    uint64_t rounds;      // steps per repetition
    uint64_t step_count;  // so far
    double norm;          // of the summed gradients, as last computed
    double max_norm;
};

double adam_case_norm(const struct adam_step *step, int threads)
{
    size_t bytes = dtype_bytes(step->grad_dtype), part_count = step->count / (size_t)threads;
    uint32_t max_bits = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : max_bits)
    for (int part = 0; part < threads; part++) {
        size_t begin = (size_t)part * part_count, end = part + 1 == threads ? step->count : begin + part_count;
        uint32_t found = norm_max(step->grad_dtype, (const char *)step->grad + begin * bytes, end - begin);
        max_bits = found > max_bits ? found : max_bits;
    }
    struct norm_sum sum = {0};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = (size_t)part * part_count, end = part + 1 == threads ? step->count : begin + part_count;
        struct norm_sum own = {0};
        norm_accumulate(&own, step->grad_dtype, (const char *)step->grad + begin * bytes, end - begin, max_bits);
#pragma omp critical
        norm_add(&sum, own);
    }
    return norm_finish(sum, max_bits);
}

// Each thread repeats small steps on its own part: synchronising all threads every few microseconds would cost more
// than the steps.
static void repeat_parts(const struct adam_step *step, int threads, uint64_t rounds)
{
    enum { LINE = 32 };  // elements whose 16-bit copies fill a cache line, so that no two threads write to one
    size_t part_count = step->count / (size_t)threads / LINE * LINE;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = (size_t)part * part_count, end = part + 1 == threads ? step->count : begin + part_count;
        struct adam_step own = *step;
        own.grad = (const char *)step->grad + begin * dtype_bytes(step->grad_dtype);
        own.param = step->param + begin;
        own.exp_avg = step->exp_avg + begin;
        own.exp_avg_sq = step->exp_avg_sq + begin;
        own.model_params =
            step->model_params ? (char *)step->model_params + begin * dtype_bytes(step->model_dtype) : NULL;
        own.count = end - begin;
        own.tensor_index = step->tensor_index + begin;
        for (uint64_t round = 0; round < rounds; round++)
            adam_update(&own);
    }
}

static int step_run(void *context)
{
    struct measurement *m = context;
    bool norm = m->of->variant->norm;
    m->step_count += m->rounds;
    if (!norm && m->rounds > 1) {
        repeat_parts(&m->step, m->of->threads, m->rounds);
        return ERR_NONE;
    }
    for (uint64_t round = 0; round < m->rounds; round++) {
        if (norm) {
            m->norm = adam_case_norm(&m->step, m->of->threads);
            double mean_norm = m->norm / (double)m->step.grad_divisor;
            m->step.grad_coefficient = clip_coefficient(CLIP_DEEPSPEED, mean_norm, m->max_norm);
        }
        adam_update_parallel(&m->step, m->of->threads);
    }
    return ERR_NONE;
}

int adam_case_step(const struct adam_case *of, const struct adam_arrays *arrays, struct adam_step *out)
{
    bool fused = of->variant->writes_model_params;
    *out = (struct adam_step){.recipe = of->recipe,
                              .grad = arrays->grad,
                              .grad_dtype = of->variant->grad_dtype,
                              .grad_divisor = fused ? 2 : 1,
                              .grad_coefficient = fused ? 0.5f : 1,
                              .param = arrays->param,
                              .exp_avg = arrays->exp_avg,
                              .exp_avg_sq = arrays->exp_avg_sq,
                              .model_params = fused ? arrays->model_params : NULL,
                              .model_dtype = DTYPE_BF16,
                              .count = of->count,
                              .tensor_count = of->count};
    struct recipe_state state = {0};
    return recipe_begin_step(of->recipe, &ADAM_ARRAYS_HYPER, 1000, &state, &out->scalars);
}

static int measurement_open(const struct adam_case *of, struct adam_arrays *arrays, struct measurement *out)
{
    const struct adam_variant *variant = of->variant;
    adam_arrays_fill(arrays, variant->grad_dtype);
    *out = (struct measurement){
        .of = of,
        .arrays = arrays,
        .rounds = 1,
        .max_norm = adam_arrays_norm(arrays, variant->grad_dtype) / 4,
    };
    return adam_case_step(of, arrays, &out->step);
}

// Doubles the rounds until a sample is long enough. The shortest of a few trials counts, because other processes may
// disturb some.
static int choose_rounds(struct measurement *m, const struct bench_work *work)
{
    for (; m->rounds < ROUNDS_MAX; m->rounds *= 2) {
        uint64_t ns, least_ns = UINT64_MAX;
        for (int trial = 0; trial < TRIALS && least_ns >= BENCH_SAMPLE_NS; trial++) {
            TRY(bench_time(work, &ns));
            least_ns = ns < least_ns ? ns : least_ns;
        }
        if (least_ns >= BENCH_SAMPLE_NS)
            return ERR_NONE;
    }
    return ERR_NONE;
}

// Verifies every element against a replay, and the norm against a sum in extended precision.
static int measurement_check(const struct measurement *m)
{
    double norm = adam_arrays_norm(m->arrays, m->of->variant->grad_dtype);
    double bound = norm * ((double)m->of->count * 0x1p-53 + 0x1p-50);
    if (m->of->variant->norm && !(fabs(m->norm - norm) <= bound))
        return err_set(ERR_CHECK, "the norm is %.17g, expected %.17g", m->norm, norm);
    return adam_arrays_check(m->arrays, &m->step, m->step_count);
}

// Returns the bytes that the step must move per element.
static size_t case_bytes(const struct adam_variant *variant)
{
    size_t state = 2 * 3 * sizeof(float);  // param, exp_avg, exp_avg_sq: read and written
    return state + dtype_bytes(variant->grad_dtype) * (variant->norm ? 3 : 1) + (variant->writes_model_params ? 2 : 0);
}

static json_t *case_json(const struct adam_case *of, bool in_cache)
{
    const struct adam_variant *variant = of->variant;
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:I, s:i, s:b, s:i}", "step", variant->name, "recipe",
                     recipe_name(of->recipe), "isa", isa_name(of->isa), "best_isa", of->isa == isa_best(), "grad",
                     dtype_name(variant->grad_dtype), "copy", variant->writes_model_params ? "bf16" : "none", "params",
                     (json_int_t)of->count, "threads", of->threads, "in_cache", in_cache, "bytes_per_param",
                     (int)case_bytes(variant));
}

static int measure(struct measurement *m, bool in_cache, const struct bench_options *options,
                   struct bench_record *record, struct bench_samples *samples, struct bench_samples *baselines)
{
    const struct adam_case *of = m->of;
    const struct bench_work work = {.name = "adam", .run = step_run, .context = m};
    struct adam_baseline baseline;
    TRY(choose_rounds(m, &work));
    TRY(adam_baseline_choose(of, m->arrays, in_cache, m->rounds, &baseline));
    record->baseline_name = baseline.work.name;
    record->items = (double)(of->count * m->rounds);
    TRY(bench_alternate(&work, &baseline.work, options->warmup, options->repeat, record->items, samples, baselines));
    if (baseline.is_streams)
        record->detail = json_pack("{s:s}", "baseline_way", streams_way_name(baseline.streams.way));
    return measurement_check(m);
}

// The fewest bytes of a parameter that a step touches.
enum { STATE_BYTES_LEAST = 16, COUNT_UNIT = 1 << 20 };

size_t adam_case_large_count(size_t wanted, int times, size_t cache_bytes, size_t memory_bytes, size_t *needs_bytes)
{
    size_t beyond = (size_t)times * cache_bytes / STATE_BYTES_LEAST / COUNT_UNIT * COUNT_UNIT + COUNT_UNIT;
    size_t least = cache_bytes / STATE_BYTES_LEAST / COUNT_UNIT * COUNT_UNIT + COUNT_UNIT;
    size_t most = memory_bytes / ADAM_CASE_ALLOCATED_BYTES / COUNT_UNIT * COUNT_UNIT;
    size_t count = beyond > wanted ? beyond : wanted;
    *needs_bytes = least * ADAM_CASE_ALLOCATED_BYTES;
    return most < least ? 0 : count < most ? count : most;
}

int adam_case_skip(const struct adam_case *of, const struct bench_options *options, size_t needs_bytes,
                   size_t available_bytes)
{
    return bench_skip_memory(options, "adam", case_json(of, false), needs_bytes, available_bytes);
}

int adam_case_run(const struct adam_case *of, const struct bench_options *options, struct adam_arrays *arrays)
{
    assert(arrays->count == of->count && arrays->threads == of->threads);
    bench_progress("adam %s %s %s, %zu parameters, %d threads", of->variant->name, recipe_name(of->recipe),
                   isa_name(of->isa), of->count, of->threads);
    struct measurement m;
    struct bench_samples samples, baselines;
    struct bench_record record = {.name = "adam",
                                  .begin_ns = clock_now_ns(),
                                  .unit = "ns_per_param",
                                  .lower_is_better = true,
                                  .item_bytes = (double)case_bytes(of->variant),
                                  .samples = &samples,
                                  .baseline = &baselines};
    TRY(measurement_open(of, arrays, &m));
    size_t state_bytes =
        3 * sizeof(float) + dtype_bytes(of->variant->grad_dtype) + (of->variant->writes_model_params ? 2 : 0);
    bool in_cache = of->count * state_bytes < bench_cache_bytes();
    isa_set(of->isa);
    int code = measure(&m, in_cache, options, &record, &samples, &baselines);
    if (code != ERR_NONE) {
        json_decref(record.detail);
        return err_prefix(code, "adam %s %s %s, %zu parameters, %d threads", of->variant->name, recipe_name(of->recipe),
                          isa_name(of->isa), of->count, of->threads);
    }
    record.description = case_json(of, in_cache);
    return bench_print(options, &record);
}
