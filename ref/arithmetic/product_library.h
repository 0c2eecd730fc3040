// SPDX-License-Identifier: Apache-2.0
// Libraries of matrix products, with which `bench product` compares our own. No product of a model is theirs.
#pragma once

#include "ref/arithmetic/matmul.h"

enum { PRODUCT_LIBRARY_NAME_BYTES = 128, PRODUCT_LIBRARY_MAX = 2 };

struct product_library {
    const char *key;                        // "openblas", "onednn"
    char name[PRODUCT_LIBRARY_NAME_BYTES];  // "OpenBLAS 0.3.21, kernels for Zen"; where it is absent, what to install
    void (*set_threads)(int count);         // null: it takes OpenMP's
    void (*multiply)(const struct matmul_product *product);  // of floats, alpha 1; null: it is absent
};

// Loads OpenBLAS and oneDNN. Where OpenBLAS chooses kernels without this processor's vectors, as on one that is newer
// than itself, it is loaded again with OPENBLAS_CORETYPE, unless that is set. Returns PRODUCT_LIBRARY_MAX libraries,
// the same in every call.
const struct product_library *product_libraries(void);
