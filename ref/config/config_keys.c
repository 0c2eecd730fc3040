// SPDX-License-Identifier: Apache-2.0
// The keys of DeepSpeed's configuration (its config.py, constants.py, zero/config.py, zero/offload_config.py,
// precision_config.py, lr_schedules.py at edaa7221), and the section "zerogauge", which DeepSpeed does not know.
#include "ref/config/config_keys.h"

#include "ref/config/config.h"

#include <float.h>
#include <string.h>

#define COUNT_MAX 1e9      // fits an int
#define ELEMENTS_MAX 1e15  // their bytes fit in 64 bits
#define WHOLE_MAX 0x1p63   // above every integer that JSON text can give
#define BUFFERS_MAX 1024
#define TILES_MAX 1024
#define QUEUE_MAX 32768  // requests that one io_uring holds
#define QUEUES_MAX 256
#define TIERS "none|cpu|nvme"

#define USED(path_, type_, ...)                                                                                        \
    {                                                                                                                  \
        .path = path_, .type = CONFIG_##type_, .use = KEY_USED, __VA_ARGS__                                            \
    }
#define RANGE(min_, max_) .min = min_, .max = max_
#define ACCEPTS(accepts_) .accepts = accepts_
#define CHOICES(choices_) .choices = choices_
#define IGNORED(path_, type_)                                                                                          \
    {                                                                                                                  \
        .path = path_, .type = CONFIG_##type_, .use = KEY_IGNORED, .accepts = KEY_AUTO | KEY_NULL                      \
    }
#define FIXED(path_, type_, only_, why_)                                                                               \
    {                                                                                                                  \
        .path = path_, .type = CONFIG_##type_, .use = KEY_FIXED, .accepts = KEY_AUTO | KEY_NULL, .only = only_,        \
        .why = why_                                                                                                    \
    }
#define ALIAS(path_, target_)                                                                                          \
    {                                                                                                                  \
        .path = path_, .use = KEY_ALIAS, .target = target_                                                             \
    }

static const char BATCHED[] = "the configuration always sets the accumulation boundary";
static const char AVERAGED[] = "gradients are summed over the ranks and divided once";
static const char MASTER[] = "master parameters and moments are always fp32";
static const char GATHERED[] = "only the papers' collectives are implemented, and their bytes are counted";
static const char MODELLED[] = "it changes training in a way that is not modelled here";

static const struct config_key KEYS[] = {
    USED("train_batch_size", INTEGER, ACCEPTS(KEY_AUTO | KEY_NULL), RANGE(1, COUNT_MAX)),
    USED("train_micro_batch_size_per_gpu", INTEGER, ACCEPTS(KEY_AUTO | KEY_NULL), RANGE(1, COUNT_MAX)),
    USED("gradient_accumulation_steps", INTEGER, ACCEPTS(KEY_AUTO | KEY_NULL), RANGE(1, COUNT_MAX)),
    FIXED("managed_gradient_accumulation", BOOL, "true", BATCHED),
    USED("gradient_clipping", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, FLT_MAX)),
    USED("communication_data_type", STRING, ACCEPTS(KEY_AUTO | KEY_NULL), CHOICES("fp32|fp16|bf16")),
    IGNORED("seq_parallel_communication_data_type", STRING),
    FIXED("sequence_parallel_size", INTEGER, "1", MODELLED),
    FIXED("prescale_gradients", BOOL, "false", AVERAGED),
    FIXED("gradient_predivide_factor", NUMBER, "1", AVERAGED),
    FIXED("gradient_allreduce_op", STRING, "\"mean\"", AVERAGED),
    FIXED("sparse_gradients", BOOL, "false", "every gradient is dense"),
    FIXED("disable_allgather", BOOL, "false", GATHERED),
    USED("data_types", OBJECT, ACCEPTS(KEY_NULL)),
    USED("data_types.grad_accum_dtype", STRING, ACCEPTS(KEY_AUTO | KEY_NULL), CHOICES("fp32|fp16|bf16")),
    USED("data_types.param_dtype", STRING, ACCEPTS(KEY_AUTO | KEY_NULL), CHOICES("fp32|fp16|bf16")),
    IGNORED("data_types.buffer_dtype", STRING),

    USED("zero_optimization", OBJECT, ACCEPTS(0)),
    USED("zero_optimization.stage", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, 3)),
    USED("zero_optimization.contiguous_gradients", BOOL, ACCEPTS(KEY_AUTO)),
    USED("zero_optimization.overlap_comm", BOOL, ACCEPTS(KEY_AUTO | KEY_NULL)),
    USED("zero_optimization.reduce_bucket_size", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, ELEMENTS_MAX)),
    USED("zero_optimization.allgather_bucket_size", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, ELEMENTS_MAX)),
    USED("zero_optimization.stage3_prefetch_bucket_size", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, ELEMENTS_MAX)),
    USED("zero_optimization.stage3_param_persistence_threshold", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, WHOLE_MAX)),
    USED("zero_optimization.stage3_model_persistence_threshold", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, WHOLE_MAX)),
    USED("zero_optimization.stage3_max_live_parameters", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, WHOLE_MAX)),
    USED("zero_optimization.stage3_max_reuse_distance", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, WHOLE_MAX)),
    ALIAS("zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size"),
    ALIAS("zero_optimization.param_persistence_threshold", "zero_optimization.stage3_param_persistence_threshold"),
    ALIAS("zero_optimization.model_persistence_threshold", "zero_optimization.stage3_model_persistence_threshold"),
    ALIAS("zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters"),
    ALIAS("zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance"),
    FIXED("zero_optimization.reduce_scatter", BOOL, "true", GATHERED),
    FIXED("zero_optimization.allgather_partitions", BOOL, "true", GATHERED),
    FIXED("zero_optimization.stage3_use_all_reduce_for_fetch_params", BOOL, "false", GATHERED),
    ALIAS("zero_optimization.use_all_reduce_for_fetch_params",
          "zero_optimization.stage3_use_all_reduce_for_fetch_params"),
    FIXED("zero_optimization.stage3_allgather_sequential", BOOL, "false", GATHERED),
    ALIAS("zero_optimization.allgather_sequential", "zero_optimization.stage3_allgather_sequential"),
    FIXED("zero_optimization.ignore_unused_parameters", BOOL, "true", "the gradient of an unused parameter is zero"),
    FIXED("zero_optimization.legacy_stage1", BOOL, "false", "DeepSpeed itself refuses it"),
    USED("zero_optimization.zero_hpz_partition_size", INTEGER, ACCEPTS(KEY_AUTO | KEY_NULL), RANGE(0, COUNT_MAX)),
    USED("zero_optimization.mics_shard_size", INTEGER, ACCEPTS(KEY_AUTO | KEY_NULL), RANGE(-1, COUNT_MAX)),
    USED("zero_optimization.zero_quantized_weights", BOOL, ACCEPTS(KEY_AUTO | KEY_NULL)),
    FIXED("zero_optimization.zero_quantized_nontrainable_weights", BOOL, "false", MODELLED),
    USED("zero_optimization.zero_quantized_gradients", BOOL, ACCEPTS(KEY_AUTO | KEY_NULL)),
    FIXED("zero_optimization.zeropp_loco_param", FREE_OBJECT, "null", "no error of quantization is kept"),
    FIXED("zero_optimization.zenflow", FREE_OBJECT, "null", MODELLED),
    USED("zero_optimization.cpu_offload", BOOL, ACCEPTS(KEY_NULL)),
    USED("zero_optimization.cpu_offload_param", BOOL, ACCEPTS(KEY_NULL)),
    ALIAS("zero_optimization.cpu_offload_params", "zero_optimization.cpu_offload_param"),
    IGNORED("zero_optimization.cpu_offload_use_pin_memory", BOOL),
    USED("zero_optimization.offload_optimizer", OBJECT, ACCEPTS(KEY_AUTO | KEY_NULL)),
    USED("zero_optimization.offload_optimizer.device", STRING, ACCEPTS(KEY_AUTO), CHOICES(TIERS)),
    USED("zero_optimization.offload_optimizer.nvme_path", PATHS, ACCEPTS(KEY_AUTO | KEY_NULL)),
    USED("zero_optimization.offload_optimizer.buffer_count", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, BUFFERS_MAX)),
    USED("zero_optimization.offload_optimizer.pin_memory", BOOL, ACCEPTS(KEY_AUTO)),
    USED("zero_optimization.offload_optimizer.pipeline_read", BOOL, ACCEPTS(KEY_AUTO)),
    USED("zero_optimization.offload_optimizer.pipeline_write", BOOL, ACCEPTS(KEY_AUTO)),
    IGNORED("zero_optimization.offload_optimizer.fast_init", BOOL),
    USED("zero_optimization.offload_optimizer.ratio", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, 1)),
    FIXED("zero_optimization.offload_optimizer.super_offload", BOOL, "false",
          "it undoes a step with an approximate inverse of Adam, which changes bits; "
          "zerogauge.speculative_update undoes it exactly"),
    IGNORED("zero_optimization.offload_optimizer.cpuadam_cores_perc", NUMBER),
    USED("zero_optimization.offload_param", OBJECT, ACCEPTS(KEY_AUTO | KEY_NULL)),
    USED("zero_optimization.offload_param.device", STRING, ACCEPTS(KEY_AUTO), CHOICES(TIERS)),
    USED("zero_optimization.offload_param.nvme_path", PATHS, ACCEPTS(KEY_AUTO | KEY_NULL)),
    USED("zero_optimization.offload_param.buffer_count", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, BUFFERS_MAX)),
    USED("zero_optimization.offload_param.buffer_size", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, ELEMENTS_MAX)),
    USED("zero_optimization.offload_param.max_in_cpu", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, WHOLE_MAX)),
    USED("zero_optimization.offload_param.pin_memory", BOOL, ACCEPTS(KEY_AUTO)),
    USED("zero_optimization.sub_group_size", INTEGER, ACCEPTS(KEY_AUTO), RANGE(0, ELEMENTS_MAX)),
    IGNORED("zero_optimization.use_multi_rank_bucket_allreduce", BOOL),
    IGNORED("zero_optimization.load_from_fp32_weights", BOOL),
    IGNORED("zero_optimization.elastic_checkpoint", BOOL),
    IGNORED("zero_optimization.round_robin_gradients", BOOL),
    IGNORED("zero_optimization.grad_hooks", BOOL),
    IGNORED("zero_optimization.compute_grad_norm", BOOL),
    IGNORED("zero_optimization.parameter_alignment", BOOL),
    IGNORED("zero_optimization.stage3_gather_16bit_weights_on_model_save", BOOL),
    ALIAS("zero_optimization.gather_16bit_weights_on_model_save",
          "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    ALIAS("zero_optimization.stage3_gather_fp16_weights_on_model_save",
          "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    IGNORED("zero_optimization.stage3_module_granularity_threshold", INTEGER),
    ALIAS("zero_optimization.module_granularity_threshold", "zero_optimization.stage3_module_granularity_threshold"),
    IGNORED("zero_optimization.mics_hierarchical_params_gather", BOOL),
    IGNORED("zero_optimization.memory_efficient_linear", BOOL),
    IGNORED("zero_optimization.pipeline_loading_checkpoint", BOOL),
    IGNORED("zero_optimization.override_module_apply", BOOL),
    IGNORED("zero_optimization.log_trace_cache_warnings", BOOL),
    IGNORED("zero_optimization.enable_sanity_checks", BOOL),
    IGNORED("zero_optimization.save_muon_momentum_buffer_in_memory", BOOL),
    IGNORED("zero_optimization.leaf_module", FREE_OBJECT),

    // The ranges of dynamic scaling are checked where it is in use, as DeepSpeed does.
    USED("fp16", OBJECT, ACCEPTS(0)),
    USED("fp16.enabled", BOOL, ACCEPTS(KEY_AUTO)),
    USED("fp16.loss_scale", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, 0x1p127)),
    USED("fp16.initial_scale_power", INTEGER, ACCEPTS(KEY_AUTO), RANGE(-WHOLE_MAX, WHOLE_MAX)),
    USED("fp16.loss_scale_window", INTEGER, ACCEPTS(KEY_AUTO), RANGE(-WHOLE_MAX, WHOLE_MAX)),
    USED("fp16.hysteresis", INTEGER, ACCEPTS(KEY_AUTO), RANGE(-WHOLE_MAX, WHOLE_MAX)),
    USED("fp16.consecutive_hysteresis", BOOL, ACCEPTS(KEY_AUTO)),
    USED("fp16.min_loss_scale", INTEGER, ACCEPTS(KEY_AUTO), RANGE(-WHOLE_MAX, WHOLE_MAX)),
    FIXED("fp16.fp16_master_weights_and_grads", BOOL, "false", MASTER),
    IGNORED("fp16.auto_cast", BOOL),
    USED("bf16", OBJECT, ACCEPTS(0)),
    USED("bf16.enabled", BOOL, ACCEPTS(KEY_AUTO)),
    USED("bf16.check_grad_overflow", BOOL, ACCEPTS(KEY_AUTO)),
    FIXED("bf16.bf16_master_weights_and_grads", BOOL, "false", MASTER),
    FIXED("bf16.bf16_optimizer_states", BOOL, "false", MASTER),
    IGNORED("bf16.immediate_grad_update", BOOL),
    USED("bfloat16", OBJECT, ACCEPTS(0)),
    ALIAS("bfloat16.enabled", "bf16.enabled"),
    ALIAS("bfloat16.check_grad_overflow", "bf16.check_grad_overflow"),
    ALIAS("bfloat16.bf16_master_weights_and_grads", "bf16.bf16_master_weights_and_grads"),
    ALIAS("bfloat16.bf16_optimizer_states", "bf16.bf16_optimizer_states"),
    ALIAS("bfloat16.immediate_grad_update", "bf16.immediate_grad_update"),
    IGNORED("amp", FREE_OBJECT),
    FIXED("amp.enabled", BOOL, "false", MODELLED),
    IGNORED("torch_autocast", OBJECT),
    FIXED("torch_autocast.enabled", BOOL, "false", MODELLED),
    IGNORED("torch_autocast.dtype", STRING),
    IGNORED("torch_autocast.lower_precision_safe_modules", ARRAY),

    USED("optimizer", OBJECT, ACCEPTS(KEY_NULL)),
    USED("optimizer.type", STRING, ACCEPTS(0)),
    IGNORED("optimizer.legacy_fusion", BOOL),
    USED("optimizer.params", OBJECT, ACCEPTS(0)),
    USED("optimizer.params.lr", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, FLT_MAX)),
    USED("optimizer.params.betas", BETAS, ACCEPTS(KEY_AUTO)),
    USED("optimizer.params.eps", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, FLT_MAX)),
    USED("optimizer.params.weight_decay", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, FLT_MAX)),
    USED("optimizer.params.bias_correction", BOOL, ACCEPTS(0)),
    USED("optimizer.params.adam_w_mode", BOOL, ACCEPTS(0)),
    FIXED("optimizer.params.amsgrad", BOOL, "false", "no recipe implements it"),
    FIXED("optimizer.params.maximize", BOOL, "false", "no recipe implements it"),
    FIXED("optimizer.params.fp32_optimizer_states", BOOL, "true", MASTER),
    {.path = "optimizer.params.max_grad_norm",
     .type = CONFIG_NUMBER,
     .use = KEY_FIXED,
     .only = "",
     .why = "the top-level key gradient_clipping limits the norm"},
    IGNORED("optimizer.params.torch_adam", BOOL),
    IGNORED("optimizer.params.fused", BOOL),
    IGNORED("optimizer.params.foreach", BOOL),
    IGNORED("optimizer.params.capturable", BOOL),
    IGNORED("optimizer.params.differentiable", BOOL),
    IGNORED("optimizer.params.set_grad_none", BOOL),
    IGNORED("zero_allow_untested_optimizer", BOOL),
    IGNORED("zero_force_ds_cpu_optimizer", BOOL),
    USED("scheduler", OBJECT, ACCEPTS(KEY_NULL)),
    USED("scheduler.type", STRING, ACCEPTS(0), CHOICES("WarmupLR|WarmupDecayLR|WarmupCosineLR")),
    USED("scheduler.params", OBJECT, ACCEPTS(0)),
    USED("scheduler.params.warmup_min_lr", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, FLT_MAX)),
    USED("scheduler.params.warmup_max_lr", NUMBER, ACCEPTS(KEY_AUTO | KEY_NULL), RANGE(0, FLT_MAX)),
    USED("scheduler.params.warmup_num_steps", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, ELEMENTS_MAX)),
    USED("scheduler.params.warmup_type", STRING, ACCEPTS(KEY_AUTO), CHOICES("log|linear")),
    USED("scheduler.params.total_num_steps", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, ELEMENTS_MAX)),
    USED("scheduler.params.warmup_min_ratio", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, 1)),
    USED("scheduler.params.cos_min_ratio", NUMBER, ACCEPTS(KEY_AUTO), RANGE(0, 1)),
    FIXED("scheduler.params.last_batch_iteration", INTEGER, "-1", "a run starts at its first step"),
    USED("zerogauge", OBJECT, ACCEPTS(0)),
    USED("zerogauge.recipe", STRING, ACCEPTS(0)),
    USED("zerogauge.clip_form", STRING, ACCEPTS(0), CHOICES("deepspeed|torch")),
    USED("zerogauge.delayed_update", OBJECT, ACCEPTS(KEY_NULL)),
    USED("zerogauge.delayed_update.start_step", INTEGER, ACCEPTS(0), RANGE(1, ELEMENTS_MAX)),
    USED("zerogauge.speculative_update", BOOL, ACCEPTS(KEY_NULL)),
    USED("zerogauge.offload_gradient", OBJECT, ACCEPTS(KEY_NULL)),
    USED("zerogauge.offload_gradient.device", STRING, ACCEPTS(0), CHOICES(TIERS)),
    USED("zerogauge.activation_checkpointing", OBJECT, ACCEPTS(KEY_NULL)),
    USED("zerogauge.activation_checkpointing.enabled", BOOL, ACCEPTS(0)),
    USED("zerogauge.activation_checkpointing.device", STRING, ACCEPTS(0), CHOICES(TIERS)),
    USED("zerogauge.partitioning", STRING, ACCEPTS(0), CHOICES("bandwidth_centric|owner_broadcast")),
    USED("zerogauge.reduction_group", INTEGER, ACCEPTS(0), RANGE(0, ELEMENTS_MAX)),
    USED("zerogauge.quantization_block", INTEGER, ACCEPTS(0), RANGE(QUANTIZE_BLOCK_MIN, QUANTIZE_BLOCK_MAX)),
    USED("zerogauge.mesh", STRING, ACCEPTS(KEY_NULL)),
    USED("zerogauge.pipeline_schedule", STRING, ACCEPTS(0), CHOICES("1f1b|gpipe")),
    USED("zerogauge.tiling", OBJECT, ACCEPTS(KEY_NULL)),
    USED("zerogauge.tiling.factor", INTEGER, ACCEPTS(0), RANGE(1, TILES_MAX)),
    USED("zerogauge.sequence_parallel", BOOL, ACCEPTS(KEY_NULL)),
    USED("zerogauge.lora", STRING, ACCEPTS(KEY_NULL)),
    USED("zerogauge.aio_engine", STRING, ACCEPTS(0), CHOICES("libaio|io_uring")),
    USED("aio", OBJECT, ACCEPTS(KEY_NULL)),
    USED("aio.block_size", INTEGER, ACCEPTS(KEY_AUTO), RANGE(-WHOLE_MAX, WHOLE_MAX)),
    USED("aio.queue_depth", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, QUEUE_MAX)),
    USED("aio.intra_op_parallelism", INTEGER, ACCEPTS(KEY_AUTO), RANGE(1, QUEUES_MAX)),
    ALIAS("aio.thread_count", "aio.intra_op_parallelism"),
    USED("aio.single_submit", BOOL, ACCEPTS(KEY_AUTO)),
    USED("aio.overlap_events", BOOL, ACCEPTS(KEY_AUTO)),
    FIXED("aio.use_gds", BOOL, "false", "transfers pass through host memory, where checksums are computed"),
    USED("activation_checkpointing", OBJECT, ACCEPTS(KEY_NULL)),
    USED("activation_checkpointing.cpu_checkpointing", BOOL, ACCEPTS(KEY_AUTO)),
    IGNORED("activation_checkpointing.partition_activations", BOOL),
    IGNORED("activation_checkpointing.contiguous_memory_optimization", BOOL),
    IGNORED("activation_checkpointing.number_checkpoints", INTEGER),
    IGNORED("activation_checkpointing.synchronize_checkpoint_boundary", BOOL),
    IGNORED("activation_checkpointing.profile", BOOL),

    IGNORED("steps_per_print", INTEGER),
    IGNORED("wall_clock_breakdown", BOOL),
    IGNORED("memory_breakdown", BOOL),
    IGNORED("dump_state", BOOL),
    IGNORED("log_level", STRING),
    IGNORED("dataloader_drop_last", BOOL),
    IGNORED("vocabulary_size", INTEGER),
    IGNORED("graph_harvesting", BOOL),
    IGNORED("use_data_before_expert_parallelism", BOOL),
    IGNORED("checkpoint", FREE_OBJECT),
    IGNORED("comms_logger", FREE_OBJECT),
    IGNORED("flops_profiler", FREE_OBJECT),
    IGNORED("tensorboard", FREE_OBJECT),
    IGNORED("wandb", FREE_OBJECT),
    IGNORED("comet", FREE_OBJECT),
    IGNORED("csv_monitor", FREE_OBJECT),
    IGNORED("timers", FREE_OBJECT),
    IGNORED("nebula", FREE_OBJECT),
    IGNORED("datastates_ckpt", FREE_OBJECT),
    IGNORED("compile", FREE_OBJECT),
    FIXED("compile.deepcompile", BOOL, "false", MODELLED),
    IGNORED("autotuning", FREE_OBJECT),
    FIXED("autotuning.enabled", BOOL, "false", MODELLED),
    IGNORED("elasticity", FREE_OBJECT),
    FIXED("elasticity.enabled", BOOL, "false", MODELLED),
    IGNORED("hybrid_engine", FREE_OBJECT),
    FIXED("hybrid_engine.enabled", BOOL, "false", MODELLED),
    IGNORED("eigenvalue", FREE_OBJECT),
    FIXED("eigenvalue.enabled", BOOL, "false", MODELLED),
    IGNORED("progressive_layer_drop", FREE_OBJECT),
    FIXED("progressive_layer_drop.enabled", BOOL, "false", MODELLED),
    IGNORED("curriculum_learning", FREE_OBJECT),
    FIXED("curriculum_learning.enabled", BOOL, "false", MODELLED),
    IGNORED("data_efficiency", FREE_OBJECT),
    FIXED("data_efficiency.enabled", BOOL, "false", MODELLED),
    IGNORED("expert_parallel", FREE_OBJECT),
    FIXED("expert_parallel.enabled", BOOL, "false", MODELLED),
    FIXED("tensor_parallel", FREE_OBJECT, "null|{}", MODELLED),
    FIXED("pipeline", FREE_OBJECT, "null|{}", MODELLED),
    FIXED("sparse_attention", FREE_OBJECT, "null|{}", MODELLED),
    FIXED("compression_training", FREE_OBJECT, "null|{}", MODELLED),
    FIXED("quantize_training", FREE_OBJECT, "null|{}", MODELLED),
    FIXED("weight_quantization", FREE_OBJECT, "null|{}", MODELLED),
};

_Static_assert(sizeof KEYS / sizeof *KEYS <= CONFIG_NOTE_MAX, "a note on every key");

const struct config_key *config_key_at(size_t index)
{
    return index < sizeof KEYS / sizeof *KEYS ? &KEYS[index] : NULL;
}
