// SPDX-License-Identifier: Apache-2.0
// The entries of struct isa_kernels for arrays. The template parameter `where` runs the threads of a loop:
//   run(operation, count, wide, what)                     calls operation.at(i) for every element
//   max(norm_max_operation, ranges, uint32_t found[])     finds the largest of the threads' maxima, of each range
//   sum(norm_operation, ranges, norm_sum found[])         finds the sum of the threads' sums
//   list(inputs, count) -> const void *const *            copies pointers for the threads; null: an error is noted
//   unlist(list)                                          releases it; called after the loop that reads it has begun
#pragma once

#include "ref/cuda/array_element.cuh"

#include <assert.h>

template <typename where> struct array_kernels {
    template <enum dtype in_dtype>
    static void fold_from(const void *const in[], int world, int group, enum dtype out_dtype, void *out, size_t count,
                          bool add)
    {
        fold_operation<in_dtype> o = {};
        bool wide = is_wide(out_dtype, out);
        for (int rank = 0; rank < world; rank++)
            wide = wide && is_wide(in_dtype, in[rank]);
        if (world <= FOLD_INPUTS)
            memcpy(o.some, in, (size_t)world * sizeof *in);
        else if (!(o.many = where::list(in, (size_t)world)))
            return;
        o.world = world;
        o.group = group;
        o.out_dtype = out_dtype;
        o.out = out;
        o.add = add;
        where::run(o, count, wide, "a fold");
        if (o.many)
            where::unlist(o.many);
    }

    static void fold_from_any(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                              void *out, size_t count, bool add)
    {
        assert(in_dtype != DTYPE_BYTE && out_dtype != DTYPE_BYTE && world % group == 0);
        if (in_dtype == DTYPE_FP32)
            fold_from<DTYPE_FP32>(in, world, group, out_dtype, out, count, add);
        else if (in_dtype == DTYPE_BF16)
            fold_from<DTYPE_BF16>(in, world, group, out_dtype, out, count, add);
        else
            fold_from<DTYPE_FP16>(in, world, group, out_dtype, out, count, add);
    }

    static void fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                            void *out, size_t count)
    {
        fold_from_any(in_dtype, in, world, group, out_dtype, out, count, false);
    }

    static void fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                     size_t count)
    {
        fold_groups(in_dtype, in, world, world, out_dtype, out, count);
    }

    static void widen(enum dtype dtype, const void *in, float *out, size_t count)
    {
        if (in != out)
            fold(dtype, &in, 1, DTYPE_FP32, out, count);
    }

    static void narrow(enum dtype dtype, const float *in, void *out, size_t count)
    {
        const void *inputs[] = {in};
        if (in != out)
            fold(DTYPE_FP32, inputs, 1, dtype, out, count);
    }

    static void accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
    {
        fold_from_any(in_dtype, &in, 1, 1, sum_dtype, sum, count, true);
    }

    template <enum recipe_family family, enum recipe_fusion fusion> static void adam_run(const struct adam_step *step)
    {
        adam_operation<family, fusion> o = {*step, 1.0f / step->grad_divisor,
                                            !adam_divides_exactly(step->grad_divisor)};
        where::run(o, step->count, is_wide_step(step), "an optimizer step");
    }

    template <enum recipe_family family> static void adam_fused(enum recipe_fusion fusion, const struct adam_step *step)
    {
        if (fusion == FUSE_NONE)
            adam_run<family, FUSE_NONE>(step);
        else if (fusion == FUSE_MOMENT)
            adam_run<family, FUSE_MOMENT>(step);
        else
            adam_run<family, FUSE_GRADIENT>(step);
    }

    // Updates elements [begin, end) of the step.
    static void adam_range(const struct adam_step *step, enum recipe_fusion fusion, size_t begin, size_t end)
    {
        struct adam_step part = *step;
        part.grad = (const char *)step->grad + begin * dtype_bytes(step->grad_dtype);
        part.param += begin;
        part.exp_avg += begin;
        part.exp_avg_sq += begin;
        if (step->model_params)
            part.model_params = (char *)step->model_params + begin * dtype_bytes(step->model_dtype);
        part.count = end - begin;
        switch (step->recipe->family) {
        case RECIPE_TORCH:
            adam_fused<RECIPE_TORCH>(fusion, &part);
            break;
        case RECIPE_DEEPSPEED:
            adam_fused<RECIPE_DEEPSPEED>(fusion, &part);
            break;
        case RECIPE_TORCH_CUDA_FOREACH:
        case RECIPE_TORCH_CAPTURABLE_SINGLE:
            adam_run<RECIPE_TORCH_CUDA_FOREACH, FUSE_GRADIENT>(&part);
            break;
        case RECIPE_TORCH_CUDA_SINGLE:
            adam_run<RECIPE_TORCH_CUDA_SINGLE, FUSE_GRADIENT>(&part);
            break;
        case RECIPE_TORCH_CUDA_FUSED:
            adam_run<RECIPE_TORCH_CUDA_FUSED, FUSE_GRADIENT>(&part);
            break;
        case RECIPE_TORCH_CAPTURABLE_FOREACH:
            adam_run<RECIPE_TORCH_CAPTURABLE_FOREACH, FUSE_GRADIENT>(&part);
            break;
        case RECIPE_TORCH_CUDA_FUSED_FP32:
            adam_run<RECIPE_TORCH_CUDA_FUSED_FP32, FUSE_GRADIENT>(&part);
            break;
        case RECIPE_APEX:
            adam_fused<RECIPE_APEX>(fusion, &part);
            break;
        case RECIPE_FAMILY_COUNT:
            break;
        }
    }

    static void adam(const struct adam_step *step)
    {
        assert(!step->recipe->lanes || step->tensor_index + step->count <= step->tensor_count);
        size_t tail_start = recipe_tail_start(step->recipe, step->tensor_count), body = step->count;
        if (step->recipe->lanes && step->tensor_index + step->count > tail_start)
            body = step->tensor_index < tail_start ? tail_start - step->tensor_index : 0;
        adam_range(step, step->recipe->body, 0, body);
        adam_range(step, step->recipe->tail, body, step->count);
    }

    static void norm_max(enum dtype dtype, const struct norm_range *ranges, size_t range_count, uint32_t *results)
    {
        struct norm_ranges some;
        uint32_t found[NORM_RANGES];
        for (size_t first = 0; first < range_count; first += (size_t)some.count) {
            some = some_of(ranges + first, range_count - first);
            where::max({dtype, NULL, 0}, some, found);
            for (int i = 0; i < some.count; i++) {
                uint32_t &result = results[some.at[i].into], max = norm_max_as_fp32(dtype, found[i]);
                result = max > result ? max : result;
            }
        }
    }

    static void norm_accumulate(struct norm_sum *sums, enum dtype dtype, const struct norm_range *ranges,
                                size_t range_count, uint32_t max_bits)
    {
        struct norm_ranges some;
        struct norm_sum found[NORM_RANGES];
        if (max_bits == 0 || max_bits >= 0x7f800000u)
            return;
        const norm_operation o = {dtype, NULL, ldexp(1, norm_exponent(max_bits)), {0, 0}};
        for (size_t first = 0; first < range_count; first += (size_t)some.count) {
            some = some_of(ranges + first, range_count - first);
            where::sum(o, some, found);
            for (int i = 0; i < some.count; i++)
                norm_add(&sums[some.at[i].into], found[i]);
        }
    }

  private:
    static struct norm_ranges some_of(const struct norm_range *ranges, size_t count)
    {
        struct norm_ranges some = {};
        some.count = count < NORM_RANGES ? (int)count : NORM_RANGES;
        memcpy(some.at, ranges, (size_t)some.count * sizeof *ranges);
        return some;
    }
};
