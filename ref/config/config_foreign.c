// SPDX-License-Identifier: Apache-2.0
// Other programs' configurations, recognized by their outermost keys.
#include "ref/config/config_keys.h"

#include <stdio.h>
#include <string.h>

enum { PROGRAM_KEYS = 16 };

#define OF_TRAINER "output_dir", "per_device_train_batch_size", "num_train_epochs", "learning_rate", "lr_scheduler_type"

// Where two programs share keys, the one with more of a file's keys is meant; the first of equals.
static const struct {
    const char *name, *keys[PROGRAM_KEYS];
} programs[] = {
    {"Hugging Face's Trainer", {OF_TRAINER, "save_strategy", "logging_steps", "per_device_eval_batch_size"}},
    {"LLaMA-Factory", {OF_TRAINER, "finetuning_type", "template", "cutoff_len", "dataset_dir", "model_name_or_path"}},
    {"Axolotl",
     {"base_model", "micro_batch_size", "sequence_len", "datasets", "adapter", "sample_packing", "load_in_4bit",
      "load_in_8bit", "val_set_size", "num_epochs"}},
    {"torchtune",
     {"tokenizer", "checkpointer", "max_steps_per_epoch", "metric_logger", "enable_activation_checkpointing"}},
    {"GPT-NeoX",
     {"pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size", "num_layers",
      "num-layers", "vocab_file", "vocab-file", "data_path", "data-path", "train_iters", "train-iters"}},
    {"torchtitan", {"job", "training", "parallelism", "metrics", "activation_checkpoint"}},
    {"NeMo", {"trainer", "exp_manager", "restore_from_path"}},
};

const char *config_foreign_hint(char out[CONFIG_HINT_BYTES], const char *const keys[], size_t count)
{
    const char *found = NULL;
    size_t most = 0;
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        size_t matches = 0;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < PROGRAM_KEYS && programs[p].keys[k]; k++)
                matches += strcmp(keys[i], programs[p].keys[k]) == 0;
        if (matches > most) {
            most = matches;
            found = programs[p].name;
        }
    }
    if (!found)
        return NULL;
    snprintf(out, CONFIG_HINT_BYTES,
             "the file looks like one of %s: give the file of DeepSpeed or Accelerate that it names", found);
    return out;
}
