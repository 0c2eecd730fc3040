// SPDX-License-Identifier: Apache-2.0
// What matrix products reach here with as many threads as a step has ranks, all at once: those of a GPT's own layers,
// and large square ones. The roofline of a step's computation, where the ranks compute.
#ifndef ZG_STEP_PEAK_H
#define ZG_STEP_PEAK_H

#include "bench/harness/bench_device.h"
#include "ref/model/model.h"

struct step_peak;

struct step_peak_setting {
    const struct bench_device *device;  // null: this processor. Threads take turns on its devices, as ranks do
    size_t sequences;                   // of a rank's micro-batch
    int threads;
    size_t side;     // of the square products
    double seconds;  // of each measurement, or once through all products if that is longer
};

// Products of one rank's micro-batch, forward and backward, and square ones. ERR_USAGE for what is no GPT.
int step_peak_open(const struct model *model, const struct step_peak_setting *setting, struct step_peak **out);
void step_peak_close(struct step_peak *peak);  // null-safe

// Gflop/s of all threads together. Afterwards, when no clock runs, the products are compared: ERR_CHECK.
int step_peak_of_model(struct step_peak *peak, double *gflops);
int step_peak_of_square(struct step_peak *peak, double *gflops);

// Operations of one measurement at least, of all threads.
double step_peak_model_flops(const struct step_peak *peak);

#endif
