// SPDX-License-Identifier: Apache-2.0
// The weights of a checkpoint for other programs: unsharded tensors under their names, in one safetensors file.
#ifndef ZG_EXPORT_H
#define ZG_EXPORT_H

#include "ref/checkpoint/checkpoint.h"

// Writes the parameters, in the manifest's order, rounded to dtype, a block at a time. The file gets its name, and
// replaces an earlier one, only when it is complete and durable.
int export_weights(const struct checkpoint *checkpoint, const char *path, enum dtype dtype);

// `zerogauge export`
int export_main(int argc, const char **argv);

#endif
