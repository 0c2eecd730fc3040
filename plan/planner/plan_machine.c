// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_machine.h"

#include "base/err.h"
#include "plan/device/device_time.h"
#include "plan/planner/plan_texts.h"
#include "base/strict_json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A figure without '?' is required.
static const char *const FIGURES[MACHINE_FIGURE_COUNT + 1] = {
    [MACHINE_DEVICE_MEMORY_BYTES] = "device_memory_bytes",
    [MACHINE_NODE_HOST_MEMORY_BYTES] = "node_host_memory_bytes",
    [MACHINE_NODE_NVME_BYTES] = "?node_nvme_bytes",
    [MACHINE_DEVICE_FP32_FLOPS] = "device_fp32_flops_per_s",
    [MACHINE_DEVICE_FP16_FLOPS] = "?device_fp16_flops_per_s",
    [MACHINE_DEVICE_BF16_FLOPS] = "?device_bf16_flops_per_s",
    [MACHINE_DEVICE_FP8_FLOPS] = "?device_fp8_flops_per_s",
    [MACHINE_DEVICE_FLOPS_SHARE] = "device_flops_share",
    [MACHINE_DEVICE_FP8_SHARE] = "?device_fp8_share",
    [MACHINE_DEVICE_ATTENTION_SHARE] = "?device_attention_share",
    [MACHINE_DEVICE_LAYER_S] = "?device_layer_s",
    [MACHINE_DEVICE_MEMORY_RATE] = "device_memory_bytes_per_s",
    [MACHINE_NODE_CPU_RATE] = "node_cpu_bytes_per_s",
    [MACHINE_NODE_CPU_SHARE] = "?node_cpu_share",
    [MACHINE_H2D_RATE] = "h2d_bytes_per_s",
    [MACHINE_D2H_RATE] = "d2h_bytes_per_s",
    [MACHINE_NODE_HOST_LINK_RATE] = "node_host_link_bytes_per_s",
    [MACHINE_NODE_NVME_READ_RATE] = "?node_nvme_read_bytes_per_s",
    [MACHINE_NODE_NVME_WRITE_RATE] = "?node_nvme_write_bytes_per_s",
    [MACHINE_INTRA_NODE_RATE] = "?intra_node_bytes_per_s",
    [MACHINE_INTER_NODE_RATE] = "?inter_node_bytes_per_s",
    [MACHINE_COLLECTIVE_SHARE] = "?collective_share",
    [MACHINE_STRAGGLER_SHARE] = "?straggler_share",
    [MACHINE_OPERATION_LATENCY_S] = "operation_latency_s",
    [MACHINE_COPY_LATENCY_S] = "copy_latency_s",
    [MACHINE_NVME_LATENCY_S] = "?nvme_latency_s",
    [MACHINE_INTRA_NODE_LATENCY_S] = "?intra_node_latency_s",
    [MACHINE_INTER_NODE_LATENCY_S] = "?inter_node_latency_s",
};

const char *plan_machine_figure_name(enum machine_figure figure)
{
    return FIGURES[figure] + (FIGURES[figure][0] == '?');
}

static int parse_figure(const struct strict_object *figures, enum machine_figure figure, struct plan_machine *out)
{
    static const char *const keys[] = {"value", "?source", "?assumption", NULL};
    const char *key = plan_machine_figure_name(figure);
    struct strict_object object;
    if (!json_object_get(figures->value, key))
        return ERR_NONE;
    TRY(strict_object_of(figures, key, &object));
    TRY(strict_keys(&object, keys));
    double value;
    TRY(strict_real(&object, "value", &value));
    if (value <= 0)
        return strict_fail(&object, "value", "is %g, expected more than 0", value);
    bool is_share = figure == MACHINE_DEVICE_FLOPS_SHARE || figure == MACHINE_DEVICE_ATTENTION_SHARE ||
                    figure == MACHINE_DEVICE_FP8_SHARE || figure == MACHINE_NODE_CPU_SHARE ||
                    figure == MACHINE_COLLECTIVE_SHARE;
    if (is_share && value > 1)
        return strict_fail(&object, "value", "is %g, expected a fraction of the peak, at most 1", value);
    bool has_source = json_object_get(object.value, "source");
    out->figures[figure].assumed = json_object_get(object.value, "assumption");
    if (has_source == out->figures[figure].assumed)
        return strict_fail(&object, "source", "%s; a figure has either a source, or an assumption that says why",
                           has_source ? "has an assumption next to it" : "is missing");
    out->figures[figure].value = value;
    return strict_string(&object, has_source ? "source" : "assumption", out->figures[figure].source,
                         sizeof out->figures[figure].source);
}

static int parse_object(const struct strict_object *object, struct plan_machine *out)
{
    static const char *const keys[] = {"schema", "about", "devices_per_node", "figures", NULL};
    struct strict_object figures;
    int schema;
    TRY(strict_keys(object, keys));
    TRY(strict_int(object, "schema", 1, 1, &schema));
    TRY(strict_string(object, "about", out->about, sizeof out->about));
    TRY(strict_int(object, "devices_per_node", 1, 1024, &out->devices_per_node));
    TRY(strict_object_of(object, "figures", &figures));
    for (int figure = 0; figure < MACHINE_FIGURE_COUNT; figure++)
        TRY(parse_figure(&figures, (enum machine_figure)figure, out));
    return strict_keys(&figures, FIGURES);
}

int plan_machine_parse(const char *name, const char *text, size_t bytes, struct plan_machine *out)
{
    struct json_text json;
    TRY(json_text_parse(name, text, bytes, &json));
    struct strict_object object = strict_root(&json);
    *out = (struct plan_machine){0};
    snprintf(out->name, sizeof out->name, "%s", name);
    int code = parse_object(&object, out);
    json_text_close(&json);
    return code;
}

static int refuse(const char *name)
{
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; plan_machine_name(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", plan_machine_name(i));
    return err_set(ERR_USAGE, "unknown machine \"%.64s\", expected one of %sor a file", name, known);
}

int plan_machine_find(const char *name, struct plan_machine *out)
{
    for (const struct plan_text *text = plan_machine_texts; text->name; text++)
        if (strcmp(text->name, name) == 0)
            return plan_machine_parse(text->name, text->text, text->bytes, out);
    if (!strchr(name, '/') && !strstr(name, ".json"))
        return refuse(name);
    char *text;
    size_t bytes;
    TRY(json_read(name, &text, &bytes));
    int code = plan_machine_parse(name, text, bytes, out);
    free(text);
    return code;
}

void plan_machine_set(struct plan_machine *machine, enum machine_figure figure, double value, const char *source)
{
    machine->figures[figure].value = value;
    machine->figures[figure].assumed = false;
    snprintf(machine->figures[figure].source, MACHINE_SOURCE_BYTES, "%s", source);
}

const char *plan_machine_name(size_t index)
{
    size_t count = 0;
    while (plan_machine_texts[count].name)
        count++;
    return index < count ? plan_machine_texts[index].name : NULL;
}

int plan_machine_active(const struct plan_machine *machine, int world)
{
    return world < machine->devices_per_node ? world : machine->devices_per_node;
}

int plan_machine_nodes(const struct plan_machine *machine, int world)
{
    return (world + machine->devices_per_node - 1) / machine->devices_per_node;
}

double plan_machine_straggler_share(const struct plan_machine *machine, int world)
{
    return machine->figures[MACHINE_STRAGGLER_SHARE].value * log2(plan_machine_nodes(machine, world));
}

double plan_machine_peak(const struct plan_machine *machine, enum dtype dtype)
{
    enum machine_figure figure = dtype == DTYPE_FP32   ? MACHINE_DEVICE_FP32_FLOPS
                                 : dtype == DTYPE_FP16 ? MACHINE_DEVICE_FP16_FLOPS
                                                       : MACHINE_DEVICE_BF16_FLOPS;
    return machine->figures[figure].value;
}

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
static struct ring ring_of(const struct plan_machine *machine, int world, int ranks, int stride)
{
    int active = plan_machine_active(machine, world), of_node = active / stride > 1 ? active / stride : 1;
    of_node = ranks < of_node ? ranks : of_node;
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

int plan_machine_product_rate(const struct plan_machine *machine, enum dtype dtype, enum products products, double *out)
{
    bool in_fp8 = products == PRODUCTS_FP8;
    *out = in_fp8 ? value(machine, MACHINE_DEVICE_FP8_FLOPS) * value(machine, MACHINE_DEVICE_FP8_SHARE)
                  : plan_machine_peak(machine, dtype) * value(machine, MACHINE_DEVICE_FLOPS_SHARE);
    return *out > 0 ? ERR_NONE
                    : err_set(ERR_USAGE,
                              "--products fp8: the machine %s lacks device_fp8_flops_per_s or "
                              "device_fp8_share",
                              machine->name);
}

void plan_lanes_compute(const struct plan_machine *machine, const struct transformer *transformer,
                        size_t sequence_count, enum dtype dtype, enum products products, double checkpointed_share,
                        bool counts_recomputation, double layer_flops, struct plan_lanes *lanes)
{
    double peak = plan_machine_peak(machine, dtype);
    double product_flops_per_s;
    (void)plan_machine_product_rate(machine, dtype, products, &product_flops_per_s);
    const struct device_rates rates = {
        .product_flops_per_s = product_flops_per_s,
        .attention_flops_per_s = peak * value(machine, MACHINE_DEVICE_ATTENTION_SHARE),
        .memory_bytes_per_s = value(machine, MACHINE_DEVICE_MEMORY_RATE),
        .layer_s = value(machine, MACHINE_DEVICE_LAYER_S),
    };
    struct device_time time;
    device_time_of(transformer, &rates, sequence_count, dtype_bytes(dtype), &time);
    lanes->forward_flops_per_s = layer_flops / time.forward_s;
    lanes->backward_flops_per_s =
        (counts_recomputation ? 3 : 2) * layer_flops / (time.backward_s + checkpointed_share * time.recomputed_s);
}

static bool carries_activations(const char *name)
{
    static const char *const names[] = {"tensor all-to-all", "tensor all-gather", "token all-to-all",
                                        "send activations",  "send gradients",    "receive activations",
                                        "receive gradients"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
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
    double seconds = bytes > 0 ? (double)bytes / rates.bytes_per_s : 0;
    if (lanes->activation_share > 0 && carries_activations(operation->name))
        seconds *= lanes->activation_share;
    bool backward = strcmp(operation->name, "backward") == 0;
    double flops_per_s = backward ? lanes->backward_flops_per_s : lanes->forward_flops_per_s;
    double computed = lane == LANE_COMPUTE ? operation->flops / flops_per_s : 0;
    return (double)operation->times * rates.latency_s + (computed > seconds ? computed : seconds);
}
