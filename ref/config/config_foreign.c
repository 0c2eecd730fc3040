// SPDX-License-Identifier: Apache-2.0
// Other programs' configurations: their outermost keys, and the trainers' keys that are read.
#include "base/err.h"
#include "ref/config/config_accelerate.h"
#include "ref/config/config_doc.h"

#include <stdio.h>
#include <string.h>

#define OF_TRAINER "output_dir", "per_device_train_batch_size", "num_train_epochs", "learning_rate", "lr_scheduler_type"
#define AS_A_FILE "write its batch, dtype and sharding as a configuration of DeepSpeed or Accelerate"
#define CHECKPOINTING "zerogauge.activation_checkpointing.enabled="
#define READ(name_, rows_, ...)                                                                                        \
    {                                                                                                                  \
        .name = name_, .rows = rows_, .keys = { __VA_ARGS__ }                                                          \
    }
#define NAMED(name_, advice_, ...)                                                                                     \
    {                                                                                                                  \
        .name = name_, .advice = advice_, .keys = { __VA_ARGS__ }                                                      \
    }

// Where two programs share keys, the one with more of a file's keys is meant; the first of equals.
static const struct config_program programs[] = {
    READ("Accelerate", accelerate_rows, "compute_environment", "distributed_type", "deepspeed_config",
         "mixed_precision", "main_training_function", "num_machines", "machine_rank", "num_processes"),
    {.name = "Hugging Face's Trainer",
     .rows = trainer_rows,
     .keys = {OF_TRAINER, "save_strategy", "logging_steps", "per_device_eval_batch_size"},
     .defaults = {"train_micro_batch_size_per_gpu=8"}},
    {.name = "LLaMA-Factory",
     .rows = trainer_rows,
     .keys = {OF_TRAINER, "finetuning_type", "template", "cutoff_len", "dataset_dir", "model_name_or_path"},
     .defaults = {"train_micro_batch_size_per_gpu=8", CHECKPOINTING "true"},
     .unless_full = "finetuning_type: missing, expected full: adapters are trained without it"},
    READ("Axolotl", trainer_rows, "base_model", "micro_batch_size", "sequence_len", "datasets", "adapter",
         "sample_packing", "load_in_4bit", "load_in_8bit", "val_set_size", "num_epochs"),
    NAMED("torchtune", AS_A_FILE, "tokenizer", "checkpointer", "max_steps_per_epoch", "metric_logger",
          "enable_activation_checkpointing", "loss"),
    NAMED("GPT-NeoX", "write its keys of DeepSpeed into a file of their own, and its parallel sizes as zerogauge.mesh",
          "pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size", "num_layers",
          "num-layers", "vocab_file", "vocab-file", "data_path", "data-path", "train_iters", "train-iters"),
    NAMED("torchtitan", AS_A_FILE, "job", "training", "parallelism", "metrics", "activation_checkpoint"),
    NAMED("NeMo or Lightning", AS_A_FILE, "trainer", "exp_manager", "restore_from_path", "model"),
    NAMED("Megatron-LM", AS_A_FILE, "ENV_VARS", "MODEL_ARGS", "TEST_TYPE"),
    NAMED("verl", AS_A_FILE, "actor_rollout_ref", "algorithm", "critic", "reward_model", "trainer"),
    NAMED("LitGPT", AS_A_FILE, "checkpoint_dir", "out_dir", "precision", "devices", "train", "eval", "data"),
    NAMED("LLM Foundry", AS_A_FILE, "train_loader", "max_duration", "global_train_batch_size",
          "device_train_microbatch_size", "fsdp_config", "max_seq_len"),
    NAMED("OLMo", AS_A_FILE, "global_train_batch_size", "device_train_microbatch_size", "max_duration",
          "save_interval_unsharded", "save_num_checkpoints_to_keep", "activation_checkpointing"),
    NAMED("PEFT's adapters", "give its rank to --lora", "peft_type", "base_model_name_or_path", "target_modules",
          "lora_alpha", "task_type", "auto_mapping"),
    NAMED("a model of Hugging Face", "give it to plan --model", "model_type", "architectures", "num_attention_heads",
          "num_hidden_layers", "vocab_size", "hidden_size", "hidden_act"),
};

const struct config_program *config_program_of(const char *const keys[], size_t count)
{
    const struct config_program *found = NULL;
    size_t most = 1;
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        size_t matches = 0;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < sizeof programs->keys / sizeof *programs->keys && programs[p].keys[k]; k++)
                matches += strcmp(keys[i], programs[p].keys[k]) == 0;
        if (matches > most) {
            most = matches;
            found = &programs[p];
        }
    }
    return found;
}

const struct config_program *config_program_of_json(json_t *root)
{
    enum { KEYS_MAX = 256 };
    const char *keys[KEYS_MAX], *name;
    json_t *value;
    size_t count = 0;
    json_object_foreach (root, name, value)
        if (count < KEYS_MAX)
            keys[count++] = name;
    return config_program_of(keys, count);
}

// Accelerate's own keys count alone, too: no other program has them, and it reads a file that has few others.
static bool has_key(const json_t *root)
{
    static const char *const own[] = {"compute_environment", "distributed_type", "fsdp_config", "deepspeed_config",
                                      "mixed_precision"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_object_get(root, own[i]))
            return true;
    return false;
}

bool config_is_foreign(const char *file, const char *text, size_t bytes)
{
    const char *end = strrchr(file, '.');
    if (end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0))
        return true;
    json_t *root = json_loadb(text, bytes, 0, NULL);
    const struct config_program *program = config_program_of_json(root);
    bool is_foreign = has_key(root) || (program && program->rows);
    json_decref(root);
    return is_foreign;
}

const char *config_foreign_hint(char out[CONFIG_HINT_BYTES], const struct config_program *program)
{
    if (!program || !program->advice)
        return NULL;
    snprintf(out, CONFIG_HINT_BYTES, "the file looks like one of %s: %s", program->name, program->advice);
    return out;
}

#define PARAMS "optimizer.params."
#define ADAPTERS "expected full training: a plan takes adapters by --lora RANK"
#define FP32 "master parameters and moments are always fp32"
#define BITS "expected weights of 16 or 32 bits"
#define ADAM "expected adamw_torch: no other optimizer is supported"
#define ADAM_OFF "expected false: no other optimizer is supported"
#define ADAMW(key_, value_)                                                                                            \
    {                                                                                                                  \
        key_, value_, {"own.adamw=true"}, NULL                                                                         \
    }
#define ADAMWS(key_)                                                                                                   \
    ADAMW(key_, "adamw_torch"), ADAMW(key_, "adamw_torch_fused"), ADAMW(key_, "adamw_hf"),                             \
        ADAMW(key_, "adamw_apex_fused"), ADAMW(key_, "adamw"),                                                         \
    {                                                                                                                  \
        key_, NULL, {0}, ADAM                                                                                          \
    }
#define FSDP(words_, ...)                                                                                              \
    {                                                                                                                  \
        "fsdp", words_, {__VA_ARGS__}, NULL                                                                            \
    }
#define ALONE(key_)                                                                                                    \
    {key_, "1", {"own.alone=true"}, NULL},                                                                             \
    {                                                                                                                  \
        key_, NULL, {0}, "expected 1: it is not modelled here"                                                         \
    }
#define NOT(key_, why_)                                                                                                \
    {key_, "false", {"own.off=true"}, NULL},                                                                           \
    {                                                                                                                  \
        key_, NULL, {0}, why_                                                                                          \
    }

// Sources: transformers/training_args.py of 5.24; src/llamafactory/hparams of LLaMA-Factory; src/axolotl/utils/schemas
// of Axolotl. All other keys are noted.
const struct accelerate_row trainer_rows[] = {
    {"learning_rate", NULL, {PARAMS "lr=%s"}, NULL},
    {"per_device_train_batch_size", NULL, {"train_micro_batch_size_per_gpu=%s"}, NULL},
    {"micro_batch_size", NULL, {"train_micro_batch_size_per_gpu=%s"}, NULL},
    {"gradient_accumulation_steps", NULL, {"gradient_accumulation_steps=%s"}, NULL},
    {"max_grad_norm", NULL, {"gradient_clipping=%s"}, NULL},
    {"weight_decay", NULL, {PARAMS "weight_decay=%s"}, NULL},
    {"adam_beta1", NULL, {"own.beta1=%s"}, NULL},
    {"adam_beta2", NULL, {"own.beta2=%s"}, NULL},
    {"adam_epsilon", NULL, {PARAMS "eps=%s"}, NULL},
    {"bf16", "full", {0}, "expected true: " FP32},
    {"bf16", NULL, {"bf16.enabled=%s"}, NULL},
    {"fp16", NULL, {"fp16.enabled=%s"}, NULL},
    {"gradient_checkpointing", "true", {CHECKPOINTING "true"}, NULL},
    {"gradient_checkpointing", "false", {CHECKPOINTING "false"}, NULL},
    {"gradient_checkpointing", NULL, {0}, "expected true or false"},
    {"disable_gradient_checkpointing", "true", {CHECKPOINTING "false"}, NULL},
    {"disable_gradient_checkpointing", "false", {CHECKPOINTING "true"}, NULL},
    {"deepspeed", NULL, {"own.file=%s"}, NULL},
    ADAMWS("optim"),
    ADAMWS("optimizer"),
    {"finetuning_type", "full", {"own.full=true"}, NULL},
    {"finetuning_type", NULL, {0}, "expected full: a plan takes adapters by --lora RANK"},
    {"adapter", NULL, {0}, ADAPTERS},
    NOT("use_peft", ADAPTERS),
    NOT("load_in_4bit", BITS),
    NOT("load_in_8bit", BITS),
    {"quantization_bit", NULL, {0}, BITS},
    NOT("fp8", BITS),
    NOT("pure_bf16", "expected bf16: " FP32),
    NOT("use_galore", ADAM_OFF),
    NOT("use_apollo", ADAM_OFF),
    NOT("use_badam", ADAM_OFF),
    NOT("use_adam_mini", ADAM_OFF),
    NOT("use_muon", ADAM_OFF),
    FSDP("true", "own.fsdp=true"),
    FSDP("full_shard", "own.fsdp=true"),
    FSDP("full_shard auto_wrap", "own.fsdp=true"),
    FSDP("shard_grad_op", ACCELERATE_GRAD_OP),
    FSDP("shard_grad_op auto_wrap", ACCELERATE_GRAD_OP),
    FSDP("full_shard offload", ACCELERATE_FULL_SHARD, ACCELERATE_OFFLOAD),
    FSDP("full_shard auto_wrap offload", ACCELERATE_FULL_SHARD, ACCELERATE_OFFLOAD),
    FSDP("full_shard offload auto_wrap", ACCELERATE_FULL_SHARD, ACCELERATE_OFFLOAD),
    {"fsdp", NULL, {0}, "expected full_shard or shard_grad_op, with auto_wrap, and full_shard also with offload"},
    {"fsdp_version", NULL, {"own.fsdp=true"}, NULL},
    {"dp_replicate_size", NULL, {"own.replicate=%s"}, NULL},
    {"dp_shard_size", NULL, {"own.shard=%s"}, NULL},
    {"tensor_parallel_size", NULL, {"own.tensor=%s"}, NULL},
    {"context_parallel_size", "1", {"own.alone=true"}, NULL},
    {"context_parallel_size", NULL, {0}, "expected 1: a plan takes it by --mesh context=C"},
    ALONE("sequence_parallel_degree"),
    ALONE("sequence_parallel_size"),
    {NULL, NULL, {0}, NULL},
};

static int set_mesh(const char *name, json_t *root, const json_t *own, const json_t *places)
{
    static const char *const axes[] = {"replicate", "shard", "tensor"};
    char mesh[256] = "zerogauge.mesh=", path[64];
    size_t start = strlen(mesh), used = start;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const json_t *degree = json_object_get(own, axes[i]);
        snprintf(path, sizeof path, "own.%s", axes[i]);
        if (degree && !json_is_integer(degree))
            return err_set(ERR_USAGE, "%s:%s: expected a whole number", name,
                           json_string_value(json_object_get(places, path)));
        if (degree && json_integer_value(degree) != 1)
            used += (size_t)snprintf(mesh + used, sizeof mesh - used, "%s%s=%lld", used > start ? "," : "", axes[i],
                                     (long long)json_integer_value(degree));
    }
    return used > start ? config_doc_set(root, mesh) : ERR_NONE;
}

static int set_betas(json_t *root, const json_t *own)
{
    const json_t *first = json_object_get(own, "beta1"), *second = json_object_get(own, "beta2");
    char text[256];
    if (!first && !second)
        return ERR_NONE;
    snprintf(text, sizeof text, "optimizer.params.betas=[%.17g,%.17g]", first ? json_number_value(first) : 0.9,
             second ? json_number_value(second) : 0.999);
    return config_doc_set(root, text);
}

int accelerate_combine(const char *name, json_t *root, const json_t *places)
{
    const json_t *own = json_object_get(root, "own");
    TRY(set_mesh(name, root, own, places));
    return set_betas(root, own);
}
