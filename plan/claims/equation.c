// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/equation.h"

#include <string.h>

// ZeRO (arXiv 1910.02054), figure 1; K is the optimizer's multiplier. Here for a K that no recipe of the stages has.
static double zero_states(const double a[])
{
    double psi = a[0], k = a[1], ranks = a[2];
    int stage = (int)a[3];
    double parameters = stage >= 3 ? 2 / ranks : 2, gradients = stage >= 2 ? 2 / ranks : 2;
    return (parameters + gradients + (stage >= 1 ? k / ranks : k)) * psi;
}

// ZeRO, section 3.2, of a model like GPT-2.
static double zero_activations(const double a[])
{
    double hidden = a[0], batch = a[1], sequence = a[2], layers = a[3];
    return 2 * 12 * hidden * batch * sequence * layers;
}

// ZeRO-Offload (arXiv 2101.06840), table 1: what of 2M + 2M + 12M is on the GPU.
static double offload_device(const double a[])
{
    return 2 * a[0] + 2 * a[1] + 12 * a[2];
}

// ZeRO-Infinity (arXiv 2104.07857), sections 3 and 4.
static double infinity_1(const double a[])
{
    double layers = a[0], hidden = a[1];
    return 12 * layers * hidden * hidden;
}

static double infinity_2(const double a[])
{
    double layers = a[0], hidden = a[1];
    return 240 * layers * hidden * hidden;
}

static double infinity_3(const double a[])
{
    double batch = a[0], sequence = a[1], hidden = a[2], layers = a[3], interval = a[4];
    return 2 * batch * sequence * hidden * layers / interval;
}

static double infinity_4(const double a[])
{
    double hidden = a[0];
    return 4 * hidden * 4 * hidden;
}

static double infinity_5(const double a[])
{
    double batch = a[0], sequence = a[1], interval = a[2], hidden = a[3], heads = a[4];
    return batch * sequence * interval * (16 * hidden + 2 * heads * sequence);
}

static double infinity_6(const double a[])
{
    double intensity = a[0], bandwidth = a[1], peak = a[2];
    return intensity * bandwidth / (intensity * bandwidth + peak);
}

// Equation 6, solved for the bandwidth.
static double infinity_6_bandwidth(const double a[])
{
    double intensity = a[0], efficiency = a[1], peak = a[2];
    return efficiency / (1 - efficiency) * peak / intensity;
}

static double infinity_7(const double a[])
{
    double batch = a[0], sequence = a[1], params = a[2];
    return 2 * 4 * batch * sequence * params;
}

static double infinity_8(const double a[])
{
    double batch = a[0], sequence = a[1], layers = a[2], hidden = a[3];
    return 2 * 4 * 12 * batch * sequence * layers * hidden * hidden;
}

static double infinity_9(const double a[])
{
    double sequence = a[0], batch = a[1];
    return sequence * batch;
}

static double infinity_10(const double a[])
{
    double sequence = a[0], batch = a[1];
    return sequence * batch / 4;
}

static double infinity_11(const double a[])
{
    double hidden = a[0], interval = a[1];
    return 24 * hidden * interval;
}

// FSDP (arXiv 2304.11277), section 3.2: what crosses hosts, for one GPU of W in hosts of G.
static double fsdp_replicated(const double a[])
{
    return 2 * a[0] * (a[1] - 1) / a[1];
}

static double fsdp_full(const double a[])
{
    return 3 * a[0] * (a[1] - 1) / a[1];
}

static double fsdp_hybrid(const double a[])
{
    double size = a[0], world = a[1], host = a[2];
    return 2 * size * (world - 1) / (host * world);
}

// ZeRO++ (arXiv 2306.10209), abstract and section 1: forward gather, backward gather, gradients.
static double zeropp_volume(const double a[])
{
    double size = a[0];
    int weights_int8 = a[1] != 0, second_copy = a[2] != 0, gradients_int4 = a[3] != 0;
    double gather = weights_int8 ? size / 2 : size;
    return gather + (second_copy ? 0 : gather) + (gradients_int4 ? size / 4 : size);
}

static const struct equation equations[] = {
    {"zero-states",
     {"params", "k", "ranks", "stage"},
     "(2 + 2 + K) Psi bytes, each term over N_d from stage 3, 2 and 1 on",
     zero_states},
    {"zero-activations",
     {"hidden", "batch", "sequence", "layers"},
     "12 x hidden dim x batch x seq length x transformer layers elements, 2 bytes each",
     zero_activations},
    {"offload-device",
     {"parameters", "gradients", "update"},
     "2M, 2M and 12M bytes, each where it is on the GPU (1) or not (0), over M",
     offload_device},
    {"infinity-1", {"layers", "hidden"}, "12 x nl x hd^2 parameters", infinity_1},
    {"infinity-2", {"layers", "hidden"}, "240 x nl x hd^2 bytes of model states", infinity_2},
    {"infinity-3",
     {"batch", "sequence", "hidden", "layers", "interval"},
     "2 x bsz x seq x hd x nl / ci bytes",
     infinity_3},
    {"infinity-4", {"hidden"}, "4 x hd x 4hd bytes of model state working memory", infinity_4},
    {"infinity-5",
     {"batch", "sequence", "interval", "hidden", "heads"},
     "bsz x seq x ci x (16 x hd + 2 x attn_heads x seq) bytes",
     infinity_5},
    {"infinity-6", {"intensity", "bandwidth", "peak"}, "ait x bw / (ait x bw + peak_tp)", infinity_6},
    {"infinity-6-bandwidth",
     {"intensity", "efficiency", "peak"},
     "the bw of equation 6 in bytes/s",
     infinity_6_bandwidth},
    {"infinity-7", {"batch", "sequence", "params"}, "2 x 4 x bsz x seq x params operations an iteration", infinity_7},
    {"infinity-8",
     {"batch", "sequence", "layers", "hidden"},
     "2 x 4 x 12 x bsz x seq x nl x hd^2 operations an iteration",
     infinity_8},
    {"infinity-9", {"sequence", "batch"}, "seq x bsz operations a byte of parameters and gradients", infinity_9},
    {"infinity-10", {"sequence", "batch"}, "seq x bsz / 4 operations a byte of optimizer states", infinity_10},
    {"infinity-11", {"hidden", "interval"}, "24 x hd x ci operations a byte of activation checkpoints", infinity_11},
    {"fsdp-replicated", {"size", "world"}, "2M(W-1)/W", fsdp_replicated},
    {"fsdp-full", {"size", "world"}, "3M(W-1)/W", fsdp_full},
    {"fsdp-hybrid", {"size", "world", "host"}, "2M(W-1)/(GW)", fsdp_hybrid},
    {"zeropp-volume",
     {"size", "weights_int8", "second_copy", "gradients_int4"},
     "M + M + M; qwZ halves the gathers, hpZ ends the backward's, qgZ quarters the gradients",
     zeropp_volume},
};
enum { EQUATION_COUNT = sizeof equations / sizeof equations[0] };

const struct equation *equation_at(size_t index)
{
    return index < EQUATION_COUNT ? &equations[index] : NULL;
}

const struct equation *equation_find(const char *name)
{
    for (size_t i = 0; i < EQUATION_COUNT; i++)
        if (strcmp(equations[i].name, name) == 0)
            return &equations[i];
    return NULL;
}
