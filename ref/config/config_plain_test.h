// SPDX-License-Identifier: Apache-2.0
// For tests that train without a file: a configuration of one rank and one sample, which they change.
#pragma once

#include "ref/config/config.h"

// Sums of micro-steps are in fp32. bucket: elements of those that are reduced and gathered.
static inline struct config config_plain(int stage, enum dtype precision, size_t accumulation, size_t bucket)
{
    struct config config = {
        .train_batch = accumulation,
        .micro_batch = 1,
        .accumulation = accumulation,
        .stage = stage,
        .precision = precision,
        .communication_dtype = precision,
        .accumulation_dtype = accumulation == 1 ? precision : DTYPE_FP32,
        .check_overflow = precision != DTYPE_FP32,
        .gradient_clipping = 1.0,
        .loss_scale = {.static_scale = 1.0},
        .adam = {.lr = 1e-3,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .weight_decay = 0.1,
                 .decoupled = true,
                 .bias_correction = true},
        .recipe = "torch-cpu",
        .reduce_bucket_size = bucket,
        .allgather_bucket_size = bucket,
        .overlap_comm = bucket % 2,
        .contiguous_gradients = true,
        .prefetch_bucket_size = 5000,
        .model_persistence_threshold = SIZE_MAX,
        .max_live_parameters = 1000000000,
    };
    if (precision == DTYPE_FP16)
        config.loss_scale = (struct config_loss_scale){.dynamic = true,
                                                       .static_scale = 1,
                                                       .initial_scale_power = 10,
                                                       .window = 2,
                                                       .hysteresis = 2,
                                                       .min_scale = 1};
    return config;
}
