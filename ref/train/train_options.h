// SPDX-License-Identifier: Apache-2.0
// The options of `zerogauge train`: parsed, checked, and turned into the configuration and setting of a run.
#pragma once

#include "ref/comm/launcher.h"
#include "ref/train/train.h"

#define TRAIN_MODEL_DEFAULT "gpt-tiny"

// The values of the command line: null or 0 if not given, unless there is a default.
struct train_options {
    char *preset, *config_path, *model, *schedule, *text_path, *device_memory;
    char *host_memory, *nvme_space, *engine, *emulate, *trace, *inject, *mesh;
    char **set, **nvme_path;
    char *save, *resume, *checkpoint, *weights, *device, *lora, *products, *isa;
    int world, threads;  // world: of the launcher, if there is one
    struct launcher launcher;
    long long steps, seed, every;
    char *verify;  // null: without a word
    int verifies, json, print_config;
    int buffered, no_swap_checksum, sequence_parallel, async_save;
};

// --help prints and ends the program. ERR_USAGE. Close the options after an error, too.
int train_options_parse(int argc, const char **argv, struct train_options *options);
void train_options_close(struct train_options *options);

// The preset or file with the options that change it. notes as in config.h.
int train_options_config(const struct train_options *options, struct config *config, struct config_notes *notes);

// All but configuration, model, text, checkpoints, progress and interruption. *out refers to the options.
int train_options_setting(const struct train_options *options, struct train_setting *out);
