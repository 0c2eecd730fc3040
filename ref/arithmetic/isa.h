// SPDX-License-Identifier: Apache-2.0
// The kernels over arrays, in one build per instruction set: isa_scalar.c and isa_avx2.c, isa_avx512.c (x86-64) or
// isa_neon.c, isa_sve.c (aarch64) compile the same source text, dtype_kernel.h, adam_kernel.h, norm_kernel.h,
// matmul_kernel.h, gpt_kernel.h, gpt_attention_kernel.h and llama_kernel.h. All builds give the same bits, except that
// of two NaN operands either may survive, and that a NaN which an operation makes is negative on x86-64 and positive on
// aarch64. The process chooses one build at run time.
#pragma once

#include "ref/arithmetic/dtype_element.h"

struct adam_step;
struct attention_shape;
struct matmul_lines;
struct matmul_panels;
struct norm_biases;
struct norm_range;
struct norm_sum;
struct rotary;
struct stream_parts;
struct sum_place;
struct token_rows;

// Of this program's architecture, best last. Every aarch64 processor has NEON.
#if defined(__aarch64__)
enum isa { ISA_SCALAR, ISA_NEON, ISA_SVE, ISA_COUNT };
extern const struct isa_kernels isa_scalar, isa_neon, isa_sve;
#else
enum isa { ISA_SCALAR, ISA_AVX2, ISA_AVX512, ISA_COUNT };
extern const struct isa_kernels isa_scalar, isa_avx2, isa_avx512;
#endif

// Returns a name such as "scalar" or "avx512".
const char *isa_name(enum isa isa);

// Returns ERR_USAGE if the name is unknown or this processor lacks the instruction set.
int isa_parse(const char *name, enum isa *out);

// The best that this processor has, which is the default.
enum isa isa_best(void);

// Chooses the build for the whole process; this processor has the instruction set.
void isa_set(enum isa isa);
enum isa isa_now(void);

struct isa_kernels {
    void (*widen)(enum dtype dtype, const void *in, float *out, size_t count);
    void (*narrow)(enum dtype dtype, const float *in, void *out, size_t count);
    void (*accumulate)(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count);
    void (*fold)(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out, size_t count);
    void (*fold_groups)(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                        void *out, size_t count);
    // In host memory only.
    void (*sum_to_all)(const float *const in[], int world, float *const out[], int out_count, size_t count,
                       bool around_cache);
    void (*adam)(const struct adam_step *step);
    void (*norm_max)(enum dtype dtype, const struct norm_range *ranges, size_t range_count, uint32_t *results);
    void (*norm_accumulate)(struct norm_sum *sums, enum dtype dtype, const struct norm_range *ranges,
                            size_t range_count, uint32_t max_bits);
    // In host memory only: the largest tile of c, and what is done with packed operands (matmul_panel.h).
    size_t matmul_rows, matmul_columns;
    void (*matmul_pack)(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *panel);
    void (*matmul_panels)(const struct matmul_panels *panels);
    // The largest tile's fused multiply-adds of registers alone, k at a time: as fast as this processor makes them.
    // Returns k, what each chain adds to its first number; k <= 2^23.
    float (*matmul_registers)(size_t k);
    // gpt_math.h; layernorm_biases and stream_backward may be null, which are made in steps then
    void (*operand_round)(enum dtype dtype, size_t count, const float *in, void *out);
    void (*bias_rows)(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out);
    void (*bias_add)(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias, float *out);
    void (*rows_sum)(size_t row_count, size_t width, enum dtype dtype, const void *in, float *sum,
                     const struct sum_place *place);
    void (*sums_finish)(void);  // null: sums do not wait
    void (*layernorm_forward)(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                              const void *weight, const void *bias, void *out);
    void (*layernorm_biases)(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                             const void *weight, const void *bias, void *out, const struct norm_biases *biases);
    void (*layernorm_apply)(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                            const void *weight, const void *bias, void *out);
    void (*layernorm_backward)(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                               const void *weight, const void *out_gradient, float *in_gradient, float *sums,
                               const struct sum_place *places);
    void (*stream_backward)(size_t row_count, size_t width, enum dtype dtype, float *gradient, float *sums,
                            const struct stream_parts *parts);
    void (*gelu_forward)(size_t row_count, size_t width, const void *in, enum dtype dtype, const void *bias, void *out);
    void (*gelu_backward)(size_t row_count, size_t width, const void *in, const void *gradient, enum dtype dtype,
                          const void *bias, void *out, void *in_gradient, float *sum, const struct sum_place *place);
    void (*attention_forward)(const struct attention_shape *shape, const void *qkv, void *out, float *stats,
                              float *scratch);
    void (*attention_backward)(const struct attention_shape *shape, const void *qkv, const void *out, float *stats,
                               const void *out_gradient, void *qkv_gradient, float *scratch);
    void (*embedding_forward)(const struct token_rows *rows, size_t width, enum dtype dtype, const void *token_weight,
                              const void *position_weight, float *out);
    void (*embedding_backward)(const struct token_rows *rows, size_t width, size_t first_token, size_t token_count,
                               const float *in, float *sums, const struct sum_place *places);
    double (*crossentropy_forward)(const struct token_rows *rows, size_t width, size_t stride, void *logits,
                                   float *stats, float scale, enum dtype dtype);
    void (*crossentropy_backward)(const struct token_rows *rows, size_t width, size_t stride, const float *stats,
                                  float scale, enum dtype dtype, void *logits);
    // llama_math.h; no accelerator has these
    void (*rmsnorm_stats)(size_t row_count, size_t width, const float *in, float *stats);
    void (*rmsnorm_apply)(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                          const void *weight, void *out);
    void (*rmsnorm_backward)(size_t row_count, size_t width, const float *in, const float *stats, const void *weight,
                             const float *out_gradient, float *in_gradient);
    void (*rmsnorm_columns)(size_t row_count, size_t width, size_t first, size_t count, const float *in,
                            const float *stats, const float *out_gradient, float *weight_gradient);
    void (*rotary_turn)(const struct rotary *rotary, float sign, size_t first_row, size_t row_count, float *rows);
    void (*swiglu_forward)(size_t count, const float *gate, const float *up, enum dtype dtype, void *out);
    void (*swiglu_backward)(size_t count, enum dtype dtype, float *gate, float *up, float *out_gradient);
};

// The kernels of the including file's build.
#define ISA_KERNELS                                                                                                    \
    {                                                                                                                  \
        .widen = kernel_widen, .narrow = kernel_narrow, .accumulate = kernel_accumulate, .fold = kernel_fold,          \
        .fold_groups = kernel_fold_groups, .sum_to_all = kernel_sum_to_all, .adam = kernel_adam,                       \
        .norm_max = kernel_norm_max, .norm_accumulate = kernel_norm_accumulate, .matmul_rows = TILE_ROWS,              \
        .matmul_columns = TILE_COLUMNS, .matmul_pack = kernel_matmul_pack, .matmul_panels = kernel_matmul_panels,      \
        .matmul_registers = kernel_matmul_registers, .operand_round = kernel_operand_round,                            \
        .bias_rows = kernel_bias_rows, .bias_add = kernel_bias_add, .rows_sum = kernel_rows_sum,                       \
        .layernorm_forward = kernel_layernorm_forward, .layernorm_apply = kernel_layernorm_apply,                      \
        .layernorm_backward = kernel_layernorm_backward, .gelu_forward = kernel_gelu_forward,                          \
        .gelu_backward = kernel_gelu_backward, .attention_forward = kernel_attention_forward,                          \
        .attention_backward = kernel_attention_backward, .embedding_forward = kernel_embedding_forward,                \
        .embedding_backward = kernel_embedding_backward, .crossentropy_forward = kernel_crossentropy_forward,          \
        .crossentropy_backward = kernel_crossentropy_backward, .rmsnorm_stats = kernel_rmsnorm_stats,                  \
        .rmsnorm_apply = kernel_rmsnorm_apply, .rmsnorm_backward = kernel_rmsnorm_backward,                            \
        .rmsnorm_columns = kernel_rmsnorm_columns, .rotary_turn = kernel_rotary_turn,                                  \
        .swiglu_forward = kernel_swiglu_forward, .swiglu_backward = kernel_swiglu_backward                             \
    }

// Returns the kernels of isa_now().
const struct isa_kernels *isa_kernels(void);

// Returns the kernels of one instruction set; null if this processor lacks it.
const struct isa_kernels *isa_kernels_of(enum isa isa);

// Returns the kernels for an array at that address: the accelerator's if the memory is its own (accelerator.h), else
// those of isa_now().
const struct isa_kernels *isa_kernels_at(const void *address);
