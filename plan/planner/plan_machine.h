// SPDX-License-Identifier: Apache-2.0
// Machines to plan for: nodes of equal devices, read from files; those of datasets/machines.json are compiled in. Every
// figure has a source there, or is marked as an assumption.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/executor/executor_dry.h"
#include "plan/device/framework.h"
#include "plan/device/transformer.h"

#include <stdbool.h>
#include <stddef.h>

// Rates are in bytes/s or FLOP/s; the devices of a node share its rates.
enum machine_figure {
    MACHINE_DEVICE_MEMORY_BYTES,
    MACHINE_NODE_HOST_MEMORY_BYTES,
    MACHINE_NODE_NVME_BYTES,
    MACHINE_DEVICE_FP32_FLOPS,  // peaks, of dense matrices
    MACHINE_DEVICE_FP16_FLOPS,
    MACHINE_DEVICE_BF16_FLOPS,
    MACHINE_DEVICE_FP8_FLOPS,
    MACHINE_DEVICE_FLOPS_SHARE,      // the fraction of the peak that a model's matrix products reach
    MACHINE_DEVICE_FP8_SHARE,        // the fraction of FP8's peak, with conversions
    MACHINE_DEVICE_ATTENTION_SHARE,  // the fraction that flash attention reaches; only GPUs have it
    MACHINE_DEVICE_LAYER_S,          // of a layer's forward, whatever its size
    MACHINE_FUSED_FP8_SHARE,         // of Transformer Engine's kernels; default: those above
    MACHINE_FUSED_ATTENTION_SHARE,
    MACHINE_FUSED_LAYER_S,
    MACHINE_FUSED_EXPOSED_SHARE,  // of sequence parallelism's exchanges, the part that products do not hide; default:
                                  // all
    MACHINE_DEVICE_MEMORY_RATE,
    MACHINE_NODE_CPU_RATE,        // memory traffic of the processors
    MACHINE_NODE_CPU_SHARE,       // the part of it that an offloaded optimizer reaches; default: all
    MACHINE_H2D_RATE,             // of one device
    MACHINE_D2H_RATE,             // of one device
    MACHINE_NODE_HOST_LINK_RATE,  // of all devices of a node together, in each direction
    MACHINE_NODE_NVME_READ_RATE,
    MACHINE_NODE_NVME_WRITE_RATE,
    MACHINE_INTRA_NODE_RATE,       // of a ring of a node's devices: sent by each device while it receives
    MACHINE_INTER_NODE_RATE,       // of a ring through nodes: sent by each node while it receives
    MACHINE_COLLECTIVE_SHARE,      // the part of both rates that collectives reach; default: all
    MACHINE_STRAGGLER_SHARE,       // a step takes this part longer with each doubling of the nodes
    MACHINE_OPERATION_LATENCY_S,   // of an operation on the device
    MACHINE_COPY_LATENCY_S,        // of a copy between device and host
    MACHINE_NVME_LATENCY_S,        // of a transfer on NVMe
    MACHINE_INTRA_NODE_LATENCY_S,  // of one step of a collective within a node
    MACHINE_INTER_NODE_LATENCY_S,  // of one step of a collective between nodes
    MACHINE_FIGURE_COUNT
};

enum { MACHINE_NAME_BYTES = 64, MACHINE_ABOUT_BYTES = 256, MACHINE_SOURCE_BYTES = 512 };

struct plan_machine {
    char name[MACHINE_NAME_BYTES], about[MACHINE_ABOUT_BYTES];
    int devices_per_node;
    struct {
        double value;  // 0: not in the file
        bool assumed;
        char source[MACHINE_SOURCE_BYTES];
    } figures[MACHINE_FIGURE_COUNT];
};

// By the name of a compiled-in machine ("dgx-h100"), or a path. ERR_USAGE lists the names, or says FILE:LINE: KEY.
int plan_machine_find(const char *name, struct plan_machine *out);

// Parses a text; `name` is the FILE of the messages and becomes the machine's name.
int plan_machine_parse(const char *name, const char *text, size_t bytes, struct plan_machine *out);

// Replaces a figure; `source` says by what.
void plan_machine_set(struct plan_machine *machine, enum machine_figure figure, double value, const char *source);

// The names of the compiled-in machines in alphabetical order; null past the end.
const char *plan_machine_name(size_t index);

// The key of a figure in files: "device_memory_bytes".
const char *plan_machine_figure_name(enum machine_figure figure);

// The devices of a node that a world of this size uses, and the number of nodes.
int plan_machine_active(const struct plan_machine *machine, int world);
int plan_machine_nodes(const struct plan_machine *machine, int world);

// The part by which a step takes longer because of the slowest of the world's nodes.
double plan_machine_straggler_share(const struct plan_machine *machine, int world);

// Peak of a device in this dtype, FLOP/s; 0: unknown.
double plan_machine_peak(const struct plan_machine *machine, enum dtype dtype);

// The rates of one rank's lanes in a world.
struct plan_lanes {
    double forward_flops_per_s, backward_flops_per_s;  // sustained
    double bytes_per_s[LANE_COUNT];  // of memory traffic for compute and CPU; a ring's for collectives
    double latency_s[LANE_COUNT];
    const struct plan_machine *machine;  // for collectives of part of the world; null: all are of the whole
    int world;
    double activation_share;  // of the bytes of activations that ranks exchange, which are fp32 in the reference: a
                              // GPU implementation sends them in the model's dtype; 0: all
    double experts_used;      // by a token
    double exposed_share;     // of tensor parallelism's exchanges; 0: all
    double borders;           // by which the bytes that a stage of a pipeline sends are multiplied; 0: one
};

// True for a machine whose figures describe a GPU's kernels. The others are measured with the reference itself.
bool plan_machine_is_gpu(const struct plan_machine *machine);

// The rate of matrix products, FLOP/s, sustained. ERR_USAGE names the figure that the machine lacks for FP8.
int plan_machine_product_rate(const struct plan_machine *machine, enum dtype dtype, enum products products, bool fused,
                              double *out);

// Keeps `machine`. ERR_USAGE names the figure that it lacks.
int plan_lanes_of(const struct plan_machine *machine, int world, enum dtype dtype, struct plan_lanes *out);

// Replaces the rates of computing by those of a GPU's kernels on one micro-batch (device_time.h) of a transformer, with
// the FLOP that the stage counts: layer_flops of one forward of all layers.
// ring_stride: of the ranks of context parallelism.
void plan_lanes_compute(const struct plan_machine *machine, const struct transformer *transformer,
                        size_t sequence_count, enum dtype dtype, enum products products, bool fused,
                        double checkpointed_share, bool counts_recomputation, double layer_flops, int ring_stride,
                        struct plan_lanes *lanes);

// Duration of an operation; context is a struct plan_lanes.
executor_seconds plan_lanes_seconds;
