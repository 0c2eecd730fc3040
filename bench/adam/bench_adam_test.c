// SPDX-License-Identifier: Apache-2.0
// Tests of `bench adam`: the baseline moves every element, verification rejects a single wrong bit, and the cases that
// the user chose are printed.
#include "bench/table/benchmarks.h"
#include "bench/adam/adam_arrays.h"
#include "bench/adam/adam_case.h"
#include "ref/arithmetic/isa.h"
#include "bench/harness/bench.h"
#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "bench/harness/streams.h"
#include "base/pretended_test.h"
#include "ref/arithmetic/shadow_test.h"
#include "bench/harness/json_test.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t counts[] = {1, 31, 32, 33, 64, 1000, 4099, 100003};
enum { COUNT_COUNT = sizeof counts / sizeof counts[0] };

// Compares the baseline over `arrays` with a plain loop over their initial state.
static void check_streams(struct adam_arrays *arrays, enum dtype grad_dtype, bool copy, bool past_cache,
                          enum streams_way way, uint32_t mask)
{
    adam_arrays_fill(arrays, grad_dtype);
    size_t bytes = arrays->count * sizeof(uint32_t);
    uint32_t *expected[3] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    void *actual[3] = {arrays->param, arrays->exp_avg, arrays->exp_avg_sq};
    for (int a = 0; a < 3; a++) {
        memcpy(expected[a], actual[a], bytes);
        for (size_t i = 0; i < arrays->count; i++) {
            uint32_t grad = 0;
            if (grad_dtype == DTYPE_FP32)
                memcpy(&grad, (char *)arrays->grad + 4 * i, 4);
            else
                memcpy((char *)&grad + 2, (char *)arrays->grad + 2 * i, 2);
            expected[a][i] ^= grad & mask;
        }
    }
    struct streams streams = {.param = arrays->param,
                              .exp_avg = arrays->exp_avg,
                              .exp_avg_sq = arrays->exp_avg_sq,
                              .grad = arrays->grad,
                              .grad_dtype = grad_dtype,
                              .model_params = copy ? arrays->model_params : NULL,
                              .count = arrays->count,
                              .way = way,
                              .past_cache = past_cache};
    streams_step(&streams, mask, arrays->threads, 1);
    for (int a = 0; a < 3; a++)
        cr_assert_eq(memcmp(actual[a], expected[a], bytes), 0, "array %d of %zu", a, arrays->count);
    for (size_t i = 0; i < arrays->count; i++) {
        uint16_t stored;
        memcpy(&stored, (char *)arrays->model_params + 2 * i, 2);
        cr_assert_eq(stored, copy ? expected[0][i] >> 16 : 0xffff, "copy %zu of %zu", i, arrays->count);
    }
    for (int a = 0; a < 3; a++)
        free(expected[a]);
}

Test(bench_adam, the_baseline_moves_every_element_of_every_stream)
{
    for (int i = 0; i < COUNT_COUNT; i++) {
        for (int variant = 0; variant < 16 * STREAMS_WAY_COUNT; variant++) {
            struct adam_arrays arrays;
            cr_assert_eq(adam_arrays_open(counts[i], variant & 8 ? 3 : 1, &arrays), ERR_NONE);
            check_streams(&arrays, variant & 1 ? DTYPE_BF16 : DTYPE_FP32, variant & 2, variant & 4,
                          (enum streams_way)(variant / 16), UINT32_MAX);
            adam_arrays_close(&arrays);
        }
    }
}

Test(bench_adam, the_baseline_with_mask_0_changes_no_state)
{
    struct adam_arrays arrays;
    cr_assert_eq(adam_arrays_open(100003, 2, &arrays), ERR_NONE);
    check_streams(&arrays, DTYPE_FP32, true, true, STREAMS_LOOP, 0);
    check_streams(&arrays, DTYPE_BF16, true, false, STREAMS_PREFETCH, 0);
    adam_arrays_close(&arrays);
}

Test(bench_adam, the_reading_baseline_reads_every_word)
{
    struct adam_arrays arrays;
    cr_assert_eq(adam_arrays_open(1000, 3, &arrays), ERR_NONE);
    struct streams streams = {.grad = arrays.grad, .grad_dtype = DTYPE_FP32, .count = arrays.count};
    for (uint32_t i = 0; i < 1000; i++) {
        memset(arrays.grad, 0, 4000);
        memcpy((char *)arrays.grad + 4 * i, &(uint32_t){i + 1}, 4);
        cr_assert_eq(streams_read(&streams, 3), i + 1);
    }
    streams.grad_dtype = DTYPE_BF16;
    cr_assert_eq(streams_read(&streams, 1), 0, "the last word is beyond 1000 elements of 16 bits");
    adam_arrays_close(&arrays);
}

static struct adam_step step_over(struct adam_arrays *arrays, const struct recipe *recipe, enum dtype grad_dtype)
{
    adam_arrays_fill(arrays, grad_dtype);
    struct adam_step step = {.recipe = recipe,
                             .grad = arrays->grad,
                             .grad_dtype = grad_dtype,
                             .grad_divisor = 3,
                             .grad_coefficient = 0.7f,
                             .param = arrays->param,
                             .exp_avg = arrays->exp_avg,
                             .exp_avg_sq = arrays->exp_avg_sq,
                             .model_params = arrays->model_params,
                             .model_dtype = DTYPE_FP16,
                             .count = arrays->count,
                             .tensor_count = arrays->count};
    struct recipe_state state = {0};
    cr_assert_eq(recipe_begin_step(recipe, &ADAM_ARRAYS_HYPER, 5, &state, &step.scalars), ERR_NONE);
    return step;
}

Test(bench_adam, verification_accepts_right_steps_of_every_recipe)
{
    for (int r = 0; recipe_at(r); r++) {
        for (int i = 0; i < COUNT_COUNT; i++) {
            struct adam_arrays arrays;
            cr_assert_eq(adam_arrays_open(counts[i], 2, &arrays), ERR_NONE);
            struct adam_step step = step_over(&arrays, recipe_at(r), i % 2 ? DTYPE_BF16 : DTYPE_FP32);
            for (int repetition = 0; repetition < 3; repetition++)
                adam_update_parallel(&step, 2);
            cr_assert_eq(adam_arrays_check(&arrays, &step, 3), ERR_NONE, "%s", err_message());
            adam_arrays_close(&arrays);
        }
    }
}

Test(bench_adam, verification_rejects_any_single_wrong_bit)
{
    const struct recipe *recipe = recipe_find("deepspeed-cpu-gcc-avx512");
    cr_assert_not_null(recipe);
    struct adam_arrays arrays;
    const size_t count = 3 * ARRAYS_PERIOD + 20;
    cr_assert_eq(adam_arrays_open(count, 1, &arrays), ERR_NONE);
    struct adam_step step = step_over(&arrays, recipe, DTYPE_FP32);
    adam_update(&step);
    cr_assert_eq(adam_arrays_check(&arrays, &step, 1), ERR_NONE, "%s", err_message());
    unsigned char *const all[] = {(unsigned char *)arrays.param, (unsigned char *)arrays.exp_avg,
                                  (unsigned char *)arrays.exp_avg_sq, arrays.model_params};
    static const size_t element_bytes[] = {4, 4, 4, 2};
    static const char *const names[] = {"param", "exp_avg", "exp_avg_sq", "copy"};
    for (int a = 0; a < 4; a++) {
        for (size_t i = 0; i < count; i += 1 + i % 7) {
            unsigned char *byte = all[a] + i * element_bytes[a] + i % element_bytes[a];
            *byte ^= (unsigned char)(1u << i % 8);
            cr_assert_eq(adam_arrays_check(&arrays, &step, 1), ERR_CHECK);
            char where[64];
            snprintf(where, sizeof where, "%s[%zu] ", names[a], i);
            cr_assert_not_null(strstr(err_message(), where), "%s: %s", where, err_message());
            *byte ^= (unsigned char)(1u << i % 8);
        }
    }
    cr_assert_eq(adam_arrays_check(&arrays, &step, 1), ERR_NONE);
    cr_assert_eq(adam_arrays_check(&arrays, &step, 2), ERR_CHECK, "one step is missing");
    step.recipe = recipe_find("deepspeed-cpu-clang");
    cr_assert_eq(adam_arrays_check(&arrays, &step, 1), ERR_CHECK, "the tail follows another recipe");
    adam_arrays_close(&arrays);
}

// Runs with --json and returns the number of lines, each checked to be a record. *status: the exit status.
static size_t run_lines(const char *options, int *status)
{
    static const char *const first[] = {"adam", "--json", "--repeat=1", "--warmup=1", NULL};
    char *text;
    size_t lines = 0;
    *status = printed_run(bench_adam.run, first, options, &text);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        *end = '\0';
        json_t *record = json_loads(line, 0, NULL);
        cr_assert_not_null(record, "%s", line);
        cr_assert_str_eq(json_string_value(json_object_get(record, "record")), "bench");
        cr_assert_str_eq(json_string_value(json_object_get(record, "unit")), "ns_per_param");
        cr_assert(json_is_true(json_object_get(record, "verified")));
        cr_assert_gt(json_real_value(json_object_get(record, "median")), 0);
        cr_assert_gt(json_real_value(json_object_get(record, "ratio")), 0);
        json_decref(record);
    }
    free(text);
    return lines;
}

static size_t recipe_count(void)
{
    size_t count = 0;
    while (recipe_at((int)count))
        count++;
    return count;
}

Test(bench_adam, every_recipe_on_every_instruction_set_is_verified)
{
    int status;
    size_t lines = run_lines("--recipe=all --isa=all --step=fused --sizes=50021 --threads=1", &status);
    cr_assert_eq(status, 0);
    cr_assert_eq(lines, recipe_count() * ((size_t)isa_best() + 1) * 2, "%zu", lines);
}

Test(bench_adam, every_step_is_verified_at_odd_sizes)
{
    int status;
    size_t lines = run_lines(
        "--recipe=deepspeed-cpu-gcc-avx2 --isa=scalar --step=all --sizes=1,7,1021,2043 --threads=1,3", &status);
    cr_assert_eq(status, 0);
    cr_assert_eq(lines, 4 * 2 * 5, "%zu", lines);
}

Test(bench_adam, without_a_choice_one_thing_varies_at_a_time)
{
    int status;
    size_t lines = run_lines("--sizes=100", &status);
    cr_assert_eq(status, 0);
    size_t other_threads = bench_thread_count() > 1;
    cr_assert_eq(lines, 5 + other_threads + recipe_count() - 1 + (size_t)isa_best(), "%zu", lines);
    cr_assert_eq(run_lines("--sizes=100 --quick", &status), 5);
}

Test(bench_adam, the_large_case_is_beyond_the_caches_and_within_memory)
{
    const size_t mib = 1 << 20, gib = 1 << 30;
    static const struct {
        size_t cache_mib, memory_mib;
        int times;
        size_t wanted_mi, expected_mi;
    } cases[] = {
        {32, 17000, 2, 16, 16},    // a small cache: the usual size
        {480, 17000, 2, 16, 61},   // twice 480 MiB of states
        {480, 17000, 4, 64, 121},  // four times, in a full run
        {1152, 6144, 2, 16, 145},  // 1.1 GiB of cache on a machine of 8 GiB
        {1152, 2048, 2, 16, 102},  // the memory permits arrays that are still out of cache
        {1152, 1440, 2, 16, 0},    // it does not
        {32, 192, 2, 16, 9},       // a container of 256 MiB
        {0, 17000, 2, 16, 16},     // unknown caches
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t needs, count = adam_case_large_count(cases[i].wanted_mi * mib, cases[i].times, cases[i].cache_mib * mib,
                                                    cases[i].memory_mib * mib, &needs);
        cr_expect_eq(count, cases[i].expected_mi * mib, "%zu: %zu Mi", i, count / mib);
        cr_expect(count == 0 || (count * 16 > cases[i].cache_mib * mib && count * 20 <= cases[i].memory_mib * mib));
        cr_expect_eq(needs > cases[i].memory_mib * mib, count == 0, "%zu: needs %zu", i, needs);
    }
    size_t needs, count = adam_case_large_count(64 * mib, 4, 1152 * mib, SIZE_MAX, &needs);
    cr_expect_geq(count * 16, 4 * 1152 * mib);
    cr_expect_leq(count * 20, 6 * gib);
}

// Returns what the quick cases print on a pretended machine with one processor and 32 MiB of cache.
static char *quick_text(size_t memory_mib)
{
    static const char *const first[] = {"adam", NULL};
    char root[PATH_MAX], *text;
    pretended_machine(folder_make(root), "l3:1(size=32MiB) core:1 pu:1", memory_mib);
    cr_expect_eq(printed_run(bench_adam.run, first, "--json --quick --step=update --repeat=1 --warmup=1", &text), 0);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    return text;
}

Test(bench_adam, on_a_machine_of_little_memory_the_large_case_is_smaller_or_skipped_with_its_reason)
{
    char *smaller = quick_text(96), *skipped = quick_text(64);
    cr_expect(strstr(smaller, "\"params\":3145728,\"threads\":1,\"in_cache\":false"), "%s", smaller);
    cr_expect_null(strstr(smaller, "\"record\":\"skip\""), "%s", smaller);
    cr_expect(strstr(skipped, "{\"record\":\"skip\",\"name\":\"adam\",\"case\":{\"step\":\"update\""), "%s", skipped);
    cr_expect(
        strstr(skipped,
               "\"in_cache\":false,\"bytes_per_param\":28},\"needs_bytes\":62914560,\"available_bytes\":50331648}"),
        "%s", skipped);
    cr_expect(strstr(skipped, "\"params\":65536,\"threads\":1,\"in_cache\":true"), "%s", skipped);
    free(smaller);
    free(skipped);
}

Test(bench_adam, unknown_names_are_usage_errors)
{
    const char *const wrong[] = {"--recipe=torch", "--isa=avx1024", "--step=half", "--sizes=none"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int status;
        cr_assert_eq(run_lines(wrong[i], &status), 0);
        cr_assert_eq(status, 2, "%s", wrong[i]);
    }
}

Test(bench_adam, too_little_memory_is_an_error)
{
    int status;
    cr_assert_eq(run_lines("--sizes=8191G", &status), 0);
    cr_assert_eq(status, 2);
}

// Adam and the driver's copies take 2.5 ms a repetition, so that one has one round; the mix takes what a test says.
static const double OTHERS_MS = 2.5;
static double mix_ms;
static bool mixed;
static int mix_count;

static int begin(void)
{
    mixed = false;
    return ERR_NONE;
}

static int end(double *ms)
{
    *ms = mixed ? mix_ms : OTHERS_MS;
    return ERR_NONE;
}

static void mix(const struct adam_step *step)
{
    float *p = at(step->param);
    mix_count++;
    mixed = true;
    p[step->count - 1] = 77;  // nothing verifies the baseline's values
}

// In the first step flips one bit of the last element, as if a thread of the device had missed it.
static void wrong_adam(const struct adam_step *step)
{
    static bool flipped;
    shadow_adam(step);
    float *p = at(step->param);
    uint32_t bits = f32_bits(p[step->count - 1]) ^ (flipped ? 0 : 1 << 16);
    p[step->count - 1] = f32_of_bits(bits);
    flipped = true;
}

enum { COUNT = 5003 };

static int run(const struct accelerator *accelerator, int variant, json_t **record)
{
    const struct bench_gpu device = {accelerator, begin, end, mix, 64 << 10};
    const struct bench_options options = {.repeat = 3, .warmup = 1, .json = true};
    const struct adam_case of = {&adam_variants[variant], recipe_at(0), ISA_SCALAR, COUNT, 1};
    struct adam_arrays arrays;
    char *text = NULL;
    size_t bytes;
    cr_assert_eq(accelerator->enter(0), ERR_NONE);
    cr_assert_eq(adam_arrays_open(COUNT, 1, &arrays), ERR_NONE);
    FILE *out = open_memstream(&text, &bytes), *before = stdout;
    stdout = out;
    int code = adam_device_run(&device, &of, &options, &arrays);
    stdout = before;
    fclose(out);
    adam_arrays_close(&arrays);
    *record = json_loads(text, 0, NULL);
    free(text);
    cr_expect_eq(shadow.block_count, 0);
    return code;
}

// The rates follow from the bytes that each moves, and the ratio is to the faster of mix and copy.
static void expect_the_faster_baseline(const json_t *record, bool is_copy, double state_bytes)
{
    const json_t *detail = json_object_get(record, "detail"), *baseline = json_object_get(record, "yardstick");
    double copy = number(detail, "device_copy_GB_per_s"), same = number(detail, "same_streams_GB_per_s");
    double bytes = number(json_object_get(record, "case"), "bytes_per_param"), rate = number(detail, "GB_per_s");
    // Copies begin at multiples of 256 bytes, which adds up to 1 % here.
    cr_expect_float_eq(rate, bytes * COUNT / (OTHERS_MS * 1e6), 1e-4 * rate);
    cr_expect_float_eq(same, bytes * COUNT / (mix_ms * 1e6), 1e-4 * same);
    cr_expect_float_eq(copy, state_bytes * COUNT / (OTHERS_MS * 1e6), 1e-2 * copy);
    cr_expect_str_eq(json_string_value(json_object_get(baseline, "name")), is_copy ? "cudaMemcpyAsync" : "copy_4r_3w");
    cr_expect_float_eq(number(record, "ratio"), rate / (is_copy ? copy : same), 1e-4);
    cr_expect_float_eq(number(detail, "share_of_device_copy"), rate / copy, 1e-4);
    cr_expect_float_eq(number(detail, "share_of_same_streams"), rate / same, 1e-4);
}

Test(adam_device, a_case_is_measured_on_the_device_and_verified)
{
    mix_ms = 1;
    for (int variant = 0; variant < 3; variant++) {
        json_t *record;
        cr_assert_eq(run(&shadow_accelerator, variant, &record), ERR_NONE, "%s", err_message());
        const json_t *of_case = json_object_get(record, "case");
        cr_expect_str_eq(json_string_value(json_object_get(of_case, "isa")), "shadow");
        cr_expect_str_eq(json_string_value(json_object_get(of_case, "step")), adam_variants[variant].name);
        cr_expect_eq(json_array_size(json_object_get(record, "samples")), 3u);
        cr_expect_str_eq(json_string_value(json_object_get(of_case, "device")), "shadow");
        cr_expect_str_eq(json_string_value(json_object_get(of_case, "arithmetic")), "fp32");
        cr_expect(json_is_false(json_object_get(of_case, "in_cache")));
        cr_expect_gt(mix_count, 0);
        json_decref(record);
    }
}

Test(adam_device, the_baseline_is_the_faster_of_the_same_streams_and_the_drivers_copy)
{
    for (int is_copy = 0; is_copy < 2; is_copy++) {
        json_t *record;
        mix_ms = is_copy ? 10 : 1;
        cr_assert_eq(run(&shadow_accelerator, 0, &record), ERR_NONE, "%s", err_message());
        expect_the_faster_baseline(record, is_copy, 4 * sizeof(float));
        json_decref(record);
    }
}

Test(adam_device, one_wrong_bit_is_an_error_and_leaves_no_record)
{
    struct isa_kernels kernels = shadow_kernels;
    struct accelerator wrong = shadow_accelerator;
    kernels.adam = wrong_adam;
    wrong.kernels = &kernels;
    json_t *record;
    cr_expect_eq(run(&wrong, 1, &record), ERR_CHECK);
    cr_expect_null(record);
}
