// SPDX-License-Identifier: Apache-2.0
// The accelerator of the unsharded run, where there is one: the model computes there, and all else is done here.
#ifndef ZG_ORACLE_DEVICE_H
#define ZG_ORACLE_DEVICE_H

#include "ref/arithmetic/accelerator.h"
#include "ref/tier/tier.h"

#include <stddef.h>

// An array of the oracle, and the same array where the model reads or writes it.
struct oracle_array {
    void *here;
    void *there;  // on the accelerator; without one, `here`
    size_t bytes;
};

// *out is null without an accelerator.
int oracle_device_open(const struct accelerator *accelerator, int device, struct tier **out);

// Zeros. name: of the tensor, for messages. The memory on the accelerator is the tier's.
int oracle_array_open(struct tier *tier, size_t bytes, const char *name, struct oracle_array *out);
void oracle_array_close(struct oracle_array *array);

// Copy the array to the model, or from it. The model must be idle, and the copy is complete on return.
int oracle_array_push(const struct oracle_array *array);
int oracle_array_pull(const struct oracle_array *array);

#endif
