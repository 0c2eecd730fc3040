// SPDX-License-Identifier: Apache-2.0
// Tests of `bench adam` on the shadow accelerator: a case has its record, and every element is verified.
#include "bench/adam/adam_case.h"

#include "ref/arithmetic/shadow_test.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

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

static double number(const json_t *of, const char *key)
{
    return json_number_value(json_object_get(of, key));
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
