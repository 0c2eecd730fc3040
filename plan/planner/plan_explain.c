// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_print.h"

#include "base/size.h"
#include "ref/formula/formula.h"

#include <string.h>

static void explain_memory(const struct plan_setting *setting, FILE *out)
{
    static const char *const texts[] = {
        "each parameter in the model's dtype, unsharded or a shard of 1/N",
        "in the accumulation dtype; a shard from stage 2 on",
        "exp_avg and exp_avg_sq, 4 bytes each; a shard from stage 1 on",
        "4 bytes for each parameter of a shard, unless the parameters themselves are fp32 on the same tier",
        "buckets, gathered layers, buffers of sub-groups and checkpoints: their number times the largest of each",
        "the reference's working memory in fp32, or one block's of it and the checkpoints",
        "rounds the ranks' shards to equal sizes, and on NVMe to whole blocks",
    };
    fprintf(out, "\nmemory of the reference: every allocation of the stage, which runs without data\n");
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        char text[FORMULA_TEXT_BYTES] = "";
        if (!setting->model->lora)
            formula_memory_text(setting->config, (enum ledger_tier)tier, text);
        if (*text)
            fprintf(out, "  the papers' limit on %s: %s bytes (Psi parameters, N ranks)\n",
                    ledger_tier_name((enum ledger_tier)tier), text);
    }
    for (int kind = 0; kind < KIND_COUNT; kind++)
        fprintf(out, "  %-12s %s\n", ledger_kind_name((enum ledger_kind)kind), texts[kind]);
}

// Each line of a GPU implementation with its numbers, formula and source.
static void explain_device(const struct device_memory *device, FILE *out)
{
    char text[SIZE_TEXT_BYTES];
    if (device->line_count == 0)
        return;
    fprintf(out, "\nmemory of a GPU implementation, which decides whether the plan fits\n");
    for (int i = 0; i < device->line_count; i++)
        for (int tier = 0; tier < TIER_COUNT; tier++)
            if (device->lines[i].bytes[tier] > 0)
                fprintf(out, "  %-14s %-6s %10s  %s\n%36s(%s)\n", device->lines[i].name,
                        ledger_tier_name((enum ledger_tier)tier), size_short_text(device->lines[i].bytes[tier], text),
                        device->lines[i].formula, "", device->lines[i].source);
}

static void explain_time(const struct plan_setting *setting, FILE *out)
{
    struct plan_lanes lanes;
    if (plan_lanes_of(setting->machine, setting->world, setting->config->precision, &lanes) != 0)
        return;
    fprintf(out, "\ntime: an operation starts when its lane is free and its dependencies have finished; it takes\n");
    fprintf(out, "  compute      the longer of operations / %.4g per s and bytes / %.4g per s, plus %g s\n",
            lanes.forward_flops_per_s, lanes.bytes_per_s[LANE_COMPUTE], lanes.latency_s[LANE_COMPUTE]);
    fprintf(out,
            "  collective   (N-1)/N of the bytes, which pass each rank of a ring, twice for an all-reduce, / %.4g per "
            "s, plus %g s\n",
            lanes.bytes_per_s[LANE_COLLECTIVE], lanes.latency_s[LANE_COLLECTIVE]);
    for (enum lane lane = LANE_H2D; lane < LANE_COUNT; lane++)
        if (lanes.bytes_per_s[lane] > 0)
            fprintf(out, "  %-12s bytes / %.4g per s, plus %g s\n", ledger_lane_name(lane), lanes.bytes_per_s[lane],
                    lanes.latency_s[lane]);
    if (setting->config->mesh.pipeline > 1)
        fprintf(out, "  bubble       P-1 times the passes of one micro-batch of the P = %d stages (arXiv 2104.04473)\n",
                setting->config->mesh.pipeline);
    fprintf(out, "  operations of the model: 2 for each matrix element and token, 4 x length x width for attention; "
                 "backward\n  has twice as many, and with checkpoints forward once more\n");
}

static void explain_machine(const struct plan_machine *machine, FILE *out)
{
    fprintf(out, "\n%s: %s; %d device%s per node\n", machine->name, machine->about, machine->devices_per_node,
            machine->devices_per_node > 1 ? "s" : "");
    for (int i = 0; i < MACHINE_FIGURE_COUNT; i++)
        if (machine->figures[i].value > 0)
            fprintf(out, "  %-28s %-12.6g %s%s\n", plan_machine_figure_name((enum machine_figure)i),
                    machine->figures[i].value, machine->figures[i].assumed ? "assumed: " : "",
                    machine->figures[i].source);
}

void plan_explain(const struct plan_setting *setting, const struct plan *plan, FILE *out)
{
    explain_memory(setting, out);
    explain_device(&plan->device, out);
    explain_time(setting, out);
    explain_machine(setting->machine, out);
}
