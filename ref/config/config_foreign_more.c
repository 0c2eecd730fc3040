// SPDX-License-Identifier: Apache-2.0
// The keys of more trainers' configurations that are read, as in config_foreign_keys.c.
#include "ref/config/config_foreign_rows.h"

#define MEGATRON(prefix_, tensor_, pipeline_, parts_, context_, expert_, expert_tensor_, sequence_)                    \
    KEY(prefix_ tensor_, "own.tensor=%s"), KEY(prefix_ pipeline_, "own.pipeline=%s"),                                  \
        ON_PLANS(prefix_ parts_, NULL, "interleave=%s", "expected none: plans alone interleave stages"),               \
        ROW(prefix_ context_, "1", "own.alone=true"), ON_PLANS(prefix_ context_, NULL, "context=%s", CONTEXT),         \
        KEY(prefix_ expert_, "own.expert=%s"),                                                                         \
        ON_PLANS(prefix_ expert_tensor_, NULL, "expert_tensor=%s", "expected none: plans alone divide experts so"),    \
        ROW(prefix_ sequence_, "true", "own.sequence=true"), ROW(prefix_ sequence_, "false", "own.off=true")

// Of attention's core alone, which fused kernels recompute in any case, or of blocks.
#define RECOMPUTE(key_)                                                                                                \
    ROW(key_, "selective", "own.off=true"), ROW(key_, "full", CHECKPOINTING "true", PLAN "checkpointed=1"),            \
        OTHER(key_, "expected selective or full")
#define PRECISION(key_)                                                                                                \
    ROW(key_, "bf16|bf16-mixed|amp_bf16", "bf16.enabled=true"),                                                        \
        ROW(key_, "16|16-mixed|amp_fp16|fp16", "fp16.enabled=true"),                                                   \
        ROW(key_, "32|32-true|fp32", "bf16.enabled=false"), ROW(key_, "bf16-true", PURE_BF16),                         \
        OTHER(key_, "expected 16 or 32 bits")
#define ADAMW(key_, words_)                                                                                            \
    ROW(key_, words_, "own.adamw=true"), OTHER(key_, "expected AdamW: no other optimizer is supported")
#define BETAS PARAMS "betas=%s"

// examples/nlp/language_modeling/conf of NeMo 1, and its dgxc-benchmarking.
const struct accelerate_row nemo_rows[] = {
    KEY("model.micro_batch_size", MICRO),
    KEY("model.global_batch_size", "train_batch_size=%s"),
    MEGATRON("model.", "tensor_model_parallel_size", "pipeline_model_parallel_size",
             "virtual_pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size",
             "expert_tensor_parallel_size", "sequence_parallel"),
    KEY("model.encoder_seq_length", PLAN "sequence_length=%s"),
    RECOMPUTE("model.activations_checkpoint_granularity"),
    PRECISION("trainer.precision"),
    KEY("trainer.gradient_clip_val", "gradient_clipping=%s"),
    ON_PLANS("model.fp8", "true", "products=fp8", "expected false: plans alone have FP8"),
    ROW("model.fp8", "false", "own.off=true"),
    ROW("model.optim.name", "distributed_fused_adam|mcore_distributed_optim", "zero_optimization.stage=1"),
    ADAMW("model.optim.name", "fused_adam|adamw|adam"),
    KEY("model.optim.lr", PARAMS "lr=%s"),
    KEY("model.optim.weight_decay", PARAMS "weight_decay=%s"),
    KEY("model.optim.betas", BETAS),
    ON_PLANS("model.peft.peft_scheme", "lora", "adapters=true", ADAPTERS),
    OTHER("model.peft.peft_scheme", "expected lora or null"),
    KEY("model.peft.lora_tuning.adapter_dim", PLAN "lora=%s"),
    END,
};

#define ARG(name_) "MODEL_ARGS.--" name_

// megatron/training/arguments.py of Megatron-LM, as its tests' model_config.yaml has them.
const struct accelerate_row megatron_rows[] = {
    KEY(ARG("micro-batch-size"), MICRO),
    KEY(ARG("global-batch-size"), "train_batch_size=%s"),
    MEGATRON("MODEL_ARGS.--", "tensor-model-parallel-size", "pipeline-model-parallel-size",
             "num-virtual-stages-per-pipeline-rank", "context-parallel-size", "expert-model-parallel-size",
             "expert-tensor-parallel-size", "sequence-parallel"),
    KEY(ARG("seq-length"), PLAN "sequence_length=%s"),
    RECOMPUTE(ARG("recompute-granularity")),
    FLAG(ARG("bf16"), "bf16.enabled="),
    FLAG(ARG("fp16"), "fp16.enabled="),
    ON_PLANS(ARG("fp8-format"), "hybrid|e4m3", "products=fp8", "expected none: plans alone have FP8"),
    ROW(ARG("use-distributed-optimizer"), "true", "zero_optimization.stage=1"),
    ADAMW(ARG("optimizer"), "adam"),
    KEY(ARG("lr"), PARAMS "lr=%s"),
    KEY(ARG("weight-decay"), PARAMS "weight_decay=%s"),
    KEY(ARG("adam-beta1"), "own.beta1=%s"),
    KEY(ARG("adam-beta2"), "own.beta2=%s"),
    KEY(ARG("clip-grad"), "gradient_clipping=%s"),
    END,
};

#define ACTOR(name_) "actor_rollout_ref.actor." name_

// verl/trainer/config of verl: supervised, and what reinforcement learning trains.
const struct accelerate_row verl_rows[] = {
    KEY("data.micro_batch_size_per_gpu|" ACTOR("ppo_micro_batch_size_per_gpu"), MICRO),
    KEY("data.max_length", PLAN "sequence_length=%s"),
    FLAG("model.enable_gradient_checkpointing|actor_rollout_ref.model.enable_gradient_checkpointing", CHECKPOINTING),
    ROW("model.lora_rank|actor_rollout_ref.model.lora_rank", "0", "own.off=true"),
    ON_PLANS("model.lora_rank|actor_rollout_ref.model.lora_rank", NULL, "lora=%s", ADAPTERS),
    ROW("model.fsdp_config.cpu_offload", "true", ACCELERATE_OFFLOAD),
    ROW("model.fsdp_config.cpu_offload", "false", "own.off=true"),
    KEY("optim.lr|" ACTOR("optim.lr"), PARAMS "lr=%s"),
    KEY("optim.weight_decay|" ACTOR("optim.weight_decay"), PARAMS "weight_decay=%s"),
    KEY("optim.betas|" ACTOR("optim.betas"), BETAS),
    KEY("optim.clip_grad|" ACTOR("grad_clip"), "gradient_clipping=%s"),
    ALONE("ulysses_sequence_parallel_size|" ACTOR("ulysses_sequence_parallel_size")),
    ROW(ACTOR("strategy"), "fsdp|fsdp2", "own.fsdp=true"),
    OTHER(ACTOR("strategy"), "expected fsdp or fsdp2"),
    END,
};

// litgpt/args.py and config_hub of LitGPT.
const struct accelerate_row litgpt_rows[] = {
    PRECISION("precision"),
    KEY("train.global_batch_size", "train_batch_size=%s"),
    KEY("train.micro_batch_size", MICRO),
    KEY("train.max_seq_length", PLAN "sequence_length=%s"),
    KEY("train.max_norm", "gradient_clipping=%s"),
    ADAMW("optimizer.class_path", "torch.optim.AdamW"),
    KEY("optimizer.init_args.lr|train.learning_rate", PARAMS "lr=%s"),
    KEY("optimizer.init_args.weight_decay|train.weight_decay", PARAMS "weight_decay=%s"),
    KEY("optimizer.init_args.betas", BETAS),
    ON_PLANS("lora_r", NULL, "lora=%s", ADAPTERS),
    ON_PLANS("quantize", "bnb.nf4|bnb.nf4-dq", "weights=nf4", BITS_4),
    OTHER("quantize", BITS),
    END,
};

// scripts/train/yamls of LLM Foundry.
const struct accelerate_row foundry_rows[] = {
    PRECISION("precision"),
    KEY("global_train_batch_size", "train_batch_size=%s"),
    KEY("device_train_microbatch_size", MICRO),
    KEY("max_seq_len", PLAN "sequence_length=%s"),
    ADAMW("optimizer.name", "decoupled_adamw|adamw"),
    KEY("optimizer.lr", PARAMS "lr=%s"),
    KEY("optimizer.eps", PARAMS "eps=%s"),
    KEY("optimizer.weight_decay", PARAMS "weight_decay=%s"),
    KEY("optimizer.betas", BETAS),
    KEY("algorithms.gradient_clipping.clipping_threshold", "gradient_clipping=%s"),
    ROW("fsdp_config.sharding_strategy", "FULL_SHARD", "own.fsdp=true"),
    ROW("fsdp_config.sharding_strategy", "SHARD_GRAD_OP", ACCELERATE_GRAD_OP),
    ROW("fsdp_config.sharding_strategy", "NO_SHARD", "zero_optimization.stage=0"),
    OTHER("fsdp_config.sharding_strategy", "expected FULL_SHARD, SHARD_GRAD_OP or NO_SHARD"),
    ROW("fsdp_config.mixed_precision", "PURE", "own.off=true"),
    ROW("fsdp_config.mixed_precision", "DEFAULT", "communication_data_type=fp32"),
    FLAG("fsdp_config.activation_checkpointing", CHECKPOINTING),
    ROW("fsdp_config.activation_cpu_offload", "true", "activation_checkpointing.cpu_checkpointing=true"),
    KEY("fsdp_config"),
    END,
};

// olmo/config.py of OLMo.
const struct accelerate_row olmo_rows[] = {
    PRECISION("precision"),
    KEY("global_train_batch_size", "train_batch_size=%s"),
    KEY("device_train_microbatch_size", MICRO),
    KEY("model.max_sequence_length", PLAN "sequence_length=%s"),
    KEY("max_grad_norm", "gradient_clipping=%s"),
    ADAMW("optimizer.name", "adamw"),
    KEY("optimizer.learning_rate", PARAMS "lr=%s"),
    KEY("optimizer.weight_decay", PARAMS "weight_decay=%s"),
    KEY("optimizer.betas", BETAS),
    ROW("distributed_strategy", "ddp", "zero_optimization.stage=0"),
    ROW("fsdp.sharding_strategy", "SHARD_GRAD_OP", ACCELERATE_GRAD_OP),
    ROW("fsdp.sharding_strategy", "FULL_SHARD", "own.fsdp=true"),
    OTHER("fsdp.sharding_strategy", "expected FULL_SHARD or SHARD_GRAD_OP"),
    ROW("fsdp.precision", "mixed", "communication_data_type=fp32"),
    ROW("activation_checkpointing", "whole_layer", CHECKPOINTING "true", PLAN "checkpointed=1"),
    ON_PLANS("activation_checkpointing", "one_in_two", "checkpointed=0.5", "expected whole_layer or null"),
    OTHER("activation_checkpointing", "expected whole_layer, one_in_two or null"),
    END,
};
