// SPDX-License-Identifier: Apache-2.0
// The operations of a core alone: the optimizer's step of a recipe, conversions, the rows of a transformer, products.
#include "validate/health/operation.h"

#include "base/err.h"
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/matmul.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(float *out, size_t count, uint64_t key, float scale)
{
    for (size_t i = 0; i < count; i++)
        out[i] = scale * random_normal(random_at(key, i));
}

static const struct recipe *recipe_of(uint64_t seed)
{
    uint64_t count = 0;
    while (recipe_at((int)count))
        count++;
    return recipe_at((int)random_below(random_key(seed, 7), count));
}

// Steps 1 to 3 of one tensor: the states of a step are the next one's.
static int run_adam(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                    void *result)
{
    const size_t count = HEALTH_ADAM_COUNT;
    const struct isa_kernels *kernels = isa_kernels_of((enum isa)operation->variant);
    float *param = result, *m = param + count, *v = m + count, *grad = malloc(count * sizeof *grad);
    if (!grad)
        return err_set(ERR_MEMORY, "out of memory for a gradient");
    fill(param, count, random_key(seed, 1), 1);
    memset(m, 0, 2 * count * sizeof *m);
    struct adam_step step = {.recipe = recipe_of(seed),
                             .grad = grad,
                             .grad_dtype = DTYPE_FP32,
                             .grad_divisor = 3,
                             .grad_coefficient = 0.7f,
                             .param = param,
                             .exp_avg = m,
                             .exp_avg_sq = v,
                             .model_params = v + count,
                             .model_dtype = DTYPE_BF16,
                             .count = count,
                             .tensor_count = count};
    const struct adam_hyper hyper = {.lr = 1e-3,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .eps = 1e-8,
                                     .weight_decay = 0.01,
                                     .decoupled = true,
                                     .bias_correction = true};
    struct recipe_state state = {0};
    int code = ERR_NONE;
    for (uint64_t t = 1; t <= 3 && code == ERR_NONE; t++) {
        fill(grad, count, random_key(seed, 10 + t), 0.01f);
        code = recipe_begin_step(step.recipe, &hyper, t, &state, &step.scalars);
        if (code == ERR_NONE)
            kernels->adam(&step);
    }
    free(grad);
    health_spoil(operation, place, result, operation->result_bytes);
    return code;
}

// Every value to fp16 and back, and to bf16 and back.
static int run_formats(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                       void *result)
{
    const size_t count = HEALTH_FORMAT_COUNT;
    float *wide = result;
    const struct isa_kernels *kernels = isa_kernels_of((enum isa)operation->variant);
    const enum dtype formats[] = {DTYPE_FP16, DTYPE_BF16};
    void *narrow = malloc(count * 2);
    if (!narrow)
        return err_set(ERR_MEMORY, "out of memory for %zu values", count);
    for (int f = 0; f < 2; f++, wide += count) {
        fill(wide, count, random_key(seed, (uint64_t)f), 100);
        kernels->narrow(formats[f], wide, narrow, count);
        kernels->widen(formats[f], narrow, wide, count);
    }
    free(narrow);
    health_spoil(operation, place, result, operation->result_bytes);
    return ERR_NONE;
}

// Layer norm and GELU of each row, and attention of the rows, a third of which are queries, keys and values.
static int run_rows(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                    void *result)
{
    const size_t rows = HEALTH_ROWS, width = HEALTH_WIDTH;
    const struct attention_shape attention = {1, rows, width / 3, 1, DTYPE_FP32, 0};
    size_t stats_count = 2 * rows, scratch_count = attention_scratch_count(&attention);
    float *x = malloc((rows * width + stats_count + 2 * width + scratch_count) * sizeof *x);
    if (!x)
        return err_set(ERR_MEMORY, "out of memory for %zu rows", rows);
    float *stats = x + rows * width, *weight = stats + stats_count, *scratch = weight + 2 * width;
    fill(x, rows * width, random_key(seed, 1), 2);
    fill(weight, 2 * width, random_key(seed, 2), 1);
    const struct isa_kernels *kernels = isa_kernels_of((enum isa)operation->variant);
    kernels->layernorm_forward(rows, width, x, stats, DTYPE_FP32, weight, weight + width, result);
    kernels->gelu_forward(rows, width, result, DTYPE_FP32, weight, x);
    memcpy(result, x, rows * width * sizeof *x);
    kernels->attention_forward(&attention, x, result, stats, scratch);
    free(x);
    health_spoil(operation, place, result, operation->result_bytes);
    return ERR_NONE;
}

static int run_products(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                        void *result)
{
    const size_t side = HEALTH_PRODUCT_SIDE, count = side * side;
    float *a = malloc(2 * count * sizeof *a), *b = a + count;
    if (!a)
        return err_set(ERR_MEMORY, "out of memory for matrices");
    fill(a, 2 * count, random_key(seed, 1), 1);
    matmul_by(isa_kernels_of((enum isa)operation->variant), &(struct matmul_product){.m = side,
                                                                                     .n = side,
                                                                                     .k = side,
                                                                                     .alpha = 1,
                                                                                     .a = {a, side, false},
                                                                                     .b = {b, side, true},
                                                                                     .c = result,
                                                                                     .c_stride = side});
    free(a);
    health_spoil(operation, place, result, operation->result_bytes);
    return ERR_NONE;
}

const char *health_lane_name(enum health_lane lane)
{
    static const char *const names[HEALTH_LANE_COUNT] = {"compute", "memory", "disk", "collective"};
    assert((unsigned)lane < HEALTH_LANE_COUNT);
    return names[lane];
}

// One row for each instruction set: their bits are the same, so that each also checks the others.
static size_t add_variants(const struct health_operation *operation, char names[ISA_COUNT][HEALTH_NAME_BYTES],
                           struct health_operation *out)
{
    size_t count = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_kernels_of((enum isa)isa))
            continue;
        snprintf(names[isa], HEALTH_NAME_BYTES, "%s, %s", operation->name, isa_name((enum isa)isa));
        out[count] = *operation;
        out[count].name = names[isa];
        out[count++].variant = isa;
    }
    return count;
}

size_t health_operations(bool with_disk, struct health_operation out[HEALTH_OPERATION_MAX])
{
    static char adam[ISA_COUNT][HEALTH_NAME_BYTES], formats[ISA_COUNT][HEALTH_NAME_BYTES];
    static char rows[ISA_COUNT][HEALTH_NAME_BYTES], products[ISA_COUNT][HEALTH_NAME_BYTES];
    const size_t digests = (size_t)HEALTH_DIGEST_BYTES;
    const struct health_operation variants[] = {
        {"Adam", HEALTH_COMPUTE, HEALTH_ADAM_COUNT * (size_t)HEALTH_ADAM_BYTES, 4, 0, 0,
         "d655fe06ef298ac98d235e8d26281f60", run_adam},
        {"formats", HEALTH_COMPUTE, HEALTH_FORMAT_COUNT * 8, 4, 0, 0, "875550814f54bbbfb77009a1e4fff072", run_formats},
        {"rows", HEALTH_COMPUTE, HEALTH_ROWS * HEALTH_WIDTH * 4, 4, 0, 0, "62f3db8808271a27857c373883e2c457", run_rows},
        {"products", HEALTH_COMPUTE, HEALTH_PRODUCT_SIDE * HEALTH_PRODUCT_SIDE * 4, 4, 0, 0,
         "4965f6a76278acfc351f04962a27fe6a", run_products},
    };
    char(*const names[])[HEALTH_NAME_BYTES] = {adam, formats, rows, products};
    const struct health_operation rest[] = {
        {"memory", HEALTH_MEMORY, HEALTH_MEMORY_BYTES / HEALTH_BLOCK_BYTES * digests, digests,
         2 * (uint64_t)HEALTH_MEMORY_BYTES, 0, "3065a6bea02adf5dc7ea73b60072d012", health_memory},
        {"collective", HEALTH_COLLECTIVE, 2 * (size_t)HEALTH_SHARD_COUNT * 4, 4, 4 * (uint64_t)HEALTH_SHARD_COUNT * 4,
         0, "6767b133252b5ed0734d2a659a5b3db4", health_collective},
        {"training", HEALTH_COMPUTE, HEALTH_TEXT_BYTES, HEALTH_TEXT_BYTES, 0, 0, "ab6dee3ce6904620f6f0dd887c37e556",
         health_training},
        {"disk", HEALTH_DISK, HEALTH_FILE_BYTES / HEALTH_BLOCK_BYTES * digests, digests,
         2 * (uint64_t)HEALTH_FILE_BYTES, 0, "cc5019b728cad872f98491fb88778ca5", health_disk},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        count += add_variants(&variants[i], names[i], out + count);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        if (rest[i].lane != HEALTH_DISK || with_disk)
            out[count++] = rest[i];
    assert(count <= HEALTH_OPERATION_MAX);
    return count;
}

void health_spoil(const struct health_operation *operation, const struct health_place *place, void *memory,
                  size_t bytes)
{
    const struct health_flip *flip = place->flip;
    if (flip && flip->core == place->core && strcmp(flip->operation, operation->name) == 0 &&
        (flip->round == 0 || (flip->round == place->round && place->attempt == 0)))
        ((unsigned char *)memory)[bytes / 2] ^= 0x10;
}
