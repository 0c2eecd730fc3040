// SPDX-License-Identifier: Apache-2.0
// The keys of Accelerate's configurations, and what they are in DeepSpeed's: accelerate/utils/dataclasses.py and
// accelerate/commands/config/config_args.py of 1.15.
#include "ref/config/config_accelerate.h"

#include <stddef.h>

#define ZERO "zero_optimization."
#define STAGE(n) ZERO "stage=" #n
#define FULL_SHARD ACCELERATE_FULL_SHARD
#define GRAD_OP ACCELERATE_GRAD_OP
#define HYBRID "expected FULL_SHARD, with --set zerogauge.mesh=replicate=NODES,shard=DEVICES_OF_A_NODE"

#define PARALLEL "parallelism_config.parallelism_config_"
#define ALONE(what) "expected 1: " what " parallelism is not modelled here"
#define KNOWN(key_)                                                                                                    \
    {                                                                                                                  \
        key_, NULL, {0}, NULL                                                                                          \
    }

const struct accelerate_row accelerate_rows[] = {
    {"gradient_accumulation_steps", NULL, {"gradient_accumulation_steps=%s"}, NULL},
    {"mixed_precision", "no", {"bf16.enabled=false"}, NULL},
    {"mixed_precision", "bf16", {"bf16.enabled=true"}, NULL},
    {"mixed_precision", "fp16", {"fp16.enabled=true"}, NULL},
    {"mixed_precision", NULL, {0}, "expected no, bf16 or fp16"},
    {"distributed_type", "MEGATRON_LM", {0}, "expected DEEPSPEED, FSDP, MULTI_GPU or NO"},
    {"distributed_type",
     "MULTI_GPU|MULTI_CPU|MULTI_HPU|MULTI_MLU|MULTI_MUSA|MULTI_NEURON|MULTI_NPU|"
     "MULTI_SDAA|MULTI_XPU|NO",
     {"own.replicated=true"},
     NULL},
    {"distributed_type", "DEEPSPEED", {"own.replicated=false"}, NULL},
    {"distributed_type", "FSDP", {"own.fsdp=true"}, NULL},
    {"distributed_type", NULL, {0}, "expected DEEPSPEED, FSDP, MULTI_GPU or NO"},
    {"deepspeed_config.deepspeed_config_file", NULL, {"own.deepspeed=%s"}, NULL},
    {"deepspeed_config.zero_stage", NULL, {ZERO "stage=%s"}, NULL},
    {"deepspeed_config.gradient_accumulation_steps", NULL, {"gradient_accumulation_steps=%s"}, NULL},
    {"deepspeed_config.gradient_clipping", NULL, {"gradient_clipping=%s"}, NULL},
    {"deepspeed_config.offload_optimizer_device", NULL, {ZERO "offload_optimizer.device=%s"}, NULL},
    {"deepspeed_config.offload_optimizer_nvme_path", NULL, {ZERO "offload_optimizer.nvme_path=%s"}, NULL},
    {"deepspeed_config.offload_param_device", NULL, {ZERO "offload_param.device=%s"}, NULL},
    {"deepspeed_config.offload_param_nvme_path", NULL, {ZERO "offload_param.nvme_path=%s"}, NULL},
    KNOWN("deepspeed_config.zero3_init_flag|deepspeed_config.zero3_save_16bit_model|"
          "deepspeed_config.deepspeed_hostfile|deepspeed_config.deepspeed_multinode_launcher|"
          "deepspeed_config.deepspeed_inclusion_filter|deepspeed_config.deepspeed_exclusion_filter|"
          "deepspeed_config.deepspeed_moe_layer_cls_names"),
    {"deepspeed_config", "", {0}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "FULL_SHARD|1", {FULL_SHARD}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "SHARD_GRAD_OP|2", {GRAD_OP}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", "NO_SHARD|3", {STAGE(0)}, NULL},
    {"fsdp_config.fsdp_sharding_strategy", NULL, {0}, HYBRID},
    {"fsdp_config.fsdp_reshard_after_forward", "true|FULL_SHARD", {FULL_SHARD}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", "false|SHARD_GRAD_OP", {GRAD_OP}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", "NO_SHARD", {STAGE(0)}, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", NULL, {0}, HYBRID},
    {"fsdp_config.fsdp_offload_params", "true", {ACCELERATE_OFFLOAD}, NULL},
    {"fsdp_config.fsdp_offload_params", "false", {ZERO "offload_optimizer.device=none"}, NULL},
    {"fsdp_config.fsdp_activation_checkpointing", "true", {"zerogauge.activation_checkpointing.enabled=true"}, NULL},
    {"fsdp_config.fsdp_activation_checkpointing", "false", {"zerogauge.activation_checkpointing.enabled=false"}, NULL},
    KNOWN("fsdp_config.fsdp_version|fsdp_config.fsdp_auto_wrap_policy|"
          "fsdp_config.fsdp_transformer_layer_cls_to_wrap|fsdp_config.fsdp_min_num_params|"
          "fsdp_config.fsdp_backward_prefetch|fsdp_config.fsdp_backward_prefetch_policy|"
          "fsdp_config.fsdp_forward_prefetch|fsdp_config.fsdp_state_dict_type|fsdp_config.fsdp_use_orig_params|"
          "fsdp_config.fsdp_cpu_ram_efficient_loading|fsdp_config.fsdp_sync_module_states|"
          "fsdp_config.fsdp_ignored_modules|fsdp_config.fsdp_final_state_dict_type|"
          "fsdp_config.fsdp_limit_all_gathers"),
    {"fsdp_config", "", {0}, NULL},
    {PARALLEL "dp_replicate_size", NULL, {"own.replicate=%s"}, NULL},
    {PARALLEL "dp_shard_size", NULL, {"own.shard=%s"}, NULL},
    {PARALLEL "tp_size", NULL, {"own.tensor=%s"}, NULL},
    {PARALLEL "cp_size", "1", {0}, NULL},
    {PARALLEL "cp_size", NULL, {ACCELERATE_PLAN "context=%s"}, "expected 1: plans alone divide sequences"},
    {PARALLEL "sp_size", "1", {0}, NULL},
    {PARALLEL "sp_size", NULL, {0}, ALONE("sequence")},
    KNOWN("parallelism_config.parallelism_config_cp_comm_strategy|"
          "parallelism_config.parallelism_config_cp_backend|parallelism_config.parallelism_config_sp_backend|"
          "parallelism_config.parallelism_config_sp_seq_length|"
          "parallelism_config.parallelism_config_sp_seq_length_is_variable|"
          "parallelism_config.parallelism_config_sp_attn_implementation"),
    {"parallelism_config", "", {0}, NULL},
    {"megatron_lm_config", "", {0}, "expected deepspeed_config or fsdp_config"},
    KNOWN("compute_environment|command_file|commands|debug|downcast_bf16|dynamo_backend|dynamo_config|"
          "enable_cpu_affinity|fp8_config|gpu_ids|ipex_config|machine_rank|main_process_ip|main_process_port|"
          "main_training_function|max_restarts|monitor_interval|mpirun_config|num_machines|num_processes|"
          "rdzv_backend|same_network|tpu_env|tpu_name|tpu_use_cluster|tpu_use_sudo|tpu_vm|tpu_zone|use_cpu"),
    {NULL, NULL, {0}, NULL},
};
