// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed JSON configuration, checked key by key.
#ifndef ZG_CONFIG_H
#define ZG_CONFIG_H

#include "dtype.h"
#include "recipe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum clip_form { CLIP_DEEPSPEED, CLIP_TORCH };
enum schedule_type { SCHEDULER_NONE, SCHEDULER_WARMUP, SCHEDULER_WARMUP_DECAY, SCHEDULER_WARMUP_COSINE };

struct config_scheduler {
    enum schedule_type type;
    double warmup_min_lr, warmup_max_lr;
    double warmup_min_ratio, cos_min_ratio;
    uint64_t warmup_num_steps, total_num_steps;
    bool warmup_linear;  // false: log
};

struct config_loss_scale {
    bool dynamic;
    double static_scale;  // 1 for fp32 and bf16
    unsigned initial_scale_power;
    uint64_t window;
    uint64_t hysteresis;
    bool consecutive_hysteresis;
    double min_scale;
};

struct config {
    // the batch triple, complete: train_batch = micro_batch x accumulation x world
    size_t train_batch, micro_batch, accumulation;
    int stage;  // 0..3, as the key says; what to do with it is stage_find's
    enum dtype precision;            // of parameters and their gradients
    enum dtype communication_dtype;  // in which gradients are sent
    enum dtype accumulation_dtype;   // in which micro-steps are added
    bool check_overflow;             // skip a step whose gradients hold inf or NaN
    double gradient_clipping;        // 0: off
    enum clip_form clip_form;
    struct config_loss_scale loss_scale;
    struct adam_hyper adam;
    char recipe[64];
    struct config_scheduler scheduler;
    size_t reduce_bucket_size, allgather_bucket_size;  // elements
    bool overlap_comm, contiguous_gradients;
    size_t prefetch_bucket_size, param_persistence_threshold, model_persistence_threshold;
    size_t max_live_parameters, max_reuse_distance;
};

#endif
