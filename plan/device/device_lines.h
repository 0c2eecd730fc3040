// SPDX-License-Identifier: Apache-2.0
// For the files that count a device's memory: adding lines.
#pragma once

#include "plan/device/device_ledger.h"

#define AT(moment) (1U << (moment))
#define PASSES (AT(MOMENT_LOSS) | AT(MOMENT_LAST_BLOCK) | AT(MOMENT_FIRST_BLOCK))
#define ALWAYS (PASSES | AT(MOMENT_UPDATE))
#define WITH_GRADIENTS (AT(MOMENT_FIRST_BLOCK) | AT(MOMENT_UPDATE))
#define WITH_CHECKPOINTS (AT(MOMENT_LOSS) | AT(MOMENT_LAST_BLOCK))

struct counting {
    const struct device_setting *s;
    const struct framework *framework;
    struct device_memory *m;
    size_t element_bytes;
    bool has_masters;
};

// Adds a line, held at these moments. Returns its bytes, of each tier: zeros.
uint64_t *device_add(const struct counting *c, const char *name, unsigned moments, const char *formula,
                     const char *source);

// The bytes of a parameter on a device: frozen matrices of blocks may have 4 bits.
double device_parameter_bytes(const struct counting *c, const struct model_param *p);

static inline uint64_t device_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
