// SPDX-License-Identifier: Apache-2.0
// isa_cuda against the scalar build, bit by bit: nvcc's host compilation on any machine, and the GPU's where there
// is one. The arrays of a case lie in one block of poisoned memory, which is compared as a whole.
#include "ref/cuda/isa_cuda.h"

#include "ref/cuda/cuda_lane.h"
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/norm.h"
#include "ref/cuda/isa_host.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>

#include <math.h>
#include <stdio.h>

enum { ARENA_BYTES = 1 << 20, POISON = 0xab, DECAYS = 3 };

static const enum dtype FORMATS[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
static const size_t COUNTS[] = {0, 1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 255, 256, 257, 1009, 1024, 1025, 4093};
enum { FORMAT_COUNT = 3, COUNT_COUNT = sizeof COUNTS / sizeof *COUNTS };

// A table of kernels and the memory that they work on.
struct target {
    const struct isa_kernels *kernels;
    void (*mix)(const struct adam_step *step);
    char *memory;  // [ARENA_BYTES]
    bool is_gpu;
};

// A case's arrays at first, as the scalar build leaves them, and as the target does.
static _Alignas(256) char start[ARENA_BYTES], expected[ARENA_BYTES], found[ARENA_BYTES], host_memory[ARENA_BYTES];
static size_t used;

static struct target target_on_host(size_t threads)
{
    isa_host_threads(threads);
    return (struct target){&isa_host, isa_host_mix, host_memory, false};
}

// Returns false, and reports the skip, if there is no GPU.
static bool target_on_gpu(struct target *out)
{
    const char *absent = cuda_lane_absent();
    if (absent) {
        printf("TEST SKIPPED: %s\n", absent);
        return false;
    }
    *out = (struct target){&isa_cuda, isa_cuda_mix, NULL, true};
    void *memory = NULL;
    cr_assert_eq(cuda_lane_use(0), 0);
    cr_assert_eq(cudaMalloc(&memory, ARENA_BYTES), cudaSuccess);
    out->memory = memory;
    return true;
}

static void target_model_params(const struct target *target, void *to, const void *from, size_t bytes)
{
    if (!target->is_gpu) {
        memcpy(to, from, bytes);
        return;
    }
    cr_assert_eq(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_lane_stream()), cudaSuccess);
    cr_assert_eq(cuda_lane_wait(), 0);
}

static void arena_clear(void)
{
    used = 256;
    memset(start, POISON, sizeof start);
}

// The offset of an array that begins `shift` elements after a multiple of 256 bytes.
static size_t arena_array(enum dtype dtype, size_t count, size_t shift)
{
    size_t offset = used + shift * dtype_bytes(dtype);
    used = (offset + count * dtype_bytes(dtype) + 512) / 256 * 256;
    cr_assert_leq(used, ARENA_BYTES);
    return offset;
}

static void arena_begin(const struct target *target)
{
    memcpy(expected, start, used);
    target_model_params(target, target->memory, start, used);
}

static void arena_equal(const char *what, size_t count, size_t shift)
{
    for (size_t i = 0; i < used; i++)
        cr_assert_eq(found[i], expected[i], "%s of %zu, shifted by %zu: byte %zu is %02x of %02x", what, count, shift,
                     i, found[i] & 0xff, expected[i] & 0xff);
}

static void arena_compare(const struct target *target, const char *what, size_t count, size_t shift)
{
    target_model_params(target, found, target->memory, used);
    arena_equal(what, count, shift);
}

// Numbers of training, zeros and subnormals of each format among them.
static float value_at(uint64_t key, size_t i)
{
    uint64_t bits = random_at(key, i), more = random_mix(bits);
    int exponent = bits % 11 == 0 ? -140 : bits % 7 == 0 ? -20 : 0;
    return bits % 19 == 0 ? 0 : ldexpf(random_normal(more), exponent);
}

static void fill(size_t offset, enum dtype dtype, size_t count, uint64_t key)
{
    static float wide[ARENA_BYTES / sizeof(float)];
    for (size_t i = 0; i < count; i++)
        wide[i] = value_at(key, i);
    isa_scalar.narrow(dtype, wide, start + offset, count);
}

// group: of a hierarchical sum; 0: none.
static void fold_once(const struct target *target, enum dtype in_dtype, enum dtype out_dtype, int world, int group,
                      size_t count, size_t shift)
{
    const void *here[world], *there[world];
    arena_clear();
    size_t out = arena_array(out_dtype, count, shift);
    fill(out, out_dtype, count, 99);
    for (int rank = 0; rank < world; rank++) {
        size_t in = arena_array(in_dtype, count, shift);
        fill(in, in_dtype, count, (uint64_t)rank);
        here[rank] = expected + in;
        there[rank] = target->memory + in;
    }
    arena_begin(target);
    if (group > 0) {
        isa_scalar.fold_groups(in_dtype, here, world, group, out_dtype, expected + out, count);
        target->kernels->fold_groups(in_dtype, there, world, group, out_dtype, target->memory + out, count);
    } else {
        isa_scalar.fold(in_dtype, here, world, out_dtype, expected + out, count);
        target->kernels->fold(in_dtype, there, world, out_dtype, target->memory + out, count);
    }
    arena_compare(target, "fold", count, shift);
}

static void check_folds(const struct target *target)
{
    static const int worlds[] = {1, 2, 3, 8, 65};
    for (int in = 0; in < FORMAT_COUNT; in++)
        for (int out = 0; out < FORMAT_COUNT; out++)
            for (int w = 0; w < 5; w++)
                for (int c = 0; c < COUNT_COUNT; c++) {
                    uint64_t bits = random_key(random_key((uint64_t)(in + 3 * out), (uint64_t)w), (uint64_t)c);
                    if (worlds[w] <= 8 || COUNTS[c] <= 1025)
                        fold_once(target, FORMATS[in], FORMATS[out], worlds[w], 0, COUNTS[c], bits % 5);
                    if (worlds[w] == 8)
                        fold_once(target, FORMATS[in], FORMATS[out], 8, c % 2 ? 2 : 4, COUNTS[c], bits % 5);
                }
}

// In place: the sum takes the place of one of the inputs.
static void check_folds_in_place(const struct target *target)
{
    for (int format = 0; format < FORMAT_COUNT; format++)
        for (int rank = 0; rank < 3; rank++) {
            enum dtype dtype = FORMATS[format];
            const void *here[3], *there[3];
            size_t in[3];
            arena_clear();
            for (int k = 0; k < 3; k++) {
                in[k] = arena_array(dtype, 1025, 0);
                fill(in[k], dtype, 1025, (uint64_t)k);
                here[k] = expected + in[k];
                there[k] = target->memory + in[k];
            }
            arena_begin(target);
            isa_scalar.fold(dtype, here, 3, dtype, expected + in[rank], 1025);
            target->kernels->fold(dtype, there, 3, dtype, target->memory + in[rank], 1025);
            arena_compare(target, "fold in place", 1025, 0);
        }
}

static void check_conversions(const struct target *target)
{
    for (int format = 0; format < FORMAT_COUNT; format++)
        for (int c = 0; c < COUNT_COUNT; c++)
            for (size_t shift = 0; shift < 5; shift++) {
                enum dtype dtype = FORMATS[format], sum_dtype = FORMATS[((size_t)format + shift) % FORMAT_COUNT];
                size_t count = COUNTS[c];
                arena_clear();
                size_t wide = arena_array(DTYPE_FP32, count, shift), narrow = arena_array(dtype, count, shift);
                size_t widened = arena_array(DTYPE_FP32, count, shift), sum = arena_array(sum_dtype, count, shift);
                fill(wide, DTYPE_FP32, count, 1);
                fill(sum, sum_dtype, count, 2);
                arena_begin(target);
                const struct isa_kernels *kernels[] = {&isa_scalar, target->kernels};
                char *const memories[] = {expected, target->memory};
                for (int k = 0; k < 2; k++) {
                    kernels[k]->narrow(dtype, (float *)(void *)(memories[k] + wide), memories[k] + narrow, count);
                    kernels[k]->widen(dtype, memories[k] + narrow, (float *)(void *)(memories[k] + widened), count);
                    kernels[k]->accumulate(sum_dtype, memories[k] + sum, dtype, memories[k] + narrow, count);
                }
                arena_compare(target, dtype_name(dtype), count, shift);
            }
}

// Each 16-bit pattern widened, and what lies around each of them narrowed; a NaN stays one.
static void check_every_pattern(const struct target *target)
{
    enum { PATTERNS = 1 << 16 };
    for (int format = 1; format < FORMAT_COUNT; format++) {
        enum dtype dtype = FORMATS[format];
        arena_clear();
        size_t narrow = arena_array(dtype, PATTERNS, 0), wide = arena_array(DTYPE_FP32, PATTERNS, 0);
        size_t again = arena_array(dtype, PATTERNS, 0);
        for (uint32_t i = 0; i < PATTERNS; i++) {
            uint16_t bits = (uint16_t)i;
            memcpy(start + narrow + i * sizeof bits, &bits, sizeof bits);
        }
        arena_begin(target);
        const struct isa_kernels *kernels[] = {&isa_scalar, target->kernels};
        char *const memories[] = {expected, target->memory};
        for (int k = 0; k < 2; k++) {
            kernels[k]->widen(dtype, memories[k] + narrow, (float *)(void *)(memories[k] + wide), PATTERNS);
            kernels[k]->narrow(dtype, (float *)(void *)(memories[k] + wide), memories[k] + again, PATTERNS);
        }
        arena_compare(target, dtype_name(dtype), PATTERNS, 0);
    }
}

// The offsets of a step's arrays.
struct step_arrays {
    size_t grad, param, exp_avg, exp_avg_sq, model_params;
};

static struct step_arrays step_place(const struct adam_step *step, size_t shift, uint64_t key)
{
    size_t count = step->count;
    struct step_arrays at;
    arena_clear();
    at.grad = arena_array(step->grad_dtype, count, shift);
    at.param = arena_array(DTYPE_FP32, count, shift);
    at.exp_avg = arena_array(DTYPE_FP32, count, shift);
    at.exp_avg_sq = arena_array(DTYPE_FP32, count, shift);
    at.model_params = arena_array(step->model_dtype, count, shift);
    fill(at.grad, step->grad_dtype, count, key);
    fill(at.param, DTYPE_FP32, count, key + 1);
    fill(at.exp_avg, DTYPE_FP32, count, key + 2);
    float *v = (float *)(void *)(start + at.exp_avg_sq);
    for (size_t i = 0; i < count; i++)
        v[i] = fabsf(value_at(key + 3, i));
    return at;
}

static struct adam_step step_at(const struct adam_step *step, const struct step_arrays *at, char *memory,
                                bool model_params)
{
    struct adam_step placed = *step;
    placed.grad = memory + at->grad;
    placed.param = (float *)(void *)(memory + at->param);
    placed.exp_avg = (float *)(void *)(memory + at->exp_avg);
    placed.exp_avg_sq = (float *)(void *)(memory + at->exp_avg_sq);
    placed.model_params = model_params ? memory + at->model_params : NULL;
    return placed;
}

// IEEE 754 leaves a NaN's sign and payload open, and processors differ: where both have a NaN, found gets the expected.
static void arena_one_nan(const struct step_arrays *at, size_t count, enum dtype model_dtype)
{
    const size_t arrays[] = {at->param, at->exp_avg, at->exp_avg_sq, at->model_params};
    for (size_t i = 0; i < 4 * count; i++) {
        enum dtype dtype = i / count < 3 ? DTYPE_FP32 : model_dtype;
        size_t byte = arrays[i / count] + i % count * dtype_bytes(dtype);
        float both[2];
        isa_scalar.widen(dtype, expected + byte, &both[0], 1);
        isa_scalar.widen(dtype, found + byte, &both[1], 1);
        if (isnan(both[0]) && isnan(both[1]))
            memcpy(found + byte, expected + byte, dtype_bytes(dtype));
    }
}

static void adam_once(const struct target *target, const struct recipe *recipe, int decay, size_t count, uint64_t key)
{
    static const float divisors[] = {1, 2, 3, 131072, 0x1p-128f, 6 * 65536.0f, 0.1f};
    size_t shift = random_at(key, 0) % 5;
    struct adam_step step = {.recipe = recipe,
                             .grad_dtype = FORMATS[random_at(key, 1) % 3],
                             .grad_divisor = divisors[random_at(key, 2) % 7],
                             .grad_coefficient = random_at(key, 3) % 2 ? 1 : 0.3f,
                             .model_dtype = FORMATS[random_at(key, 4) % 3],
                             .count = count,
                             .tensor_index = random_at(key, 5) % 40};
    // The shard ends in the tensor's tail, or before it.
    step.tensor_count = step.tensor_index + count + random_at(key, 6) % 2 * 50;
    struct adam_hyper hyper = {.lr = 1e-3,
                               .beta1 = key % 2 ? 0.9 : 0.4,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = decay ? 0.1 : 0,
                               .decoupled = decay == 2,
                               .bias_correction = true};
    struct recipe_state state = {0};
    cr_assert_eq(recipe_begin_step(recipe, &hyper, 1 + key % 5, &state, &step.scalars), 0);
    struct step_arrays at = step_place(&step, shift, key);
    bool model_params = random_at(key, 7) % 4 > 0;
    arena_begin(target);
    struct adam_step here = step_at(&step, &at, expected, model_params),
                     there = step_at(&step, &at, target->memory, model_params);
    isa_scalar.adam(&here);
    target->kernels->adam(&there);
    target_model_params(target, found, target->memory, used);
    arena_one_nan(&at, count, step.model_dtype), arena_equal(recipe->name, count, shift);
}

static void check_adam(const struct target *target)
{
    for (int r = 0; recipe_at(r); r++)
        for (int decay = 0; decay < DECAYS; decay++)
            for (int c = 0; c < COUNT_COUNT; c++)
                for (uint64_t trial = 0; trial < 4; trial++)
                    adam_once(target, recipe_at(r), decay, COUNTS[c],
                              random_key(random_key((uint64_t)(r * DECAYS + decay), COUNTS[c]), trial));
}

enum { NORM_PARTS = 70 };  // more than a launch takes

static void norm_once(const struct target *target, enum dtype dtype, size_t count, size_t shift, uint64_t key)
{
    arena_clear();
    size_t values = arena_array(dtype, count, shift);
    fill(values, dtype, count, key);
    arena_begin(target);
    const struct norm_range whole = {expected + values, count, 0};
    struct norm_range parts[NORM_PARTS];
    for (size_t i = 0, at = 0; i < NORM_PARTS; i++) {
        size_t part = i + 1 < NORM_PARTS ? (count - at) * (i % 3) / 7 : count - at;  // some are empty
        parts[i] = (struct norm_range){target->memory + values + at * dtype_bytes(dtype), part, i % 2};
        at += part;
    }
    uint32_t max = 0, maxima[2][2] = {{0}};
    struct norm_sum here[3] = {{.low = UINT64_MAX - 5, .high = 1}}, there[2] = {here[0]};
    isa_scalar.norm_max(dtype, &whole, 1, &max);
    isa_scalar.norm_accumulate(here, dtype, &whole, 1, max);
    for (size_t i = 0; i < NORM_PARTS; i++) {
        struct norm_range part = parts[i];
        part.values = expected + values + ((const char *)part.values - (target->memory + values));
        isa_scalar.norm_max(dtype, &part, 1, maxima[0]);
        part.into++;
        isa_scalar.norm_accumulate(here, dtype, &part, 1, max);
    }
    target->kernels->norm_max(dtype, parts, NORM_PARTS, maxima[1]);
    target->kernels->norm_accumulate(there, dtype, parts, NORM_PARTS, max);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(maxima[1][i], maxima[0][i], "%s, %zu values: part %d", dtype_name(dtype), count, i);
    cr_assert_eq(there[1].low, here[2].low);
    cr_assert_eq(there[1].high, here[2].high);
    norm_add(&there[0], there[1]);
    cr_assert(here[0].low == there[0].low && here[0].high == there[0].high, "%s, %zu values", dtype_name(dtype), count);
    arena_compare(target, "norm", count, shift);
}

static void check_norms(const struct target *target)
{
    for (int format = 0; format < FORMAT_COUNT; format++) {
        for (int c = 0; c < COUNT_COUNT; c++)
            for (size_t shift = 0; shift < 5; shift++)
                norm_once(target, FORMATS[format], COUNTS[c], shift, (uint64_t)c);
        // More than 2^12 squares near the largest for each of a few threads: the sums leave 64 bits.
        norm_once(target, FORMATS[format], 200003, 0, 7);
    }
    static const uint32_t specials[] = {0x7f800000, 0x7fc00000, 0xffc00000, 0xff800000, 0x7fffffff, 1};
    for (int format = 0; format < FORMAT_COUNT; format++)
        for (int s = 0; s < 6; s++) {
            float special = f32_of_bits(specials[s]);
            arena_clear();
            size_t values = arena_array(FORMATS[format], 1025, 0);
            fill(values, FORMATS[format], 1025, 1);
            isa_scalar.narrow(FORMATS[format], &special, start + values + 1024 * dtype_bytes(FORMATS[format]), 1);
            arena_begin(target);
            const struct norm_range here = {expected + values, 1025, 0}, there = {target->memory + values, 1025, 1};
            uint32_t maxima[2] = {0};
            isa_scalar.norm_max(FORMATS[format], &here, 1, maxima);
            target->kernels->norm_max(FORMATS[format], &there, 1, maxima);
            cr_expect_eq(maxima[0], maxima[1]);
        }
}

static void check_mix(const struct target *target)
{
    for (int format = 0; format < FORMAT_COUNT; format++)
        for (size_t shift = 0; shift < 2; shift++) {
            struct adam_step step = {.grad_dtype = FORMATS[format], .model_dtype = DTYPE_BF16, .count = 1025};
            struct step_arrays at = step_place(&step, shift, 5);
            arena_begin(target);
            struct adam_step here = step_at(&step, &at, expected, true);
            struct adam_step there = step_at(&step, &at, target->memory, true);
            isa_scalar.narrow(DTYPE_BF16, here.param, here.model_params, step.count);
            for (size_t i = 0; i < step.count; i++) {
                float g, p = here.param[i];
                isa_scalar.widen(step.grad_dtype, (const char *)here.grad + i * dtype_bytes(step.grad_dtype), &g, 1);
                here.param[i] = here.exp_avg[i];
                here.exp_avg[i] = here.exp_avg_sq[i];
                here.exp_avg_sq[i] = f32_of_bits(f32_bits(p) ^ f32_bits(g));
            }
            target->mix(&there);
            arena_compare(target, "the baseline", step.count, shift);
        }
}

static void (*const checks[])(const struct target *target) = {
    check_folds, check_folds_in_place, check_conversions, check_every_pattern, check_adam, check_norms, check_mix,
};

Test(isa_cuda, every_kernel_compiled_for_the_host_has_the_scalar_bits)
{
    static const size_t threads[] = {1, 7, 300, 599};
    for (size_t i = 0; i < 4 * sizeof checks / sizeof *checks; i++) {
        struct target target = target_on_host(threads[i % 4]);
        checks[i / 4](&target);
    }
}

Test(isa_cuda, every_kernel_has_the_scalar_bits_gpu)
{
    struct target target;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && target_on_gpu(&target); i++)
        checks[i](&target);
}

Test(isa_cuda, what_is_not_a_number_stays_so_gpu)
{
    struct target target;
    if (!target_on_gpu(&target))
        return;
    for (int r = 0; recipe_at(r); r++) {
        struct adam_step step = {.recipe = recipe_at(r),
                                 .grad_dtype = DTYPE_FP32,
                                 .grad_divisor = 1,
                                 .grad_coefficient = 1,
                                 .model_dtype = DTYPE_BF16,
                                 .count = 5,
                                 .tensor_count = 5};
        struct adam_hyper hyper = {1e-3, 0.9, 0.999, 1e-8, 0.1, true, true};
        struct recipe_state state = {0};
        cr_assert_eq(recipe_begin_step(recipe_at(r), &hyper, 1, &state, &step.scalars), 0);
        struct step_arrays at = step_place(&step, 0, 3);
        float nan = NAN;
        memcpy(start + at.grad + 2 * sizeof nan, &nan, sizeof nan);
        arena_begin(&target);
        struct adam_step there = step_at(&step, &at, target.memory, true);
        isa_cuda.adam(&there);
        target_model_params(&target, found, target.memory, used);
        for (size_t i = 0; i < 5; i++) {
            float p = ((float *)(void *)(found + at.param))[i];
            struct bf16 model_params = ((struct bf16 *)(void *)(found + at.model_params))[i];
            cr_expect_eq(isnan(p) != 0, i == 2, "%s, element %zu", recipe_at(r)->name, i);
            cr_expect_eq(isnan(bf16_to_f32(model_params)) != 0, i == 2);
        }
    }
}
