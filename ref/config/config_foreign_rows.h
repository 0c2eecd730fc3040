// SPDX-License-Identifier: Apache-2.0
// The words of which the tables of trainers' keys consist.
#pragma once

#include "ref/config/config_accelerate.h"

#include <stddef.h>

#define PARAMS "optimizer.params."
#define MICRO "train_micro_batch_size_per_gpu=%s"
#define CHECKPOINTING "zerogauge.activation_checkpointing.enabled="
#define PURE_BF16 "bf16.enabled=true", "zerogauge.master_dtype=bf16", "zerogauge.moment_dtype=bf16"
#define PLAN ACCELERATE_PLAN
#define ADAPTERS "expected full training: plans have adapters, and train as zerogauge.lora"
#define BITS "expected weights of 16 or 32 bits"
#define BITS_4 BITS ": plans alone have 4"
#define BITS_8 "expected adamw_torch: plans alone have moments of 8 bits"
#define ADAM "expected adamw_torch: no other optimizer is supported"
#define ADAM_OFF "expected false: no other optimizer is supported"
#define CONTEXT "expected 1: plans alone divide sequences"
#define ROW(key_, value_, ...)                                                                                         \
    {                                                                                                                  \
        key_, value_, {__VA_ARGS__}, NULL                                                                              \
    }
#define KEY(key_, ...) ROW(key_, NULL, __VA_ARGS__)
#define OTHER(key_, why_)                                                                                              \
    {                                                                                                                  \
        key_, NULL, {0}, why_                                                                                          \
    }
#define ON_PLANS(key_, value_, change_, why_)                                                                          \
    {                                                                                                                  \
        key_, value_, {PLAN change_}, why_                                                                             \
    }
#define FLAG(key_, change_) ROW(key_, "true", change_ "true"), ROW(key_, "false", change_ "false")
#define ALONE(key_) ROW(key_, "1", "own.alone=true"), OTHER(key_, "expected 1: it is not modelled here")
#define NOT(key_, why_) ROW(key_, "false", "own.off=true"), OTHER(key_, why_)
#define END                                                                                                            \
    {                                                                                                                  \
        NULL, NULL, {0}, NULL                                                                                          \
    }
