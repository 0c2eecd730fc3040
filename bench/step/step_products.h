// SPDX-License-Identifier: Apache-2.0
// The matrix products of a model's step on one rank, forward and backward.
#ifndef ZG_STEP_PRODUCTS_H
#define ZG_STEP_PRODUCTS_H

#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

enum { STEP_PRODUCTS_MAX = 20 };

// c (m x n) = a (m x k) b (k x n), `count` times.
struct step_product {
    size_t m, n, k, count;
    bool a_transposed, b_transposed;
};

// Products that run one after the other.
struct step_products {
    struct step_product products[STEP_PRODUCTS_MAX];
    size_t product_count;
};

// Writes the products of a GPT or a Llama for one micro-batch. ERR_USAGE: another model.
int step_products_of_model(const struct model *model, size_t sequence_count, struct step_products *out);

#endif
