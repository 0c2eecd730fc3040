// SPDX-License-Identifier: Apache-2.0
// Which of its kernels OpenBLAS has chosen, and whether they suit this processor.
#ifndef ZG_INFO_OPENBLAS_H
#define ZG_INFO_OPENBLAS_H

#include "ref/arithmetic/isa.h"

#include <jansson.h>

#include <stdbool.h>

enum { OPENBLAS_WARNING_BYTES = 256 };

// Writes what is wrong with kernels for `core` on a processor whose best instruction set is `best`, and the variable
// that helps. OpenBLAS falls back to its oldest kernels on a processor that is newer than itself. Returns false, with
// an empty text, if nothing is wrong.
bool openblas_warning(const char *core, enum isa best, char out[OPENBLAS_WARNING_BYTES]);

// {"config", "core", "threading", "warning"}; warning is null if nothing is wrong. Loads OpenBLAS. New.
json_t *info_openblas(void);

#endif
