// SPDX-License-Identifier: Apache-2.0
// The weights of a checkpoint as other programs read them: whole tensors under their names, in one safetensors file.
#ifndef ZG_EXPORT_H
#define ZG_EXPORT_H

#include "ref/checkpoint/checkpoint.h"

// Writes the parameters, in the manifest's order, rounded to dtype. In memory is a block at a time. The file appears
// under its name when it is complete and durable; what was there before is replaced then, and not before.
int export_weights(const struct checkpoint *checkpoint, const char *path, enum dtype dtype);

// `zerogauge export`
int export_main(int argc, const char **argv);

#endif
