// SPDX-License-Identifier: Apache-2.0
// The options of `zerogauge train`: read, checked, and made the configuration and setting of a run.
#ifndef ZG_TRAIN_OPTIONS_H
#define ZG_TRAIN_OPTIONS_H

#include "ref/comm/launcher.h"
#include "ref/train/train.h"

#include <stdio.h>

// As they are written; null and 0 where they are not, unless there is a default.
struct train_options {
    char *preset, *config_path, *model, *schedule, *text_path, *device_memory;
    char *host_memory, *nvme_space, *engine, *emulate, *trace, *inject;
    char **set, **nvme_path;
    char *save, *resume, *checkpoint, *weights, *device;
    int world, threads;  // world: of the launcher, if there is one
    struct launcher launcher;
    long long steps, seed, every;
    int verify, json, print_config, find_largest;
    int buffered, no_swap_checksum, native_reduction;
};

// ERR_USAGE; what was read until then is closed all the same. Prints and ends the program on --help.
int train_options_parse(int argc, const char **argv, struct train_options *options);
void train_options_close(struct train_options *options);

// The preset or file with what else is said about it. notes as in config.h.
int train_options_config(const struct train_options *options, struct config *config, struct config_notes *notes);

// All but configuration, model, text, checkpoints, progress and interruption. *out borrows from the options.
int train_options_setting(const struct train_options *options, struct train_setting *out);

// A line for each option that has no meaning beside the configuration.
void train_options_print_unused(const struct train_options *options, const struct config *config, FILE *out);

#endif
