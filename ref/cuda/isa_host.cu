// SPDX-License-Identifier: Apache-2.0
#include "array_kernels.cuh"
#include "isa_host.h"

// A test's own; tests are processes.
static size_t threads = 7;

void isa_host_threads(size_t count)
{
    threads = count;
}

struct on_host {
    template <typename operation> static void run(const operation &o, size_t count, bool wide, const char *)
    {
        for (size_t thread = 0; thread < threads; thread++)
            each(o, {thread, threads}, count, wide);
    }

    static uint32_t max(const norm_max_operation &o, size_t count, bool wide)
    {
        uint32_t largest = 0;
        for (size_t thread = 0; thread < threads; thread++) {
            norm_max_operation part = o;
            each(part, {thread, threads}, count, wide);
            largest = part.max > largest ? part.max : largest;
        }
        return largest;
    }

    // As the blocks of a launch do, here of one thread each.
    static struct norm_sum sum(const norm_operation &o, size_t count, bool wide)
    {
        uint64_t limbs[NORM_LIMBS] = {0};
        for (size_t thread = 0; thread < threads; thread++) {
            norm_operation part = o;
            each(part, {thread, threads}, count, wide);
            for (int limb = 0; limb < NORM_LIMBS; limb++)
                limbs[limb] += norm_limb(part.sum, limb);
        }
        return norm_of_limbs(limbs);
    }

    static const void *const *list(const void *const in[], size_t)
    {
        return in;
    }

    static void unlist(const void *const *)
    {
    }
};

void isa_host_mix(const struct adam_step *step)
{
    on_host::run(mix_operation{*step}, step->count, is_wide_step(step), "");
}

typedef array_kernels<on_host> arrays;

const struct isa_kernels isa_host = {
    .widen = arrays::widen,
    .narrow = arrays::narrow,
    .accumulate = arrays::accumulate,
    .fold = arrays::fold,
    .adam = arrays::adam,
    .norm_max = arrays::norm_max,
    .norm_accumulate = arrays::norm_accumulate,
    .bias_add = NULL,
    .rows_sum = NULL,
    .layernorm_stats = NULL,
    .layernorm_apply = NULL,
    .layernorm_backward = NULL,
    .gelu_forward = NULL,
    .gelu_backward = NULL,
    .softmax_causal = NULL,
    .softmax_causal_backward = NULL,
    .crossentropy_forward = NULL,
    .crossentropy_backward = NULL,
};
