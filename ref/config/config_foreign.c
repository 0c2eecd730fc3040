// SPDX-License-Identifier: Apache-2.0
// Other programs' configurations: their outermost keys, the rows of keys, and TOML as YAML.
#include "base/err.h"
#include "ref/config/config_accelerate.h"
#include "ref/config/config_doc.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define OF_TRAINER "output_dir", "per_device_train_batch_size", "num_train_epochs", "learning_rate", "lr_scheduler_type"
#define PLAN ACCELERATE_PLAN
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
     .defaults = {"train_micro_batch_size_per_gpu=8", PLAN "lora=16"}},
    {.name = "LLaMA-Factory",
     .rows = trainer_rows,
     .keys = {OF_TRAINER, "finetuning_type", "template", "cutoff_len", "dataset_dir", "model_name_or_path"},
     .defaults = {"train_micro_batch_size_per_gpu=8", CHECKPOINTING "true", PLAN "lora=8", PLAN "sequence_length=2048"},
     .has_adapters = true},
    READ("Axolotl", trainer_rows, "base_model", "micro_batch_size", "sequence_len", "datasets", "adapter",
         "sample_packing", "load_in_4bit", "load_in_8bit", "val_set_size", "num_epochs"),
    {.name = "torchtune",
     .rows = torchtune_rows,
     .keys = {"tokenizer", "checkpointer", "max_steps_per_epoch", "metric_logger", "enable_activation_checkpointing",
              "loss"},
     .defaults = {"own.fsdp=true", PLAN "framework=torchtune"}},
    {.name = "GPT-NeoX",
     .rows = neox_rows,
     .keys = {"pipe_parallel_size", "model_parallel_size", "num_layers", "vocab_file", "data_path", "train_iters",
              "seq_length", "hidden_size"},
     .defaults = {PLAN "framework=deepspeed"}},
    {.name = "torchtitan",
     .rows = torchtitan_rows,
     .keys = {"job", "training", "parallelism", "metrics", "activation_checkpoint"},
     .defaults = {"own.fsdp=true", PLAN "framework=fsdp2", "train_micro_batch_size_per_gpu=8",
                  PLAN "sequence_length=2048", PLAN "checkpointed=0.5", "bf16.enabled=true", "gradient_clipping=1",
                  "communication_data_type=fp32"}},
    NAMED("Lightning", "write its batch, dtype and sharding as a configuration of DeepSpeed or Accelerate", "trainer",
          "model", "data", "seed_everything", "ckpt_path"),
    {.name = "NeMo",
     .rows = nemo_rows,
     .keys = {"trainer", "exp_manager", "restore_from_path", "model"},
     .defaults = {PLAN "framework=megatron", "data_types.grad_accum_dtype=fp32"}},
    {.name = "Megatron-LM",
     .rows = megatron_rows,
     .keys = {"ENV_VARS", "MODEL_ARGS", "TEST_TYPE"},
     .defaults = {PLAN "framework=megatron", "data_types.grad_accum_dtype=fp32"}},
    {.name = "verl",
     .rows = verl_rows,
     .keys = {"actor_rollout_ref", "algorithm", "critic", "reward_model", "trainer", "data", "optim",
              "use_remove_padding", "ulysses_sequence_parallel_size"},
     .defaults = {"own.fsdp=true", "bf16.enabled=true"}},
    {.name = "LitGPT",
     .rows = litgpt_rows,
     .keys = {"checkpoint_dir", "out_dir", "precision", "devices", "train", "eval", "data"},
     .defaults = {"own.fsdp=true", PLAN "framework=fsdp2"}},
    {.name = "LLM Foundry",
     .rows = foundry_rows,
     .keys = {"train_loader", "max_duration", "global_train_batch_size", "device_train_microbatch_size", "fsdp_config",
              "max_seq_len"},
     .defaults = {PLAN "framework=fsdp2"}},
    {.name = "OLMo",
     .rows = olmo_rows,
     .keys = {"global_train_batch_size", "device_train_microbatch_size", "max_duration", "save_interval_unsharded",
              "save_num_checkpoints_to_keep", "activation_checkpointing"},
     .defaults = {"own.fsdp=true", PLAN "framework=fsdp2"}},
    NAMED("PEFT's adapters", "give its rank to --lora", "peft_type", "base_model_name_or_path", "target_modules",
          "lora_alpha", "task_type", "auto_mapping"),
    NAMED("a model of Hugging Face", "give it to plan --model", "model_type", "architectures", "num_attention_heads",
          "num_hidden_layers", "vocab_size", "hidden_size", "hidden_act"),
};

// GPT-NeoX's keys also have hyphens.
static bool is_same(const char *key, const char *name)
{
    for (; *key && (*key == *name || (*key == '-' && *name == '_')); key++)
        name++;
    return *key == *name;
}

const struct config_program *config_program_of(const char *const keys[], size_t count)
{
    const struct config_program *found = NULL;
    size_t most = 1;
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        size_t matches = 0;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < sizeof programs->keys / sizeof *programs->keys && programs[p].keys[k]; k++)
                matches += is_same(keys[i], programs[p].keys[k]);
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
    if (end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0 || strcmp(end, ".toml") == 0))
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

static const char *next_word(const char *word)
{
    const char *end = strchr(word, '|');
    return end ? end + 1 : NULL;
}

const char *accelerate_path_at(size_t index)
{
    static _Thread_local char path[CONFIG_PATH_BYTES];
    for (const struct accelerate_row *row = accelerate_rows; row->key; row++)
        for (const char *word = row->key; word; word = next_word(word))
            if (index-- == 0) {
                snprintf(path, sizeof path, "%.*s", (int)strcspn(word, "|"), word);
                return path;
            }
    return NULL;
}

// True if one of a row's keys is this key or a section around it.
static bool has_word(const struct accelerate_row *row, const char *key)
{
    for (const char *word = row->key; word; word = next_word(word)) {
        size_t bytes = strcspn(word, "|");
        if (strncmp(word, key, bytes) == 0 && (!key[bytes] || (key[bytes] == '.' && !row->value)))
            return true;
    }
    return false;
}

static bool has_value(const struct accelerate_row *row, const char *value)
{
    for (const char *word = row->value; word; word = next_word(word)) {
        size_t bytes = strcspn(word, "|");
        if (*word == '*' ? memmem(value, strlen(value), word + 1, bytes - 1) != NULL
                         : strncasecmp(word, value, bytes) == 0 && !value[bytes])
            return true;
    }
    return !row->value;
}

const struct accelerate_row *accelerate_row_find(const struct accelerate_row *row, const char *key, const char *value)
{
    while (row->key && !(has_word(row, key) && has_value(row, value)))
        row++;
    return row->key ? row : NULL;
}

// "[NAME]" becomes "NAME:", and "NAME = VALUE" a line of that section. Other lines are the rest of a list, or comments.
static void write_line(const char *line, size_t bytes, bool in_table, FILE *out)
{
    const char *equals = memchr(line, '=', bytes), *close = memchr(line, ']', bytes);
    if (*line == '[' && close && (close + 1 == line + bytes || strchr(" \t\r#", close[1])))
        fprintf(out, "%.*s:", (int)(close - line) - 1, line + 1);
    else if (equals && (isalnum((unsigned char)*line) || *line == '_'))
        fprintf(out, "%s%.*s: %.*s", in_table ? "  " : "", (int)(equals - line), line,
                (int)(bytes - 1 - (size_t)(equals - line)), equals + 1);
    else
        fprintf(out, "    %.*s", (int)bytes, line);
}

char *config_yaml_of_toml(const char *text, size_t bytes, size_t *out_bytes)
{
    char *yaml = NULL;
    FILE *out = open_memstream(&yaml, out_bytes);
    bool in_table = false;
    for (size_t at = 0; out && at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t end = newline ? (size_t)(newline - text) : bytes;
        while (at < end && (text[at] == ' ' || text[at] == '\t'))
            at++;
        if (end > at)
            write_line(text + at, end - at, in_table, out);
        in_table |= end > at && text[at] == '[';
        fputc('\n', out);
        at = end + 1;
    }
    return out && fclose(out) == 0 ? yaml : NULL;
}
