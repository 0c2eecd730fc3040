// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/equation.h"

#include <string.h>

// ZeRO (arXiv 1910.02054): bytes of figure 1 for any K, with terms sharded from stage 3, 2 and 1 on; elements of
// activations by section 3.2. ZeRO-Offload (arXiv 2101.06840): bytes per parameter of table 1, each part on the GPU (1)
// or not (0). FSDP (arXiv 2304.11277), section 3.2: the volume across hosts of one GPU of W in hosts of G. ZeRO++
// (arXiv 2306.10209), section 1: forward gather, backward gather, gradients.
#define PAPER_EQUATIONS(E)                                                                                             \
    E(zero_states, "zero-states",                                                                                      \
      ((a[3] >= 3 ? 2 / a[2] : 2) + (a[3] >= 2 ? 2 / a[2] : 2) + (a[3] >= 1 ? a[1] / a[2] : a[1])) * a[0], "params",   \
      "k", "ranks", "stage")                                                                                           \
    E(zero_activations, "zero-activations", 2 * 12 * a[0] * a[1] * a[2] * a[3], "hidden", "batch", "sequence",         \
      "layers")                                                                                                        \
    E(offload_device, "offload-device", 2 * a[0] + 2 * a[1] + 12 * a[2], "parameters", "gradients", "update")          \
    E(fsdp_replicated, "fsdp-replicated", 2 * a[0] * (a[1] - 1) / a[1], "size", "world")                               \
    E(fsdp_full, "fsdp-full", 3 * a[0] * (a[1] - 1) / a[1], "size", "world")                                           \
    E(fsdp_hybrid, "fsdp-hybrid", 2 * a[0] * (a[1] - 1) / (a[2] * a[1]), "size", "world", "host")                      \
    E(zeropp_volume, "zeropp-volume",                                                                                  \
      (a[1] != 0 ? a[0] / 2 : a[0]) * (a[2] != 0 ? 1 : 2) + (a[3] != 0 ? a[0] / 4 : a[0]), "size", "weights_int8",     \
      "second_copy", "gradients_int4")

// ZeRO-Infinity (arXiv 2104.07857), sections 3 and 4, by its numbers: 1 parameters, 2 bytes of model states, 3 bytes of
// checkpoints, 4 bytes of working memory for states, 5 for activations, 6 efficiency (or the bandwidth in bytes/s that
// gives it), 7 and 8 operations an iteration, 9 to 11 operations a byte of parameters and gradients, of optimizer
// states, of checkpoints.
#define INFINITY_EQUATIONS(E)                                                                                          \
    E(infinity_1, "infinity-1", 12 * a[0] * a[1] * a[1], "layers", "hidden")                                           \
    E(infinity_2, "infinity-2", 240 * a[0] * a[1] * a[1], "layers", "hidden")                                          \
    E(infinity_3, "infinity-3", 2 * a[0] * a[1] * a[2] * a[3] / a[4], "batch", "sequence", "hidden", "layers",         \
      "interval")                                                                                                      \
    E(infinity_4, "infinity-4", 4 * a[0] * 4 * a[0], "hidden")                                                         \
    E(infinity_5, "infinity-5", a[0] * a[1] * a[2] * (16 * a[3] + 2 * a[4] * a[1]), "batch", "sequence", "interval",   \
      "hidden", "heads")                                                                                               \
    E(infinity_6, "infinity-6", a[0] * a[1] / (a[0] * a[1] + a[2]), "intensity", "bandwidth", "peak")                  \
    E(infinity_6_bandwidth, "infinity-6-bandwidth", a[1] / (1 - a[1]) * a[2] / a[0], "intensity", "efficiency",        \
      "peak")                                                                                                          \
    E(infinity_7, "infinity-7", 2 * 4 * a[0] * a[1] * a[2], "batch", "sequence", "params")                             \
    E(infinity_8, "infinity-8", 2 * 4 * 12 * a[0] * a[1] * a[2] * a[3] * a[3], "batch", "sequence", "layers",          \
      "hidden")                                                                                                        \
    E(infinity_9, "infinity-9", a[0] * a[1], "sequence", "batch")                                                      \
    E(infinity_10, "infinity-10", a[0] * a[1] / 4, "sequence", "batch")                                                \
    E(infinity_11, "infinity-11", 24 * a[0] * a[1], "hidden", "interval")

#define FUNCTION(function, name, expression, ...)                                                                      \
    static double function(const double a[])                                                                           \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
PAPER_EQUATIONS(FUNCTION)
INFINITY_EQUATIONS(FUNCTION)

#define ROW(function, name, expression, ...) {name, function, {__VA_ARGS__}},
static const struct equation equations[] = {PAPER_EQUATIONS(ROW) INFINITY_EQUATIONS(ROW){NULL, NULL, {NULL}}};

const struct equation *equation_at(size_t index)
{
    return index + 1 < sizeof equations / sizeof equations[0] ? &equations[index] : NULL;
}

const struct equation *equation_find(const char *name)
{
    size_t i = 0;
    while (equation_at(i) && strcmp(equations[i].name, name) != 0)
        i++;
    return equation_at(i);
}
