// SPDX-License-Identifier: Apache-2.0
// The rate of matrix products with as many concurrent threads as a step has ranks: products of the shapes of a GPT's
// layers, and large square ones. The roofline of a step's computation.
#pragma once

#include "bench/harness/bench_device.h"
#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

struct step_peak;

struct step_peak_setting {
    const struct bench_device *device;  // null: the CPU. Threads take its devices round-robin, as ranks do
    size_t sequences;                   // of a rank's micro-batch
    int threads;
    size_t side;       // of the square products
    enum dtype dtype;  // of all operands, as in matmul_operands
    double seconds;    // per measurement, at least all products once
};

// Prepares the products of one rank's micro-batch, forward and backward, and the square ones. model: null for the
// square ones alone. ERR_USAGE: the model is not a GPT.
int step_peak_open(const struct model *model, const struct step_peak_setting *setting, struct step_peak **out);
void step_peak_close(struct step_peak *peak);  // null-safe

// Measure the Gflop/s of all threads together, then verify the products. ERR_CHECK: one is wrong.
int step_peak_of_model(struct step_peak *peak, double *gflops);
int step_peak_of_square(struct step_peak *peak, double *gflops);

// Returns the least operations of one measurement, of all threads.
double step_peak_model_flops(const struct step_peak *peak);

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
