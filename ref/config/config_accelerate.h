// SPDX-License-Identifier: Apache-2.0
// Configurations of Hugging Face Accelerate, which its launcher reads from YAML.
#ifndef ZG_CONFIG_ACCELERATE_H
#define ZG_CONFIG_ACCELERATE_H

#include "ref/config/config.h"

#include <jansson.h>

// True if the name of a file ends as that of a YAML file.
bool config_is_accelerate(const char *file);

// Reads a text in YAML and returns DeepSpeed's keys of the same meaning: those of its sections deepspeed_config and
// fsdp_config, the precision, and the micro-batch as "auto", which Accelerate leaves to the program. Keys that have no
// meaning here are noted; notes may be null. ERR_USAGE: `NAME:LINE: key: what is wrong, what was expected`. The caller
// owns *out. Keys: accelerate/utils/dataclasses.py, DeepSpeedPlugin and FullyShardedDataParallelPlugin, of 1.15.
int config_read_accelerate(const char *name, const char *text, size_t bytes, struct config_notes *notes, json_t **out);

#endif
