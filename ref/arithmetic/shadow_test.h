// SPDX-License-Identifier: Apache-2.0
// A simulated accelerator, for tests. It maps its memory twice: callers get an inaccessible address, so that an access
// by the host faults, and its kernels, those of isa_scalar.c, work on an accessible shadow. A kernel that gets host
// memory aborts, as a kernel on a GPU would fault.
#pragma once

#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/matmul.h"
#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/norm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SHADOW_MAX = 1024 };

// State that tests read: allocations, counts of calls, and the device of each thread.
static struct {
    pthread_mutex_t lock;
    struct {
        uintptr_t begin, bytes;
        char *shadow;
    } blocks[SHADOW_MAX];
    int block_count;
    size_t locked_bytes;
    int lock_count, unlock_count;
} shadow = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local int shadow_device = -1, shadow_code;

static void *shadow_find(const void *address)
{
    void *found = NULL;
    pthread_mutex_lock(&shadow.lock);
    for (int i = 0; i < shadow.block_count && !found; i++)
        if ((uintptr_t)address - shadow.blocks[i].begin < shadow.blocks[i].bytes)
            found = shadow.blocks[i].shadow + ((uintptr_t)address - shadow.blocks[i].begin);
    pthread_mutex_unlock(&shadow.lock);
    return found;
}

// Returns the shadow of an address, which may be null.
static void *at(const void *address)
{
    void *found = shadow_find(address);
    if (address && !found) {
        fprintf(stderr, "a kernel of the accelerator got memory that is not the accelerator's\n");
        abort();
    }
    return found;
}

static int shadow_enter(int device)
{
    shadow_device = device;
    return ERR_NONE;
}

static int shadow_allocate(size_t bytes, void **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (bytes + page - 1) / page * page;
    int file = memfd_create("shadow", 0);
    if (shadow_device < 0 || file < 0 || ftruncate(file, (off_t)mapped) != 0)
        return err_set(ERR_INTERNAL, "no shadow: the thread has not entered, or there is no memory");
    char *address = mmap(NULL, mapped, PROT_NONE, MAP_SHARED, file, 0);
    char *work = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    pthread_mutex_lock(&shadow.lock);
    bool full = shadow.block_count == SHADOW_MAX;
    if (!full) {
        shadow.blocks[shadow.block_count].begin = (uintptr_t)address;
        shadow.blocks[shadow.block_count].bytes = mapped;
        shadow.blocks[shadow.block_count++].shadow = work;
    }
    pthread_mutex_unlock(&shadow.lock);
    *out = address;
    return full ? err_set(ERR_INTERNAL, "more than %d shadows", SHADOW_MAX) : ERR_NONE;
}

static int shadow_release(void *memory)
{
    pthread_mutex_lock(&shadow.lock);
    for (int i = 0; i < shadow.block_count; i++)
        if (shadow.blocks[i].begin == (uintptr_t)memory) {
            munmap(memory, shadow.blocks[i].bytes);
            munmap(shadow.blocks[i].shadow, shadow.blocks[i].bytes);
            shadow.blocks[i] = shadow.blocks[--shadow.block_count];
            break;
        }
    pthread_mutex_unlock(&shadow.lock);
    return ERR_NONE;
}

static int shadow_lock(void *memory, size_t bytes)
{
    (void)memory;
    pthread_mutex_lock(&shadow.lock);
    shadow.locked_bytes += bytes;
    shadow.lock_count++;
    pthread_mutex_unlock(&shadow.lock);
    return ERR_NONE;
}

static int shadow_unlock(void *memory)
{
    (void)memory;
    pthread_mutex_lock(&shadow.lock);
    shadow.unlock_count++;
    pthread_mutex_unlock(&shadow.lock);
    return ERR_NONE;
}

static int shadow_copy(void *to, const void *from, size_t bytes)
{
    void *there = shadow_find(to);
    const void *here = shadow_find(from);
    memcpy(there ? there : to, here ? here : from, bytes);
    return shadow_code == ERR_NONE || (there && here) ? ERR_NONE : err_set(shadow_code, "the shadow has failed");
}

static int shadow_fill(void *memory, uint32_t word, size_t bytes)
{
    char *to = at(memory);
    for (size_t i = 0; i < bytes; i += sizeof word)
        memcpy(to + i, &word, sizeof word);
    return ERR_NONE;
}

// A test makes the next wait of its thread fail by setting shadow_code.
static int shadow_wait(void)
{
    int code = shadow_code;
    shadow_code = ERR_NONE;
    return code == ERR_NONE ? ERR_NONE : err_set(code, "the shadow has failed");
}

static void shadow_widen(enum dtype dtype, const void *in, float *out, size_t count)
{
    isa_scalar.widen(dtype, at(in), at(out), count);
}

static void shadow_narrow(enum dtype dtype, const float *in, void *out, size_t count)
{
    isa_scalar.narrow(dtype, at(in), at(out), count);
}

static void shadow_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
{
    isa_scalar.accumulate(sum_dtype, at(sum), in_dtype, at(in), count);
}

static void shadow_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                        size_t count)
{
    const void *there[world];
    for (int rank = 0; rank < world; rank++)
        there[rank] = at(in[rank]);
    isa_scalar.fold(in_dtype, there, world, out_dtype, at(out), count);
}

static void shadow_fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                               void *out, size_t count)
{
    const void *there[world];
    for (int rank = 0; rank < world; rank++)
        there[rank] = at(in[rank]);
    isa_scalar.fold_groups(in_dtype, there, world, group, out_dtype, at(out), count);
}

static void shadow_adam(const struct adam_step *step)
{
    struct adam_step there = *step;
    there.grad = at(step->grad);
    there.param = at(step->param);
    there.exp_avg = at(step->exp_avg);
    there.exp_avg_sq = at(step->exp_avg_sq);
    there.model_params = at(step->model_params);
    isa_scalar.adam(&there);
}

static void shadow_norm_max(enum dtype dtype, const struct norm_range *ranges, size_t range_count, uint32_t *results)
{
    for (const struct norm_range *r = ranges; r < ranges + range_count; r++)
        isa_scalar.norm_max(dtype, &(struct norm_range){at(r->values), r->count, r->into}, 1, results);
}

static void shadow_norm_accumulate(struct norm_sum *sums, enum dtype dtype, const struct norm_range *ranges,
                                   size_t range_count, uint32_t max_bits)
{
    for (const struct norm_range *r = ranges; r < ranges + range_count; r++)
        isa_scalar.norm_accumulate(sums, dtype, &(struct norm_range){at(r->values), r->count, r->into}, 1, max_bits);
}

// A GPT's kernels and matrix products. Their operands have the format itself; those of isa_scalar.c, which does the
// work, are floats.
struct shadow_operand {
    enum dtype dtype;
    void *there;
    float *floats;
    size_t count;
};

static struct shadow_operand shadow_open(enum dtype dtype, const void *address, size_t count)
{
    struct shadow_operand operand = {dtype, at(address), at(address), count};
    if (dtype != DTYPE_FP32) {
        operand.floats = malloc((count + 1) * sizeof(float));
        isa_scalar.widen(dtype, operand.there, operand.floats, count);
    }
    return operand;
}

static void shadow_close(struct shadow_operand *operand, bool is_written)
{
    if (operand->dtype == DTYPE_FP32)
        return;
    if (is_written)
        isa_scalar.narrow(operand->dtype, operand->floats, operand->there, operand->count);
    free(operand->floats);
}

static size_t shadow_span(struct matmul_operand operand, size_t rows, size_t columns)
{
    return operand.transposed ? (columns - 1) * operand.stride + rows : (rows - 1) * operand.stride + columns;
}

static void shadow_matmul(const struct matmul_product *product)
{
    size_t m = product->m, n = product->n, k = product->k;
    const struct matmul_operand result = {product->c, product->c_stride, false};
    struct shadow_operand a = shadow_open(product->dtype, product->a.data, shadow_span(product->a, m, k));
    struct shadow_operand b = shadow_open(product->dtype, product->b.data, shadow_span(product->b, k, n));
    struct shadow_operand c =
        shadow_open(product->c_is_operand ? product->dtype : DTYPE_FP32, product->c, shadow_span(result, m, n));
    struct matmul_product there = *product;
    there.a.data = a.floats;
    there.b.data = b.floats;
    there.c = c.floats;
    matmul(&there);
    shadow_close(&a, false);
    shadow_close(&b, false);
    shadow_close(&c, true);
}

// Changes the last element of a product's result.
static inline void shadow_spoil(const struct matmul_product *product)
{
    size_t last = (product->m - 1) * product->c_stride + product->n - 1;
    if (product->c_is_operand && product->dtype != DTYPE_FP32)
        ((uint16_t *)at(product->c))[last] ^= 0x4000;
    else
        ((float *)at(product->c))[last] += 1;
}

static void shadow_operand_round(enum dtype dtype, size_t count, const float *in, void *out)
{
    isa_scalar.narrow(dtype, at(in), at(out), count);
}

static void shadow_bias_rows(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out)
{
    struct shadow_operand from = shadow_open(dtype, bias, width), operand = shadow_open(dtype, out, row_count * width);
    isa_scalar.bias_rows(row_count, width, dtype, from.floats, operand.floats);
    shadow_close(&from, false);
    shadow_close(&operand, true);
}

static void shadow_bias_add(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias,
                            float *out)
{
    struct shadow_operand from = shadow_open(dtype, bias, width);
    isa_scalar.bias_add(row_count, width, at(in), dtype, from.floats, at(out));
    shadow_close(&from, false);
}

// Places of sums, as the host reaches them.
struct shadow_places {
    struct sum_place places[2];
};

static struct shadow_places shadow_places_of(const struct sum_place *places, int count)
{
    struct shadow_places here = {0};
    for (int i = 0; i < count && places; i++)
        here.places[i] = (struct sum_place){places[i].dtype, places[i].add, places[i].data ? at(places[i].data) : NULL};
    return here;
}

static void shadow_rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *in, float *sum,
                            const struct sum_place *place)
{
    struct shadow_operand operand = shadow_open(dtype, in, row_count * width);
    const struct shadow_places to = shadow_places_of(place, 1);
    isa_scalar.rows_sum(row_count, width, dtype, operand.floats, at(sum), to.places);
    shadow_close(&operand, false);
}

static void shadow_layernorm_forward(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                                     const void *weight, const void *bias, void *out)
{
    struct shadow_operand scale = shadow_open(dtype, weight, width), shift = shadow_open(dtype, bias, width);
    struct shadow_operand operand = shadow_open(dtype, out, row_count * width);
    isa_scalar.layernorm_forward(row_count, width, at(in), at(stats), dtype, scale.floats, shift.floats,
                                 operand.floats);
    shadow_close(&scale, false);
    shadow_close(&shift, false);
    shadow_close(&operand, true);
}

static void shadow_layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats,
                                   enum dtype dtype, const void *weight, const void *bias, void *out)
{
    struct shadow_operand scale = shadow_open(dtype, weight, width), shift = shadow_open(dtype, bias, width);
    struct shadow_operand operand = shadow_open(dtype, out, row_count * width);
    isa_scalar.layernorm_apply(row_count, width, at(in), at(stats), dtype, scale.floats, shift.floats, operand.floats);
    shadow_close(&scale, false);
    shadow_close(&shift, false);
    shadow_close(&operand, true);
}

static void shadow_layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats,
                                      enum dtype dtype, const void *weight, const void *out_gradient,
                                      float *in_gradient, float *sums, const struct sum_place *places)
{
    struct shadow_operand scale = shadow_open(dtype, weight, width);
    struct shadow_operand from = shadow_open(dtype, out_gradient, row_count * width);
    const struct shadow_places to = shadow_places_of(places, 2);
    isa_scalar.layernorm_backward(row_count, width, at(in), at(stats), dtype, scale.floats, from.floats,
                                  at(in_gradient), at(sums), to.places);
    shadow_close(&scale, false);
    shadow_close(&from, false);
}

static void shadow_gelu_forward(size_t row_count, size_t width, const void *in, enum dtype dtype, const void *bias,
                                void *out)
{
    struct shadow_operand from = shadow_open(dtype, in, row_count * width);
    struct shadow_operand shift = shadow_open(dtype, bias, width), value = shadow_open(dtype, out, row_count * width);
    isa_scalar.gelu_forward(row_count, width, from.floats, dtype, shift.floats, value.floats);
    shadow_close(&from, false);
    shadow_close(&shift, false);
    shadow_close(&value, true);
}

static void shadow_gelu_backward(size_t row_count, size_t width, const void *in, const void *gradient, enum dtype dtype,
                                 const void *bias, void *out, void *in_gradient, float *sum,
                                 const struct sum_place *place)
{
    const struct shadow_places to = shadow_places_of(place, 1);
    struct shadow_operand shift = shadow_open(dtype, bias, width), value = shadow_open(dtype, out, row_count * width);
    struct shadow_operand from = shadow_open(dtype, in, row_count * width);
    struct shadow_operand out_gradient = shadow_open(dtype, gradient, row_count * width);
    struct shadow_operand product = shadow_open(dtype, in_gradient, row_count * width);
    isa_scalar.gelu_backward(row_count, width, from.floats, out_gradient.floats, dtype, shift.floats, value.floats,
                             product.floats, sum ? at(sum) : NULL, to.places);
    shadow_close(&from, false);
    shadow_close(&out_gradient, false);
    shadow_close(&shift, false);
    shadow_close(&value, true);
    shadow_close(&product, true);
}

static size_t shadow_attention_rows(const struct attention_shape *shape)
{
    return shape->sequence_count * shape->sequence_length * shape->width;
}

static void shadow_attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats,
                                     float *scratch)
{
    size_t count = shadow_attention_rows(shape);
    struct shadow_operand in = shadow_open(shape->dtype, qkv, 3 * count), to = shadow_open(shape->dtype, out, count);
    isa_scalar.attention_forward(shape, in.floats, to.floats, at(stats), at(scratch));
    shadow_close(&in, false);
    shadow_close(&to, true);
}

static void shadow_attention_backward(const struct attention_shape *shape, const void *qkv, const void *out,
                                      float *stats, const void *out_gradient, void *qkv_gradient, float *scratch)
{
    size_t count = shadow_attention_rows(shape);
    struct shadow_operand in = shadow_open(shape->dtype, qkv, 3 * count), of = shadow_open(shape->dtype, out, count);
    struct shadow_operand g = shadow_open(shape->dtype, out_gradient, count);
    struct shadow_operand to = shadow_open(shape->dtype, qkv_gradient, 3 * count);
    isa_scalar.attention_backward(shape, in.floats, of.floats, at(stats), g.floats, to.floats, at(scratch));
    shadow_close(&in, false);
    shadow_close(&of, false);
    shadow_close(&g, false);
    shadow_close(&to, true);
}

static void shadow_embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype,
                                     const void *token_weight, const void *position_weight, float *out)
{
    isa_scalar.embedding_forward(rows, width, dtype, at(token_weight), at(position_weight), at(out));
}

static void shadow_embedding_backward(const struct token_rows *rows, size_t width, size_t first_token,
                                      size_t token_count, const float *in, float *sums, const struct sum_place *places)
{
    const struct shadow_places to = shadow_places_of(places, 2);
    isa_scalar.embedding_backward(rows, width, first_token, token_count, at(in), at(sums), to.places);
}

// Operands take the beginning of their rows.
static double shadow_crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride, void *logits,
                                          float *stats, float scale, enum dtype dtype)
{
    struct shadow_operand row = shadow_open(dtype, logits, rows->sequence_count * rows->length * stride);
    double loss = isa_scalar.crossentropy_forward(rows, width, stride, row.floats, at(stats), scale, dtype);
    shadow_close(&row, scale != 0.0f);
    return loss;
}

static void shadow_crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats,
                                         float scale, enum dtype dtype, void *logits)
{
    struct shadow_operand row = shadow_open(dtype, logits, rows->sequence_count * rows->length * stride);
    isa_scalar.crossentropy_backward(rows, width, stride, at(stats), scale, dtype, row.floats);
    shadow_close(&row, true);
}

static const struct isa_kernels shadow_kernels = {
    .widen = shadow_widen,
    .narrow = shadow_narrow,
    .accumulate = shadow_accumulate,
    .fold = shadow_fold,
    .fold_groups = shadow_fold_groups,
    .adam = shadow_adam,
    .norm_max = shadow_norm_max,
    .norm_accumulate = shadow_norm_accumulate,
    .operand_round = shadow_operand_round,
    .bias_rows = shadow_bias_rows,
    .bias_add = shadow_bias_add,
    .rows_sum = shadow_rows_sum,
    .layernorm_forward = shadow_layernorm_forward,
    .layernorm_apply = shadow_layernorm_apply,
    .layernorm_backward = shadow_layernorm_backward,
    .gelu_forward = shadow_gelu_forward,
    .gelu_backward = shadow_gelu_backward,
    .attention_forward = shadow_attention_forward,
    .attention_backward = shadow_attention_backward,
    .embedding_forward = shadow_embedding_forward,
    .embedding_backward = shadow_embedding_backward,
    .crossentropy_forward = shadow_crossentropy_forward,
    .crossentropy_backward = shadow_crossentropy_backward,
};

static const struct accelerator shadow_accelerator = {
    .name = "shadow",
    .kernels = &shadow_kernels,
    .enter = shadow_enter,
    .allocate = shadow_allocate,
    .release = shadow_release,
    .lock = shadow_lock,
    .unlock = shadow_unlock,
    .copy = shadow_copy,
    .fill = shadow_fill,
    .wait = shadow_wait,
    .matmul = shadow_matmul,
};
