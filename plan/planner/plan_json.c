// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_print.h"

#include "base/err.h"
#include "plan/planner/plan_degrees.h"

static json_t *memory_json(const struct plan *plan)
{
    static const enum ledger_kind states[] = {KIND_PARAMETER, KIND_GRADIENT, KIND_OPTIMIZER, KIND_MASTER};
    json_t *memory = json_object();
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        json_t *kinds = json_object();
        json_int_t state_bytes = 0;
        for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
            state_bytes += (json_int_t)plan->held_bytes[tier][states[i]];
        for (int kind = 0; kind < KIND_COUNT; kind++)
            json_object_set_new(kinds, ledger_kind_name((enum ledger_kind)kind),
                                json_integer((json_int_t)plan->held_bytes[tier][kind]));
        json_object_set_new(memory, ledger_tier_name((enum ledger_tier)tier),
                            json_pack("{s:I, s:I, s:b, s:I, s:o}", "peak_bytes", (json_int_t)plan->peak_bytes[tier],
                                      "available_bytes", (json_int_t)plan->available_bytes[tier], "fits",
                                      plan->verdicts[tier] == PLAN_FITS, "state_bytes", state_bytes, "held_bytes",
                                      kinds));
    }
    return memory;
}

// A GPU implementation's memory, by tier, line by line.
static json_t *device_json(const struct device_memory *device)
{
    json_t *tiers = json_object();
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        json_t *lines = json_object();
        for (int i = 0; i < device->line_count; i++)
            json_object_set_new(lines, device->lines[i].name, json_integer((json_int_t)device->lines[i].bytes[tier]));
        json_object_set_new(tiers, ledger_tier_name((enum ledger_tier)tier),
                            json_pack("{s:I, s:I, s:o}", "needed_bytes", (json_int_t)device->total_bytes[tier],
                                      "at_most_bytes", (json_int_t)device->at_most_bytes[tier], "held_bytes", lines));
    }
    return tiers;
}

static json_t *lanes_json(const struct plan *plan)
{
    json_t *lanes = json_object();
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        json_t *moved = json_object();
        for (int i = 0; i < OPERATION_COUNT; i++)
            json_object_set_new(moved, ledger_operation_name((enum ledger_operation)i),
                                json_integer((json_int_t)plan->step_bytes[lane][i]));
        json_object_set_new(lanes, ledger_lane_name((enum lane)lane),
                            json_pack("{s:f, s:f, s:o}", "busy_s", plan->busy_s[lane], "critical_s",
                                      plan->critical_s[lane], "moved_bytes", moved));
    }
    return lanes;
}

static json_t *groups_json(const struct plan *plan)
{
    json_t *groups = json_object();
    for (int group = 0; group < GROUP_COUNT; group++)
        json_object_set_new(groups, ledger_group_name((enum ledger_group)group),
                            json_integer((json_int_t)plan->step_group_bytes[group]));
    return groups;
}

static json_t *parts_json(const struct plan *plan)
{
    json_t *parts = json_array();
    for (int i = 0; i < plan->part_count; i++) {
        const struct plan_part *part = &plan->parts[i];
        json_array_append_new(parts, json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "operation", part->name, "lane",
                                               ledger_lane_name(part->lane), "count", (json_int_t)part->count, "bytes",
                                               (json_int_t)part->bytes, "flops", part->flops, "busy_s", part->busy_s,
                                               "critical_s", part->critical_s));
    }
    return parts;
}

json_t *plan_json(const struct plan_setting *setting, const struct plan *plan)
{
    const struct config *config = setting->config;
    double per_s = plan->step_s > 0 ? 1 / plan->step_s : 0;
    char reason[PLAN_REASON_BYTES], mesh[PLAN_MESH_BYTES];
    json_t *sends = json_pack("{s:I, s:I, s:I}", "gradients", (json_int_t)plan->step_sent_bytes[PURPOSE_REDUCE],
                              "parameters", (json_int_t)plan->step_sent_bytes[PURPOSE_GATHER], "other",
                              (json_int_t)plan->step_sent_bytes[PURPOSE_OTHER]);
    return json_pack(
        "{s:s, s:s, s:I, s:s?, s:i, s:i, s:s, s:I, s:I, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:f, "
        "s:o, s:f, s:s*, s:f, s:f, s:s, s:s*, s:i, s:i, s:I}",
        "record", "plan", "model", setting->model->name, "params",
        (json_int_t)model_param_elements(setting->model, false), "machine",
        setting->machine ? setting->machine->name : NULL, "world", setting->world, "stage", config->stage, "precision",
        dtype_name(config->precision), "micro_batch", (json_int_t)config->micro_batch, "accumulation",
        (json_int_t)config->accumulation, "fits", plan_fits(plan), "reason", plan_reason(plan, reason), "memory",
        memory_json(plan), "gpu", device_json(&plan->device), "lanes", lanes_json(plan), "sent_bytes", sends,
        "sent_bytes_by_group", groups_json(plan), "step_s", plan->step_s, "tokens_per_s", (double)plan->tokens * per_s,
        "model_flops_per_s", plan->model_flops * per_s, "device_flops_per_s", plan->device_flops * per_s,
        "peak_flops_per_s", plan->peak_flops_per_s, "operations", parts_json(plan), "planning_s", plan->took_s, "mesh",
        setting->config->mesh.shard > 0 ? plan_mesh_text(&setting->choice, config->mesh, mesh) : NULL, "bubble",
        plan->bubble, "bubble_s", plan->bubble_s, "verdict", plan_verdict_name(plan->verdict), "framework",
        plan->device.line_count > 0 ? plan->device.framework->name : NULL, "context",
        setting->choice.context > 1 ? setting->choice.context : 1, "interleave", plan_degrees_parts(&setting->choice),
        "ring_bytes", (json_int_t)plan->ring_bytes);
}

int plan_print_record(json_t *record, FILE *out)
{
    int rc =
        record && json_dumpf(record, out, JSON_COMPACT) == 0 ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a record");
    fputc('\n', out);
    json_decref(record);
    return rc;
}
