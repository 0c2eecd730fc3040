// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_print.h"

#include "base/size.h"
#include "plan/planner/plan_degrees.h"
#include "plan/planner/plan_model.h"
#include "ref/formula/formula.h"

#include <inttypes.h>

const char *plan_verdict_name(enum plan_verdict verdict)
{
    static const char *const names[] = {"fits", "tight", "does not fit"};
    return names[verdict];
}

static void print_head(const struct plan_setting *setting, FILE *out)
{
    const struct config *config = setting->config;
    const struct plan_machine *machine = setting->machine;
    const struct pipeline_schedule schedule = {config->pipeline_schedule, config->mesh.pipeline,
                                               (int)config->accumulation};
    char count[SIZE_TEXT_BYTES], length[SIZE_TEXT_BYTES], mesh[PLAN_MESH_BYTES];
    int nodes = plan_machine_nodes(machine, setting->world), parts = plan_degrees_parts(&setting->choice);
    fprintf(out, "%s, %s parameters, %s, stage %d, on %d rank%s of %s (%d node%s)\n", setting->model->name,
            size_text(model_param_elements(setting->model, false), count), dtype_name(config->precision), config->stage,
            setting->world, setting->world > 1 ? "s" : "", machine->name, nodes, nodes > 1 ? "s" : "");
    if (mesh_parts(&config->mesh) > 1 || config->mesh.expert > 1 || config->mesh.replicate > 1 ||
        setting->choice.context > 1)
        fprintf(out, "mesh %s%s\n", plan_mesh_text(&setting->choice, config->mesh, mesh),
                setting->model->sequence_parallel ? ", sequence parallelism" : "");
    if (config->mesh.pipeline > 1)
        fprintf(out, "pipeline schedule %s%s: bubble (P-1)/(%sM+P-1) = %.1f %% of the passes\n",
                pipeline_kind_name(config->pipeline_schedule), parts > 1 ? ", interleaved" : "", parts > 1 ? "V" : "",
                100 * plan_degrees_bubble(&setting->choice, &schedule));
    fprintf(out, "per rank and step: %zu x %zu sequence%s of %s tokens%s\n\n", config->accumulation,
            config->micro_batch, config->micro_batch > 1 ? "s" : "",
            size_text(plan_model_length(setting->model), length),
            config->activation_checkpointing ? ", activation checkpoints" : "");
}

static void print_row(const char *name, const uint64_t bytes[TIER_COUNT], FILE *out)
{
    char text[SIZE_TEXT_BYTES];
    fprintf(out, "  %-20s", name);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        fprintf(out, " %12s", bytes[tier] > 0 ? size_short_text(bytes[tier], text) : "-");
    fprintf(out, "\n");
}

// Prints the ledger that decides whether it fits on GPUs.
static void print_device(const struct device_memory *device, FILE *out)
{
    if (device->line_count == 0)
        return;
    fprintf(out, "of a GPU implementation: %s\n", device->framework->about);
    for (int i = 0; i < device->line_count; i++) {
        uint64_t all = 0;
        for (int tier = 0; tier < TIER_COUNT; tier++)
            all += device->lines[i].bytes[tier];
        if (all > 0)
            print_row(device->lines[i].name, device->lines[i].bytes, out);
    }
    print_row("needed", device->total_bytes, out);
    print_row("at most", device->at_most_bytes, out);
}

static void print_memory(const struct plan *plan, FILE *out)
{
    fprintf(out, "%-22s %12s %12s %12s\n", plan->device.line_count > 0 ? "of the reference" : "memory of a rank",
            "device", "host", "nvme");
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        uint64_t bytes[TIER_COUNT], all = 0;
        for (int tier = 0; tier < TIER_COUNT; tier++)
            all += bytes[tier] = plan->held_bytes[tier][kind];
        if (all > 0)
            print_row(ledger_kind_name((enum ledger_kind)kind), bytes, out);
    }
    print_row("peak", plan->peak_bytes, out);
    print_device(&plan->device, out);
    print_row("available", plan->available_bytes, out);
    fprintf(out, "  %-20s", "verdict");
    for (int tier = 0; tier < TIER_COUNT; tier++)
        fprintf(out, " %12s", plan->needed_bytes[tier] > 0 ? plan_verdict_name(plan->verdicts[tier]) : "-");
    fprintf(out, "\n  host and nvme are a rank's part of its node");
    if (plan->device.line_count > 0)
        fprintf(out, "; the device is fullest at %s", device_moment_name(plan->device.fullest));
    fprintf(out, "\n\n");
}

static uint64_t lane_bytes(const struct plan *plan, int lane)
{
    uint64_t bytes = 0;
    for (int i = 0; i < OPERATION_COUNT; i++)
        bytes += plan->step_bytes[lane][i];
    return bytes;
}

// Where the mesh has groups: what is sent within each kind of them.
static void print_groups(const struct plan *plan, FILE *out)
{
    char text[SIZE_TEXT_BYTES];
    for (int group = 0; group < GROUP_COUNT; group++) {
        uint64_t bytes = plan->step_group_bytes[group];
        if (bytes > 0 && bytes < lane_bytes(plan, LANE_COLLECTIVE))
            fprintf(out, "    within %-13s %12s\n", ledger_group_name((enum ledger_group)group),
                    size_short_text(bytes, text));
    }
    if (plan->ring_bytes > 0)
        fprintf(out, "    and in rings %11s %s\n", "", size_short_text(plan->ring_bytes, text));
}

static void print_lanes(const struct plan *plan, FILE *out)
{
    char text[SIZE_TEXT_BYTES];
    fprintf(out, "%-22s %12s %12s %12s\n", "a step", "moved", "busy", "critical");
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        uint64_t bytes = lane_bytes(plan, lane);
        if (bytes == 0 && plan->busy_s[lane] == 0)
            continue;
        fprintf(out, "  %-20s %12s %10.3f s %10.1f %%\n", ledger_lane_name((enum lane)lane),
                bytes > 0 ? size_short_text(bytes, text) : "-", plan->busy_s[lane],
                plan->step_s > 0 ? 100 * plan->critical_s[lane] / plan->step_s : 0);
        if (lane == LANE_COLLECTIVE)
            print_groups(plan, out);
    }
    if (plan->straggler_s > 0)
        fprintf(out, "  %-20s %12s %10.3f s %10.1f %%\n", "slowest node", "-", plan->straggler_s,
                100 * plan->straggler_s / plan->step_s);
    if (plan->bubble_s > 0)
        fprintf(out, "  %-20s %12s %10.3f s %10.1f %%\n", "pipeline bubble", "-", plan->bubble_s,
                100 * plan->bubble_s / plan->step_s);
    fprintf(out, "\n%-34s %12s %12s\n", "critical path", "operations", "time");
    for (int i = 0; i < plan->part_count && plan->parts[i].critical_s >= 0.001 * plan->step_s; i++)
        fprintf(out, "  %-20s %-11s %12" PRIu64 " %10.3f s %5.1f %%\n", plan->parts[i].name,
                ledger_lane_name(plan->parts[i].lane), plan->parts[i].count, plan->parts[i].critical_s,
                100 * plan->parts[i].critical_s / plan->step_s);
}

// The name and bytes of the largest kind or line on a tier.
static const char *largest_of(const struct plan *plan, int tier, uint64_t *bytes)
{
    const char *name = "";
    *bytes = 0;
    for (int i = 0; i < plan->device.line_count; i++)
        if (plan->device.lines[i].bytes[tier] > *bytes) {
            *bytes = plan->device.lines[i].bytes[tier];
            name = plan->device.lines[i].name;
        }
    for (int kind = 0; kind < KIND_COUNT && plan->device.line_count == 0; kind++)
        if (plan->held_bytes[tier][kind] > *bytes) {
            *bytes = plan->held_bytes[tier][kind];
            name = ledger_kind_name((enum ledger_kind)kind);
        }
    return name;
}

const char *plan_reason(const struct plan *plan, char out[PLAN_REASON_BYTES])
{
    out[0] = '\0';
    for (int tier = 0; tier < TIER_COUNT && !out[0]; tier++) {
        char missing[SIZE_TEXT_BYTES], held[SIZE_TEXT_BYTES], most[SIZE_TEXT_BYTES];
        uint64_t bytes, available = plan->available_bytes[tier], needed = plan->needed_bytes[tier];
        if (plan->verdicts[tier] != plan->verdict || plan->verdict == PLAN_FITS)
            continue;
        const char *name = largest_of(plan, tier, &bytes);
        const char *tier_name = ledger_tier_name((enum ledger_tier)tier);
        if (plan->verdict == PLAN_TIGHT)
            snprintf(out, PLAN_REASON_BYTES, "%s needs %s to %s, with what allocators add, and has %s", tier_name,
                     size_short_text(needed, held), size_short_text(plan->at_most_bytes[tier], most),
                     size_short_text(available, missing));
        else
            snprintf(out, PLAN_REASON_BYTES, "%s is %s short, the largest kind is %s (%s)", tier_name,
                     size_short_text(needed - available, missing), name, size_short_text(bytes, held));
    }
    return out;
}

void plan_print(const struct plan_setting *setting, const struct plan *plan, FILE *out)
{
    char tokens[SIZE_TEXT_BYTES], reason[PLAN_REASON_BYTES];
    double flops_per_s = plan->step_s > 0 ? plan->model_flops / plan->step_s : 0;
    print_head(setting, out);
    print_memory(plan, out);
    print_lanes(plan, out);
    fprintf(out, "\nstep %.3f s: %s tokens/s; %.1f TFLOP/s of the model per device, %.1f %% of peak\n", plan->step_s,
            size_text(plan->step_s > 0 ? (uint64_t)((double)plan->tokens / plan->step_s) : 0, tokens),
            flops_per_s * 1e-12, plan->peak_flops_per_s > 0 ? 100 * flops_per_s / plan->peak_flops_per_s : 0);
    plan_reason(plan, reason);
    fprintf(out, "%s%s%s\n", plan_verdict_name(plan->verdict), *reason ? ": " : "", reason);
}

static void explain_memory(const struct plan_setting *setting, FILE *out)
{
    static const char *const texts[] = {
        "each parameter in the model's dtype, unsharded or a shard of 1/N",
        "in the accumulation dtype; a shard from stage 2 on",
        "exp_avg and exp_avg_sq, in their dtype; a shard from stage 1 on",
        "each parameter of a shard in the master's dtype, unless the parameters themselves have it on the same tier",
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
        fprintf(out,
                "  bubble       P-1 times the passes of one micro-batch of the P = %d stages of V = %d parts, / V "
                "(arXiv 2104.04473)\n",
                setting->config->mesh.pipeline, plan_degrees_parts(&setting->choice));
    if (setting->choice.context > 1)
        fprintf(out,
                "  rings        C-1 = %d times a rank's keys and values forward, and with their gradients backward, "
                "next to attention\n               (arXiv 2310.01889): compute has what takes longer than attention\n",
                setting->choice.context - 1);
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
