// SPDX-License-Identifier: Apache-2.0
// The table of kernels (isa.h) for one place: a GPU, or in tests the host.
#pragma once

#include "ref/cuda/array_kernels.cuh"
#include "ref/cuda/gpt_kernels.cuh"

template <typename place> constexpr struct isa_kernels isa_table()
{
    typedef array_kernels<place> arrays;
    typedef gpt_kernels<place> gpt;
    typedef stream_kernels<place> stream;
    return {
        .widen = arrays::widen,
        .narrow = arrays::narrow,
        .accumulate = arrays::accumulate,
        .fold = arrays::fold,
        .fold_groups = arrays::fold_groups,
        .sum_to_all = nullptr,  // of host memory alone
        .adam = arrays::adam,
        .norm_max = arrays::norm_max,
        .norm_accumulate = arrays::norm_accumulate,
        .matmul_rows = 0,  // products have their own place in struct accelerator
        .matmul_columns = 0,
        .matmul_pack = nullptr,
        .matmul_panels = nullptr,
        .matmul_registers = nullptr,
        .operand_round = gpt::operand_round,
        .bias_rows = nullptr,  // by layernorm_biases
        .bias_add = gpt::bias_add,
        .rows_sum = stream::rows_sum,
        .sums_finish = gpt::sums_finish,
        .layernorm_forward = nullptr,
        .layernorm_biases = gpt::layernorm_biases,
        .layernorm_apply = gpt::layernorm_apply,
        .layernorm_backward = stream::layernorm_backward,
        .stream_backward = stream::stream_backward,
        .gelu_forward = gpt::gelu_forward,
        .gelu_backward = gpt::gelu_backward,
        .attention_forward = gpt::attention_forward,
        .attention_backward = gpt::attention_backward,
        .embedding_forward = gpt::embedding_forward,
        .embedding_backward = gpt::embedding_backward,
        .crossentropy_forward = gpt::crossentropy_forward,
        .crossentropy_backward = gpt::crossentropy_backward,
        // A Llama computes in host memory alone.
        .rmsnorm_stats = nullptr,
        .rmsnorm_apply = nullptr,
        .rmsnorm_backward = nullptr,
        .rmsnorm_columns = nullptr,
        .rotary_turn = nullptr,
        .swiglu_forward = nullptr,
        .swiglu_backward = nullptr,
    };
}
