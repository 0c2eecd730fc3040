// SPDX-License-Identifier: Apache-2.0
// The keys of trainers' configurations that are read, and what they are in DeepSpeed's. All others are noted.
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

// Sources: transformers/training_args.py of 5.24; src/llamafactory/hparams of LLaMA-Factory; src/axolotl/utils/schemas
// of Axolotl; trl/trainer/model_config.py of TRL.
const struct accelerate_row trainer_rows[] = {
    KEY("learning_rate", PARAMS "lr=%s"),
    KEY("per_device_train_batch_size|micro_batch_size", MICRO),
    KEY("gradient_accumulation_steps", "gradient_accumulation_steps=%s"),
    KEY("max_grad_norm", "gradient_clipping=%s"),
    KEY("weight_decay", PARAMS "weight_decay=%s"),
    KEY("adam_beta1", "own.beta1=%s"),
    KEY("adam_beta2", "own.beta2=%s"),
    KEY("adam_epsilon", PARAMS "eps=%s"),
    ROW("warmup_steps|warmup_ratio", "0|0.0", "own.off=true"),
    KEY("warmup_steps|warmup_ratio", "own.warmup=%s"),
    ROW("bf16", "full", PURE_BF16),
    ROW("pure_bf16", "true", PURE_BF16),
    KEY("bf16", "bf16.enabled=%s"),
    KEY("fp16", "fp16.enabled=%s"),
    FLAG("gradient_checkpointing", CHECKPOINTING),
    OTHER("gradient_checkpointing", "expected true or false"),
    ROW("disable_gradient_checkpointing", "true", CHECKPOINTING "false"),
    ROW("disable_gradient_checkpointing", "false", CHECKPOINTING "true"),
    KEY("deepspeed", "own.%k=%s"),
    ON_PLANS("optim|optimizer", "*adamw_8bit|*adamw_bnb_8bit", "moments=8bit", BITS_8),
    ROW("optim|optimizer", "adamw_torch|adamw_torch_fused|adamw_hf|adamw_apex_fused|adamw", "own.adamw=true"),
    OTHER("optim|optimizer", ADAM),
    ROW("finetuning_type", "full", "own.full=true"),
    ON_PLANS("finetuning_type", "lora", "adapters=true", ADAPTERS),
    OTHER("finetuning_type", "expected full or lora"),
    ON_PLANS("adapter", "lora|qlora", "adapters=true", ADAPTERS),
    OTHER("adapter", "expected lora or qlora"),
    ROW("use_peft", "false", "own.off=true"),
    ON_PLANS("use_peft", "true", "adapters=true", ADAPTERS),
    KEY("lora_r|lora_rank", PLAN "lora=%s"),
    ROW("load_in_4bit", "false", "own.off=true"),
    ON_PLANS("load_in_4bit", "true", "weights=nf4", BITS_4),
    ON_PLANS("quantization_bit", "4", "weights=nf4", BITS_4),
    OTHER("quantization_bit", BITS),
    NOT("load_in_8bit|fp8", BITS),
    NOT("use_galore|use_apollo|use_badam|use_adam_mini|use_muon", ADAM_OFF),
    KEY("sequence_len|cutoff_len|max_seq_length", PLAN "sequence_length=%s"),
    ROW("fsdp", "true|full_shard|full_shard auto_wrap", "own.fsdp=true"),
    ROW("fsdp", "shard_grad_op|shard_grad_op auto_wrap", ACCELERATE_GRAD_OP),
    ROW("fsdp", "full_shard offload|full_shard auto_wrap offload|full_shard offload auto_wrap", ACCELERATE_FULL_SHARD,
        ACCELERATE_OFFLOAD),
    OTHER("fsdp", "expected full_shard or shard_grad_op, with auto_wrap, and full_shard also with offload"),
    KEY("fsdp_version", "own.fsdp=true"),
    KEY("dp_replicate_size", "own.replicate=%s"),
    KEY("dp_shard_size", "own.shard=%s"),
    KEY("tensor_parallel_size", "own.tensor=%s"),
    ROW("context_parallel_size", "1", "own.alone=true"),
    ON_PLANS("context_parallel_size", NULL, "context=%s", CONTEXT),
    ALONE("sequence_parallel_degree|sequence_parallel_size"),
    END,
};

// recipes/configs and full_finetune_distributed.py of torchtune.
const struct accelerate_row torchtune_rows[] = {
    KEY("batch_size", MICRO),
    KEY("gradient_accumulation_steps", "gradient_accumulation_steps=%s"),
    KEY("clip_grad_norm", "gradient_clipping=%s"),
    ROW("dtype", "bf16", PURE_BF16),
    ROW("dtype", "fp32", "bf16.enabled=false"),
    OTHER("dtype", "expected bf16 or fp32"),
    ON_PLANS("optimizer._component_", "*AdamW8bit", "moments=8bit", BITS_8),
    ROW("optimizer._component_", "torch.optim.AdamW", "own.adamw=true"),
    OTHER("optimizer._component_", "expected torch.optim.AdamW: no other optimizer is supported"),
    KEY("optimizer.lr", PARAMS "lr=%s"),
    KEY("optimizer.weight_decay", PARAMS "weight_decay=%s"),
    NOT("optimizer_in_bwd", "expected false: gradients live up to the update here"),
    FLAG("enable_activation_checkpointing", CHECKPOINTING),
    ROW("enable_activation_offloading", "true", "activation_checkpointing.cpu_checkpointing=true"),
    ROW("enable_activation_offloading", "false", "own.off=true"),
    ROW("fsdp_cpu_offload", "true", ACCELERATE_OFFLOAD),
    ROW("fsdp_cpu_offload", "false", "own.off=true"),
    ROW("fsdp_reshard_after_forward", "true", ACCELERATE_FULL_SHARD),
    ROW("fsdp_reshard_after_forward", "false", ACCELERATE_GRAD_OP),
    ROW("data_parallel_shard_dim", "-1", "own.fsdp=true"),
    KEY("data_parallel_shard_dim", "own.shard=%s"),
    KEY("data_parallel_replicate_dim", "own.replicate=%s"),
    KEY("tensor_parallel_dim", "own.tensor=%s"),
    ROW("context_parallel_dim", "1", "own.alone=true"),
    ON_PLANS("context_parallel_dim", NULL, "context=%s", CONTEXT),
    ON_PLANS("model._component_", "*.qlora_", "weights=nf4", BITS_4),
    ON_PLANS("model.lora_rank", NULL, "lora=%s", ADAPTERS),
    KEY("tokenizer.max_seq_len", PLAN "sequence_length=%s"),
    END,
};

#define PARALLEL(name_, key_) KEY("parallelism." key_, "own." name_ "=%s")

// torchtitan/config/job_config.py of torchtitan 0.2, and the names that its keys had before.
const struct accelerate_row torchtitan_rows[] = {
    KEY("training.local_batch_size|training.batch_size", MICRO),
    ROW("training.global_batch_size", "-1", "own.off=true"),
    KEY("training.global_batch_size", "train_batch_size=%s"),
    KEY("training.seq_len", PLAN "sequence_length=%s"),
    KEY("training.max_norm", "gradient_clipping=%s"),
    ROW("training.mixed_precision_param", "bfloat16", "bf16.enabled=true"),
    ROW("training.mixed_precision_param", "float32", "bf16.enabled=false"),
    ROW("training.dtype", "float32", "own.off=true"),
    ROW("training.dtype", "bfloat16", PURE_BF16),
    ROW("training.enable_cpu_offload", "true", ACCELERATE_OFFLOAD),
    ROW("training.enable_cpu_offload", "false", "own.off=true"),
    ROW("optimizer.name", "AdamW", "own.adamw=true"),
    OTHER("optimizer.name", "expected AdamW: no other optimizer is supported"),
    KEY("optimizer.lr", PARAMS "lr=%s"),
    KEY("optimizer.eps", PARAMS "eps=%s"),
    KEY("optimizer.weight_decay", PARAMS "weight_decay=%s"),
    KEY("optimizer.beta1", "own.beta1=%s"),
    KEY("optimizer.beta2", "own.beta2=%s"),
    NOT("optimizer.early_step_in_backward", "expected false: gradients live up to the update here"),
    ROW("parallelism.data_parallel_shard_degree", "-1", "own.fsdp=true"),
    PARALLEL("shard", "data_parallel_shard_degree"),
    PARALLEL("replicate", "data_parallel_replicate_degree"),
    KEY("parallelism.tensor_parallel_degree", "own.tensor=%s", "own.sequence=true"),
    PARALLEL("pipeline", "pipeline_parallel_degree"),
    PARALLEL("micro", "pipeline_parallel_microbatch_size"),
    ON_PLANS("parallelism.pipeline_parallel_schedule", "Interleaved1F1B", "interleave=2", "expected 1F1B or GPipe"),
    ROW("parallelism.pipeline_parallel_schedule", "1F1B", "own.off=true"),
    ROW("parallelism.pipeline_parallel_schedule", "GPipe", "zerogauge.pipeline_schedule=gpipe"),
    OTHER("parallelism.pipeline_parallel_schedule", "expected 1F1B, Interleaved1F1B or GPipe"),
    PARALLEL("expert", "expert_parallel_degree"),
    ROW("parallelism.context_parallel_degree", "1", "own.alone=true"),
    ON_PLANS("parallelism.context_parallel_degree", NULL, "context=%s", CONTEXT),
    ROW("parallelism.fsdp_reshard_after_forward", "always", ACCELERATE_FULL_SHARD),
    ROW("parallelism.fsdp_reshard_after_forward", "never", ACCELERATE_GRAD_OP),
    ROW("activation_checkpoint.mode", "full", CHECKPOINTING "true", PLAN "checkpointed=1"),
    ROW("activation_checkpoint.mode", "none", CHECKPOINTING "false", PLAN "checkpointed=0"),
    // Every second block, or about half of the operations.
    ON_PLANS("activation_checkpoint.mode", "selective", "checkpointed=0.5", "expected full or none"),
    ON_PLANS("model.converters", "*float8", "products=fp8", "expected none: plans alone have FP8"),
    END,
};

// megatron/neox_arguments of GPT-NeoX, whose files have DeepSpeed's sections.
const struct accelerate_row neox_rows[] = {
    OTHER("fp16.type", "expected precision: bfloat16 in its place"),
    KEY("fp16.fp16"),
    KEY("train_batch_size|train_micro_batch_size_per_gpu|gradient_accumulation_steps|gradient_clipping|"
        "zero_optimization|optimizer|fp16|bf16|data_types",
        "%k=%s"),
    ROW("precision", "bfloat16", "bf16.enabled=true"),
    ROW("precision", "fp16", "fp16.enabled=true"),
    ROW("precision", "fp32", "bf16.enabled=false"),
    KEY("weight_decay", PARAMS "weight_decay=%s"),
    FLAG("checkpoint_activations", CHECKPOINTING),
    FLAG("sequence_parallel", "zerogauge.sequence_parallel="),
    ROW("pipe_parallel_size", "0", "own.alone=true"),
    KEY("pipe_parallel_size", "own.pipeline=%s"),
    KEY("model_parallel_size", "own.tensor=%s"),
    ROW("context_parallel_size", "1", "own.alone=true"),
    ON_PLANS("context_parallel_size", NULL, "context=%s", CONTEXT),
    KEY("seq_length", PLAN "sequence_length=%s"),
    END,
};
