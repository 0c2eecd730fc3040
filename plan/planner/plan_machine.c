// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_machine.h"

#include "base/err.h"
#include "plan/planner/plan_texts.h"
#include "base/strict_json.h"

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
    [MACHINE_FUSED_FP8_SHARE] = "?fused_fp8_share",
    [MACHINE_FUSED_ATTENTION_SHARE] = "?fused_attention_share",
    [MACHINE_FUSED_LAYER_S] = "?fused_layer_s",
    [MACHINE_FUSED_EXPOSED_SHARE] = "?fused_exposed_share",
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
    const char *key = plan_machine_figure_name(figure);
    struct strict_object object;
    if (!json_object_get(figures->value, key))
        return ERR_NONE;
    TRY(strict_object_of(figures, key, &object));
    TRY(strict_only(&object, "value ?source ?assumption"));
    double value;
    TRY(strict_real(&object, "value", &value));
    if (value <= 0)
        return strict_fail(&object, "value", "is %g, expected more than 0", value);
    bool is_share = strstr(key, "_share") && figure != MACHINE_STRAGGLER_SHARE;
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

static int parse_object(const struct strict_object *object, void *context)
{
    struct plan_machine *out = context;
    struct strict_object figures;
    int schema;
    TRY(strict_only(object, "schema about devices_per_node figures"));
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
    *out = (struct plan_machine){0};
    snprintf(out->name, sizeof out->name, "%s", name);
    return strict_parse(name, text, bytes, parse_object, out);
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
