// SPDX-License-Identifier: Apache-2.0
// Conversions are compared with the processor's own instructions, and with definitions that share no code with them.
#include "ref/arithmetic/dtype.h"

#include "ref/arithmetic/hardware_test.h"
#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

enum { CHUNK = 1 << 16 };

static bool is_nan_f32(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

// The value that an encoding of sign, `exponent_bits` and `fraction_bits` means, by the definition of IEEE 754.
static double meaning(uint32_t bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
    double magnitude = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
    return bits >> (exponent_bits + fraction_bits) ? -magnitude : magnitude;
}

// The nearest bf16 of a value that is not NaN: of the two neighbours the nearer, of equally near ones the even.
static uint16_t nearest_bf16(uint32_t bits)
{
    uint16_t below = (uint16_t)(bits >> 16);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return below;
    uint16_t above = (uint16_t)(below + 1);
    double value = fabs(meaning(bits, 8, 23));
    double to_below = value - fabs(meaning(below, 8, 7));
    double to_above = fabs(meaning(above, 8, 7)) - value;  // infinity's encoding means 2^128 here, as it should
    if (to_below != to_above)
        return to_below < to_above ? below : above;
    return below & 1 ? above : below;
}

static void widen_all(enum dtype dtype, float *out)
{
    static uint16_t in[CHUNK];
    for (uint32_t i = 0; i < CHUNK; i++)
        in[i] = (uint16_t)i;
    dtype_widen(dtype, in, out, CHUNK);
}

// An infinity stays one, and a NaN becomes a quiet one with its payload.
static uint32_t define_widen(uint32_t bits, int exponent_bits, int fraction_bits)
{
    uint32_t sign = (bits & 0x8000u) << 16, fraction = bits & ((1u << fraction_bits) - 1);
    if (~bits & (0x7fffu ^ ((1u << fraction_bits) - 1)))
        return f32_bits((float)meaning(bits, exponent_bits, fraction_bits));
    return sign | 0x7f800000u | (fraction ? 0x00400000u | fraction << (23 - fraction_bits) : 0);
}

Test(dtype, a_number_format_is_found_by_its_name_alone)
{
    enum dtype found = DTYPE_BYTE;
    cr_expect(!dtype_of_name("byte", &found) && !dtype_of_name("fp320", &found) && found == DTYPE_BYTE);
    for (enum dtype dtype = DTYPE_FP32; dtype < DTYPE_BYTE; dtype++)
        cr_expect(dtype_of_name(dtype_name(dtype), &found) && found == dtype, "%s", dtype_name(dtype));
}

Test(dtype, every_16_bit_value_widens_to_the_value_it_means)
{
    static float brain[CHUNK], half[CHUNK];
    for (EACH_ISA(isa)) {
        widen_all(DTYPE_BF16, brain);
        widen_all(DTYPE_FP16, half);
        for (uint32_t i = 0; i < CHUNK; i++) {
            uint32_t of_brain = define_widen(i, 8, 7), of_half = define_widen(i, 5, 10);
            cr_assert_eq(f32_bits(brain[i]), of_brain, "bf16 0x%04x: 0x%08x", i, f32_bits(brain[i]));
            cr_assert_eq(f32_bits(bf16_to_f32((struct bf16){(uint16_t)i})), of_brain);
            cr_assert_eq(f32_bits(half[i]), of_half, "fp16 0x%04x: 0x%08x", i, f32_bits(half[i]));
            cr_assert_eq(f32_bits(fp16_to_f32((struct fp16){(uint16_t)i})), of_half);
        }
    }
}

Test(dtype, every_fp16_widens_as_the_hardware_does)
{
    if (!hardware_has_fp16()) {
        puts("TEST SKIPPED: this processor does not convert fp16");
        return;
    }
    static uint16_t in[CHUNK];
    static float ours[CHUNK], hardware[CHUNK];
    for (uint32_t i = 0; i < CHUNK; i++)
        in[i] = (uint16_t)i;
    hardware_widen_fp16(in, hardware, CHUNK);
    for (EACH_ISA(isa)) {
        widen_all(DTYPE_FP16, ours);
        for (uint32_t i = 0; i < CHUNK; i++)
            cr_assert_eq(f32_bits(ours[i]), f32_bits(hardware[i]), "fp16 0x%04x", i);
    }
}

// Compares dtype_narrow with a reference on the fp32 values whose bits are start, start + stride, ... below 2^32.
typedef void reference_narrow(const float *in, uint16_t *out, size_t count);

static void narrow_agrees(enum dtype dtype, reference_narrow *reference, uint64_t stride, bool flushes)
{
    static float in[CHUNK];
    static uint16_t ours[CHUNK], theirs[CHUNK];
    for (uint64_t start = 0; start < 1ull << 32; start += CHUNK * stride) {
        for (uint64_t i = 0; i < CHUNK; i++)
            in[i] = f32_of_bits((uint32_t)(start + i * stride));  // the last chunk wraps to the first values
        dtype_narrow(dtype, in, ours, CHUNK);
        reference(in, theirs, CHUNK);
        if (!memcmp(ours, theirs, sizeof ours))
            continue;
        for (size_t i = 0; i < CHUNK; i++) {
            bool subnormal = (f32_bits(in[i]) & 0x7f800000u) == 0;
            if (flushes && subnormal)
                continue;
            cr_assert_eq(ours[i], theirs[i], "%s of 0x%08x: 0x%04x, reference 0x%04x", dtype_name(dtype),
                         f32_bits(in[i]), ours[i], theirs[i]);
        }
    }
}

static void define_narrow_bf16(const float *in, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = f32_bits(in[i]);
        out[i] = is_nan_f32(bits) ? (uint16_t)(bits >> 16 | 0x0040u) : nearest_bf16(bits);
    }
}

// By the rounding of double to the grid of fp16: values that far apart are multiples of a power of two.
static void define_narrow_fp16(const float *in, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = f32_bits(in[i]);
        uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
        double magnitude = fabs((double)in[i]);
        if (is_nan_f32(bits)) {
            out[i] = (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
            continue;
        }
        int exponent = magnitude < 0x1p-14 ? -14 : magnitude >= 0x1p16 ? 16 : ilogb(magnitude);
        double steps = nearbyint(ldexp(magnitude < 0x1p16 ? magnitude : 0x1p16, 10 - exponent));
        out[i] = (uint16_t)(sign | (uint16_t)((exponent + 14) * 1024 + (int)steps));
    }
}

Test(dtype, a_stride_of_all_fp32_values_narrows_to_the_nearest)
{
    for (EACH_ISA(isa)) {
        narrow_agrees(DTYPE_BF16, define_narrow_bf16, 4093, false);
        narrow_agrees(DTYPE_FP16, define_narrow_fp16, 4093, false);
    }
}

Test(dtype, values_beside_every_tie_narrow_to_the_nearest)
{
    static float in[CHUNK * 6];
    static uint16_t ours[CHUNK * 6], theirs[CHUNK * 6];
    for (EACH_ISA(isa))
        for (int form = 0; form < 2; form++) {
            // Halfway between each 16-bit value and the next, that value itself, and the fp32 neighbours of both.
            for (uint32_t i = 0; i < CHUNK; i++) {
                struct bf16 brain = {(uint16_t)i};
                struct fp16 half = {(uint16_t)i};
                uint32_t exact = f32_bits(form ? fp16_to_f32(half) : bf16_to_f32(brain));
                uint32_t half_step = form ? 1u << 12 : 1u << 15;
                for (uint32_t k = 0; k < 6; k++)
                    in[6 * i + k] = f32_of_bits(exact + (k < 3 ? 0 : half_step) + k % 3 - 1);
            }
            dtype_narrow(form ? DTYPE_FP16 : DTYPE_BF16, in, ours, CHUNK * 6);
            (form ? define_narrow_fp16 : define_narrow_bf16)(in, theirs, CHUNK * 6);
            for (size_t i = 0; i < CHUNK * 6; i++)
                cr_assert_eq(ours[i], theirs[i], "of 0x%08x: 0x%04x, reference 0x%04x", f32_bits(in[i]), ours[i],
                             theirs[i]);
        }
}

static void narrow_agrees_with_hardware(enum dtype dtype, uint64_t stride)
{
    bool brain = dtype == DTYPE_BF16;
    if (brain ? !hardware_has_bf16() : !hardware_has_fp16()) {
        printf("TEST SKIPPED: this processor does not round to %s\n", dtype_name(dtype));
        return;
    }
    for (EACH_ISA(isa))
        narrow_agrees(dtype, brain ? hardware_narrow_bf16 : hardware_narrow_fp16, stride,
                      brain && HARDWARE_BF16_FLUSHES);
}

Test(dtype, a_stride_of_all_fp32_values_narrows_to_fp16_as_the_hardware_does)
{
    narrow_agrees_with_hardware(DTYPE_FP16, 61);
}

Test(dtype, a_stride_of_all_fp32_values_narrows_to_bf16_as_the_hardware_does)
{
    narrow_agrees_with_hardware(DTYPE_BF16, 61);
}

Test(dtype, all_fp32_values_narrow_to_fp16_as_the_hardware_does_long, .timeout = 600)
{
    narrow_agrees_with_hardware(DTYPE_FP16, 1);
}

Test(dtype, all_fp32_values_narrow_to_bf16_as_the_hardware_does_long, .timeout = 600)
{
    narrow_agrees_with_hardware(DTYPE_BF16, 1);
}

Test(dtype, all_fp32_values_narrow_to_the_nearest_bf16_long, .timeout = 1200)
{
    for (EACH_ISA(isa))
        narrow_agrees(DTYPE_BF16, define_narrow_bf16, isa == 0 ? 1 : 61, false);
}

Test(dtype, the_single_conversions_are_those_of_the_loops)
{
    static float in[CHUNK];
    static struct bf16 brain[CHUNK];
    static struct fp16 half[CHUNK];
    for (uint32_t i = 0; i < CHUNK; i++)
        in[i] = f32_of_bits((uint32_t)random_at(1, i));
    dtype_narrow(DTYPE_BF16, in, brain, CHUNK);
    dtype_narrow(DTYPE_FP16, in, half, CHUNK);
    for (uint32_t i = 0; i < CHUNK; i++) {
        cr_assert_eq(f32_to_bf16(in[i]).bits, brain[i].bits);
        cr_assert_eq(f32_to_fp16(in[i]).bits, half[i].bits);
    }
}

// In every build, at lengths with a remainder, in place and not; NaN and subnormal numbers are among random patterns.
Test(dtype, values_rounded_as_floats_are_those_narrowed_and_widened)
{
    static float in[CHUNK], rounded[CHUNK], expected[CHUNK];
    static uint16_t narrow[CHUNK];
    for (uint32_t i = 0; i < CHUNK; i++)
        in[i] = f32_of_bits((uint32_t)random_at(2, i));
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++)
        for (EACH_ISA(isa)) {
            memcpy(expected, in, sizeof in);
            if (dtype != DTYPE_FP32) {
                dtype_narrow(dtype, in, narrow, CHUNK);
                dtype_widen(dtype, narrow, expected, CHUNK);
            }
            isa_kernels()->operand_round(dtype, CHUNK - 5, in, rounded);
            cr_assert(memcmp(rounded, expected, (CHUNK - 5) * sizeof *in) == 0, "%s, %s", dtype_name(dtype),
                      isa_name((enum isa)isa));
            memcpy(rounded, in, sizeof in);
            isa_kernels()->operand_round(dtype, CHUNK - 5, rounded, rounded);
            cr_assert(memcmp(rounded, expected, (CHUNK - 5) * sizeof *in) == 0, "%s, %s, in place", dtype_name(dtype),
                      isa_name((enum isa)isa));
        }
}

// Sums.

enum { SUM_COUNT = 2500, SUM_WORLD = 6 };
static const enum dtype FORMATS[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};

static float load(enum dtype dtype, const void *values, size_t i)
{
    float value;
    if (dtype == DTYPE_BF16)
        return bf16_to_f32(((const struct bf16 *)values)[i]);
    if (dtype == DTYPE_FP16)
        return fp16_to_f32(((const struct fp16 *)values)[i]);
    memcpy(&value, (const char *)values + 4 * i, sizeof value);
    return value;
}

// The bits of value rounded to dtype.
static uint32_t rounded(enum dtype dtype, float value)
{
    return dtype == DTYPE_BF16   ? f32_to_bf16(value).bits
           : dtype == DTYPE_FP16 ? f32_to_fp16(value).bits
                                 : f32_bits(value);
}

static uint32_t stored(enum dtype dtype, const void *values, size_t i)
{
    uint32_t bits = 0;
    memcpy(&bits, (const char *)values + i * dtype_bytes(dtype), dtype_bytes(dtype));
    return bits;
}

// Normal values of many magnitudes, with zeros and subnormals among them.
static void fill(enum dtype dtype, void *values, size_t count, uint64_t key)
{
    float wide[SUM_COUNT];
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_at(key, i);
        wide[i] = bits % 17 == 0 ? -0.0f : ldexpf(random_normal(bits), (int)(random_mix(bits) % 24) - 14);
    }
    dtype_narrow(dtype, wide, values, count);
}

struct fold_case {
    enum dtype in, out;
    int world, group, alias;  // group: as world, or less; alias: the rank whose input is the output, too; -1: none
    size_t count;
};

static float sum_plainly(const struct fold_case *c, const void *const inputs[], size_t i)
{
    float sum = 0;
    for (int first = 0; first < c->world; first += c->group) {
        float of_group = load(c->in, inputs[first], i);
        for (int rank = first + 1; rank < first + c->group; rank++)
            of_group = of_group + load(c->in, inputs[rank], i);
        sum = first == 0 ? of_group : sum + of_group;
    }
    return sum;
}

static void fold_is_a_left_fold(struct fold_case c)
{
    static float in[SUM_WORLD][SUM_COUNT + 1], out[SUM_COUNT + 1];
    const void *inputs[SUM_WORLD];
    void *output = (char *)out + dtype_bytes(c.out);  // off any vector's alignment
    uint32_t expected[SUM_COUNT];
    for (int rank = 0; rank < c.world; rank++) {
        void *values = (char *)in[rank] + dtype_bytes(c.in);
        if (rank == c.alias)
            output = values;
        fill(c.in, values, c.count, random_key((uint64_t)rank, c.count));
        inputs[rank] = values;
    }
    if (c.alias < 0)
        fill(c.out, output, c.count, random_key(99, c.count));
    for (size_t i = 0; i < c.count; i++)
        expected[i] = rounded(c.out, sum_plainly(&c, inputs, i));
    uint32_t beyond = stored(c.out, output, c.count);
    if (c.group == c.world)
        dtype_fold(c.in, inputs, c.world, c.out, output, c.count);
    else
        dtype_fold_groups(c.in, inputs, c.world, c.group, c.out, output, c.count);
    for (size_t i = 0; i < c.count; i++)
        cr_assert_eq(stored(c.out, output, i), expected[i],
                     "%s -> %s, world %d, groups of %d, alias %d, element %zu of %zu", dtype_name(c.in),
                     dtype_name(c.out), c.world, c.group, c.alias, i, c.count);
    cr_assert_eq(stored(c.out, output, c.count), beyond, "one element too many");
}

Test(dtype, a_fold_is_a_left_fold_of_groups_in_fp32_with_one_rounding)
{
    static const size_t counts[] = {0, 1, 7, 31, 67, 1023, 1024, 1025, SUM_COUNT - 1};
    static const int shapes[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {4, 2}, {6, 2}, {6, 3}, {5, 1}};
    for (EACH_ISA(isa))
        for (int formats = 0; formats < 9; formats++)
            for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
                for (int alias = -1; alias < shapes[shape][0]; alias++)
                    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                        enum dtype in = FORMATS[formats / 3], out = FORMATS[formats % 3];
                        if (alias < 0 || dtype_bytes(in) == dtype_bytes(out))
                            fold_is_a_left_fold(
                                (struct fold_case){in, out, shapes[shape][0], shapes[shape][1], alias, counts[k]});
                    }
}

// One output after the other is the input of a rank, or none is; nothing beyond the counts changes.
static void sum_goes_to_all(int world, size_t count, size_t shift, bool in_place)
{
    static float in[SUM_WORLD][SUM_COUNT + 1], apart[SUM_WORLD][SUM_COUNT + 1];
    const float *inputs[SUM_WORLD];
    float *outputs[SUM_WORLD], expected[SUM_COUNT], beyond[SUM_WORLD];
    struct fold_case c = {DTYPE_FP32, DTYPE_FP32, world, world, -1, count};
    for (int rank = 0; rank < world; rank++) {
        size_t from = (shift + (size_t)rank) % 5;
        fill(DTYPE_FP32, in[rank] + from, count, random_key((uint64_t)rank, count));
        inputs[rank] = in[rank] + from;
        outputs[rank] = (in_place ? in : apart)[rank] + from;
        beyond[rank] = outputs[rank][count];
    }
    for (size_t i = 0; i < count; i++)
        expected[i] = sum_plainly(&c, (const void *const *)inputs, i);
    dtype_sum_to_all(inputs, world, outputs, world, count, shift % 2 == 0);
    for (int rank = 0; rank < world; rank++) {
        cr_expect_arr_eq(outputs[rank], expected, count * sizeof *expected, "world %d, %zu elements", world, count);
        cr_expect_arr_eq(&outputs[rank][count], &beyond[rank], sizeof *beyond, "one element too many");
    }
}

Test(dtype, a_sum_to_all_is_the_left_fold_for_each)
{
    static const size_t counts[] = {0, 1, 7, 15, 16, 17, 31, 67, 1023, 1024, SUM_COUNT - 5};
    for (EACH_ISA(isa))
        for (int world = 1; world < SUM_WORLD; world++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                for (size_t shift = 0; shift < 5; shift++)
                    for (int in_place = 0; in_place < 2; in_place++)
                        sum_goes_to_all(world, counts[k], shift, in_place);
}

Test(dtype, the_order_of_ranks_changes_a_fold)
{
    const float a = 0x1p24f, b = 1, c = -0x1p24f;
    float out;
    dtype_fold(DTYPE_FP32, (const void *const[]){&a, &c, &b}, 3, DTYPE_FP32, &out, 1);
    cr_expect_eq(out, 1);
    dtype_fold(DTYPE_FP32, (const void *const[]){&a, &b, &c}, 3, DTYPE_FP32, &out, 1);
    cr_expect_eq(out, 0);
}

Test(dtype, accumulate_rounds_once_to_the_format_of_the_sum)
{
    static float sum[SUM_COUNT + 1], in[SUM_COUNT + 1];
    uint32_t expected[SUM_COUNT];
    for (EACH_ISA(isa))
        for (int to = 0; to < 3; to++)
            for (int from = 0; from < 3; from++)
                for (size_t count = 0; count <= SUM_COUNT - 1; count = count * 2 + 1) {
                    void *sums = (char *)sum + dtype_bytes(FORMATS[to]);
                    const void *values = (char *)in + dtype_bytes(FORMATS[from]);
                    fill(FORMATS[to], sums, count, random_key(5, count));
                    fill(FORMATS[from], (void *)(uintptr_t)values, count, random_key(6, count));
                    for (size_t i = 0; i < count; i++)
                        expected[i] = rounded(FORMATS[to], load(FORMATS[to], sums, i) + load(FORMATS[from], values, i));
                    dtype_accumulate(FORMATS[to], sums, FORMATS[from], values, count);
                    for (size_t i = 0; i < count; i++)
                        cr_assert_eq(stored(FORMATS[to], sums, i), expected[i], "%s += %s, element %zu of %zu",
                                     dtype_name(FORMATS[to]), dtype_name(FORMATS[from]), i, count);
                }
}

Test(dtype, no_elements_need_no_arrays)
{
    for (enum dtype dtype = DTYPE_FP32; dtype < DTYPE_BYTE; dtype++) {
        dtype_widen(dtype, NULL, NULL, 0);
        dtype_narrow(dtype, NULL, NULL, 0);
        dtype_accumulate(DTYPE_FP32, NULL, dtype, NULL, 0);
    }
}
