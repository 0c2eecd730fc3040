// SPDX-License-Identifier: Apache-2.0
// The rates of a rank's lanes on a machine, and the time of each operation.
#include "plan/planner/plan_machine.h"

#include "base/err.h"
#include "plan/device/device_time.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static double value(const struct plan_machine *machine, enum machine_figure figure)
{
    return machine->figures[figure].value;
}

static double share(const struct plan_machine *machine, enum machine_figure figure)
{
    return value(machine, figure) > 0 ? value(machine, figure) : 1;
}

bool plan_machine_is_gpu(const struct plan_machine *machine)
{
    return value(machine, MACHINE_DEVICE_ATTENTION_SHARE) > 0;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static int need(const struct plan_machine *machine, enum machine_figure figure, const char *why)
{
    return value(machine, figure) > 0 ? ERR_NONE
                                      : err_set(ERR_USAGE, "the machine %s has no %s: %s", machine->name,
                                                plan_machine_figure_name(figure), why);
}

struct ring {
    double bytes_per_s, latency_s;
};

// A ring has the rate of its slowest link and one latency per step. Between nodes the latency is a tree's, because
// large worlds do not use rings of thousands of steps. Ranks fill one node after the other, so a group whose ranks are
// `stride` apart has some on each node that it touches; the groups on a node act at the same time and share its
// network.
static int ranks_of_node(const struct plan_machine *machine, int world, int ranks, int stride)
{
    int active = plan_machine_active(machine, world), of_node = active / stride > 1 ? active / stride : 1;
    return ranks < of_node ? ranks : of_node;
}

static struct ring ring_of(const struct plan_machine *machine, int world, int ranks, int stride)
{
    int active = plan_machine_active(machine, world), of_node = ranks_of_node(machine, world, ranks, stride);
    int nodes = (ranks + of_node - 1) / of_node;
    struct ring ring = {.bytes_per_s = INFINITY};
    if (of_node > 1) {
        ring.bytes_per_s = value(machine, MACHINE_INTRA_NODE_RATE);
        ring.latency_s = (of_node - 1) * value(machine, MACHINE_INTRA_NODE_LATENCY_S);
    }
    if (nodes > 1) {
        double own = value(machine, MACHINE_INTER_NODE_RATE) * of_node / active;
        ring.bytes_per_s = smaller(ring.bytes_per_s, own);
        ring.latency_s += ceil(log2(nodes)) * value(machine, MACHINE_INTER_NODE_LATENCY_S);
    }
    ring.bytes_per_s *= share(machine, MACHINE_COLLECTIVE_SHARE);
    return ring;
}

// Tokens for the experts of other ranks, which are drawn evenly, pass the network once for each node that has some of
// theirs, and are passed on within the node, at the same time: as DeepEP and Megatron-LM's HybridEP send them. Each
// rank has its part of the node's network. Bytes that all pairs of ranks exchange, per second.
static double token_rate(const struct plan_lanes *lanes, int ranks, int stride)
{
    const struct plan_machine *machine = lanes->machine;
    double of_node = ranks_of_node(machine, lanes->world, ranks, stride), nodes = ceil(ranks / of_node);
    double drawn = fmax(1, lanes->experts_used), reached = (nodes - 1) * (1 - pow(1 - 1 / nodes, drawn));
    double near_s = (of_node - 1) / of_node / value(machine, MACHINE_INTRA_NODE_RATE);
    double far_s =
        reached / drawn * plan_machine_active(machine, lanes->world) / value(machine, MACHINE_INTER_NODE_RATE);
    double slowest_s = nodes > 1 && !(near_s > far_s) ? far_s : near_s;
    return share(machine, MACHINE_COLLECTIVE_SHARE) / slowest_s * (ranks - 1) / ranks;
}

static int need_links(const struct plan_machine *machine, int world)
{
    if (plan_machine_active(machine, world) > 1)
        TRY(need(machine, MACHINE_INTRA_NODE_RATE, "several devices of a node work together"));
    return plan_machine_nodes(machine, world) > 1
               ? need(machine, MACHINE_INTER_NODE_RATE, "it is one node, and the world is larger")
               : ERR_NONE;
}

int plan_lanes_of(const struct plan_machine *machine, int world, enum dtype dtype, struct plan_lanes *out)
{
    assert(world >= 1 && machine->devices_per_node >= 1);
    double active = plan_machine_active(machine, world), peak = plan_machine_peak(machine, dtype);
    double link = value(machine, MACHINE_NODE_HOST_LINK_RATE) / active;
    if (peak <= 0)
        return err_set(ERR_USAGE, "the machine %s has no %s matrices: it lacks device_%s_flops_per_s", machine->name,
                       dtype_name(dtype), dtype_name(dtype));
    *out = (struct plan_lanes){.machine = machine, .world = world};
    out->forward_flops_per_s = out->backward_flops_per_s = peak * value(machine, MACHINE_DEVICE_FLOPS_SHARE);
    out->bytes_per_s[LANE_COMPUTE] = value(machine, MACHINE_DEVICE_MEMORY_RATE);
    out->bytes_per_s[LANE_CPU] =
        value(machine, MACHINE_NODE_CPU_RATE) * share(machine, MACHINE_NODE_CPU_SHARE) / active;
    out->bytes_per_s[LANE_H2D] = smaller(value(machine, MACHINE_H2D_RATE), link);
    out->bytes_per_s[LANE_D2H] = smaller(value(machine, MACHINE_D2H_RATE), link);
    out->bytes_per_s[LANE_NVME_READ] = value(machine, MACHINE_NODE_NVME_READ_RATE) / active;
    out->bytes_per_s[LANE_NVME_WRITE] = value(machine, MACHINE_NODE_NVME_WRITE_RATE) / active;
    out->latency_s[LANE_COMPUTE] = value(machine, MACHINE_OPERATION_LATENCY_S);
    out->latency_s[LANE_H2D] = out->latency_s[LANE_D2H] = value(machine, MACHINE_COPY_LATENCY_S);
    out->latency_s[LANE_NVME_READ] = out->latency_s[LANE_NVME_WRITE] = value(machine, MACHINE_NVME_LATENCY_S);
    const struct ring ring = ring_of(machine, world, world, 1);
    out->bytes_per_s[LANE_COLLECTIVE] = ring.bytes_per_s;
    out->latency_s[LANE_COLLECTIVE] = ring.latency_s;
    return need_links(machine, world);
}

// A figure of fused kernels, or, where it is not known, the other one.
static double of_kernels(const struct plan_machine *machine, bool fused, enum machine_figure own,
                         enum machine_figure other)
{
    return value(machine, fused && value(machine, own) > 0 ? own : other);
}

int plan_machine_product_rate(const struct plan_machine *machine, enum dtype dtype, enum products products, bool fused,
                              double *out)
{
    bool in_fp8 = products == PRODUCTS_FP8;
    double fp8_share = of_kernels(machine, fused, MACHINE_FUSED_FP8_SHARE, MACHINE_DEVICE_FP8_SHARE);
    *out = in_fp8 ? value(machine, MACHINE_DEVICE_FP8_FLOPS) * fp8_share
                  : plan_machine_peak(machine, dtype) * value(machine, MACHINE_DEVICE_FLOPS_SHARE);
    return *out > 0 ? ERR_NONE
                    : err_set(ERR_USAGE,
                              "--products fp8: the machine %s lacks device_fp8_flops_per_s or "
                              "device_fp8_share",
                              machine->name);
}

void plan_lanes_compute(const struct plan_machine *machine, const struct transformer *transformer,
                        size_t sequence_count, enum dtype dtype, enum products products, bool fused,
                        double checkpointed_share, bool counts_recomputation, double layer_flops, int ring_stride,
                        struct plan_lanes *lanes)
{
    int ranks = transformer->context_ranks > 1 ? (int)transformer->context_ranks : 1;
    const struct ring ring = ring_of(machine, lanes->world, ranks, ring_stride);
    double peak = plan_machine_peak(machine, dtype);
    double product_flops_per_s;
    (void)plan_machine_product_rate(machine, dtype, products, fused, &product_flops_per_s);
    const struct device_rates rates = {
        .product_flops_per_s = product_flops_per_s,
        .attention_flops_per_s =
            peak * of_kernels(machine, fused, MACHINE_FUSED_ATTENTION_SHARE, MACHINE_DEVICE_ATTENTION_SHARE),
        .memory_bytes_per_s = value(machine, MACHINE_DEVICE_MEMORY_RATE),
        // The host launches experts' kernels after it has read how many tokens each of them has.
        .layer_s =
            of_kernels(machine, fused && transformer->experts_used == 1, MACHINE_FUSED_LAYER_S, MACHINE_DEVICE_LAYER_S),
        .ring_bytes_per_s = ring.bytes_per_s,
        .ring_latency_s = value(machine, MACHINE_OPERATION_LATENCY_S),
    };
    struct device_time time;
    device_time_of(transformer, &rates, sequence_count, dtype_bytes(dtype), &time);
    lanes->experts_used = (double)transformer->experts_used;
    lanes->forward_flops_per_s = layer_flops / time.forward_s;
    lanes->backward_flops_per_s =
        (counts_recomputation ? 3 : 2) * layer_flops / (time.backward_s + checkpointed_share * time.recomputed_s);
    // Megatron-LM's tp_comm_overlap needs sequence parallelism.
    bool overlaps = fused && transformer->sequence_ranks > 1;
    lanes->exposed_share = overlaps ? value(machine, MACHINE_FUSED_EXPOSED_SHARE) : 0;
}

static bool begins(const char *name, const char *begin)
{
    return strncmp(name, begin, strlen(begin)) == 0;
}

// A tied weight crosses none: it has its own dtype, and passes once.
static bool crosses_border(const char *name)
{
    return (begins(name, "send ") || begins(name, "receive ")) && !strstr(name, " tied ");
}

static bool carries_activations(const char *name)
{
    return begins(name, "tensor all-") || begins(name, "token all-") || crosses_border(name);
}

double plan_lanes_seconds(const void *context, const struct executor_operation *operation)
{
    const struct plan_lanes *lanes = context;
    enum lane lane = operation->lane;
    bool works = lane == LANE_COMPUTE || lane == LANE_CPU || lane == LANE_COLLECTIVE;
    size_t bytes = works ? operation->work_bytes : operation->bytes;
    struct ring rates = {lanes->bytes_per_s[lane], lanes->latency_s[lane]};
    if (lane == LANE_COLLECTIVE && lanes->machine && operation->ranks > 0 && operation->ranks < lanes->world)
        rates = ring_of(lanes->machine, lanes->world, operation->ranks, operation->stride);
    if (begins(operation->name, "token all-") && lanes->machine && operation->ranks > 0)
        rates.bytes_per_s = token_rate(lanes, operation->ranks, operation->stride);
    double seconds = bytes > 0 ? (double)bytes / rates.bytes_per_s : 0;
    if (lanes->activation_share > 0 && carries_activations(operation->name))
        seconds *= lanes->activation_share;
    if (lanes->exposed_share > 0 && begins(operation->name, "tensor all-"))
        seconds *= lanes->exposed_share;
    if (lanes->borders > 0 && crosses_border(operation->name))
        seconds *= lanes->borders;
    bool backward = strcmp(operation->name, "backward") == 0;
    double flops_per_s = backward ? lanes->backward_flops_per_s : lanes->forward_flops_per_s;
    double computed = lane == LANE_COMPUTE ? operation->flops / flops_per_s : 0;
    return (double)operation->times * rates.latency_s + (computed > seconds ? computed : seconds);
}
