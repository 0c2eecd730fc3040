// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/equation.h"

#include <string.h>

// EQUATION_N: an equation of N arguments, its function with the arguments by their names, and its row in the table.
#define EQUATION(id, name, declarations, expression, ...)                                                              \
    static double id##_value(const double a[])                                                                         \
    {                                                                                                                  \
        declarations;                                                                                                  \
        return expression;                                                                                             \
    }                                                                                                                  \
    static const struct equation id = {name, id##_value, {__VA_ARGS__}};
#define ARGUMENT(index, x) const double x = a[index]
#define EQUATION_1(id, name, x, expression) EQUATION(id, name, ARGUMENT(0, x), expression, #x)
#define EQUATION_2(id, name, x, y, expression) EQUATION(id, name, ARGUMENT(0, x); ARGUMENT(1, y), expression, #x, #y)
#define EQUATION_3(id, name, x, y, z, expression)                                                                      \
    EQUATION(id, name, ARGUMENT(0, x); ARGUMENT(1, y); ARGUMENT(2, z), expression, #x, #y, #z)
#define EQUATION_4(id, name, x, y, z, u, expression)                                                                   \
    EQUATION(id, name, ARGUMENT(0, x); ARGUMENT(1, y); ARGUMENT(2, z); ARGUMENT(3, u), expression, #x, #y, #z, #u)
#define EQUATION_5(id, name, x, y, z, u, v, expression)                                                                \
    EQUATION(id, name, ARGUMENT(0, x); ARGUMENT(1, y); ARGUMENT(2, z); ARGUMENT(3, u);                                 \
             ARGUMENT(4, v), expression, #x, #y, #z, #u, #v)

// ZeRO (arXiv:1910.02054), figure 1: bytes of model states, for any K.
EQUATION_4(zero_states, "zero-states", params, k, ranks, stage,
           ((stage >= 3 ? 2 / ranks : 2) + (stage >= 2 ? 2 / ranks : 2) + (stage >= 1 ? k / ranks : k)) * params)
// Section 3.2: elements of activations of a model like GPT-2.
EQUATION_4(zero_activations, "zero-activations", hidden, batch, sequence, layers,
           2 * 12 * hidden * batch * sequence * layers)

// ZeRO-Offload (arXiv:2101.06840), table 1: bytes per parameter on the GPU; each part is there (1) or not (0).
EQUATION_3(offload_device, "offload-device", parameters, gradients, update,
           2 * parameters + 2 * gradients + 12 * update)

// ZeRO-Infinity (arXiv:2104.07857), sections 3 and 4, by its numbers: parameters, bytes of model states, bytes of
// checkpoints.
EQUATION_2(infinity_1, "infinity-1", layers, hidden, 12 * layers * hidden * hidden)
EQUATION_2(infinity_2, "infinity-2", layers, hidden, 240 * layers * hidden * hidden)
EQUATION_5(infinity_3, "infinity-3", batch, sequence, hidden, layers, interval,
           2 * batch * sequence * hidden * layers / interval)
// Bytes of working memory for model states, and for activations.
EQUATION_1(infinity_4, "infinity-4", hidden, 4 * hidden * 4 * hidden)
EQUATION_5(infinity_5, "infinity-5", batch, sequence, interval, hidden, heads,
           (batch * sequence * interval * (16 * hidden + 2 * heads * sequence)))
// Efficiency; and the bandwidth in bytes/s that gives it.
EQUATION_3(infinity_6, "infinity-6", intensity, bandwidth, peak,
           (intensity * bandwidth / (intensity * bandwidth + peak)))
EQUATION_3(infinity_6_bandwidth, "infinity-6-bandwidth", intensity, efficiency, peak,
           efficiency / (1 - efficiency) * peak / intensity)
// Operations per iteration.
EQUATION_3(infinity_7, "infinity-7", batch, sequence, params, 2 * 4 * batch * sequence * params)
EQUATION_4(infinity_8, "infinity-8", batch, sequence, layers, hidden,
           2 * 4 * 12 * batch * sequence * layers * hidden * hidden)
// Operations per byte of parameters and gradients, of optimizer states, of checkpoints.
EQUATION_2(infinity_9, "infinity-9", sequence, batch, (sequence * batch))
EQUATION_2(infinity_10, "infinity-10", sequence, batch, (sequence * batch / 4))
EQUATION_2(infinity_11, "infinity-11", hidden, interval, 24 * hidden * interval)

// FSDP (arXiv:2304.11277), section 3.2: the volume across hosts of one GPU of `world` in hosts of `host`.
EQUATION_2(fsdp_replicated, "fsdp-replicated", size, world, 2 * size * (world - 1) / world)
EQUATION_2(fsdp_full, "fsdp-full", size, world, 3 * size * (world - 1) / world)
EQUATION_3(fsdp_hybrid, "fsdp-hybrid", size, world, host, 2 * size * (world - 1) / (host * world))

// ZeRO++ (arXiv:2306.10209), section 1: forward gather, backward gather, gradients; flags are 0 or 1.
EQUATION_4(zeropp_volume, "zeropp-volume", size, weights_int8, second_copy, gradients_int4,
           (weights_int8 != 0 ? size / 2 : size) * (second_copy != 0 ? 1 : 2) + (gradients_int4 != 0 ? size / 4 : size))

static const struct equation *const equations[] = {
    &zero_states, &zero_activations, &offload_device, &fsdp_replicated,      &fsdp_full,
    &fsdp_hybrid, &zeropp_volume,    &infinity_1,     &infinity_2,           &infinity_3,
    &infinity_4,  &infinity_5,       &infinity_6,     &infinity_6_bandwidth, &infinity_7,
    &infinity_8,  &infinity_9,       &infinity_10,    &infinity_11,          NULL};

const struct equation *equation_at(size_t index)
{
    return index < sizeof equations / sizeof equations[0] ? equations[index] : NULL;
}

const struct equation *equation_find(const char *name)
{
    size_t i = 0;
    while (equations[i] && strcmp(equations[i]->name, name) != 0)
        i++;
    return equations[i];
}
