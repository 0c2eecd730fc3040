// SPDX-License-Identifier: Apache-2.0
#include "ref/train/train_report.h"

#include "ref/train/device.h"
#include "ref/arithmetic/onednn.h"
#include "base/err.h"
#include "base/size.h"
#include "ref/train/train_checkpoint.h"

#include <inttypes.h>

const char *train_schedule_text(struct executor_schedule schedule, char out[SCHEDULE_TEXT_BYTES])
{
    static const char *const names[] = {"serial", "overlap"};
    if (schedule.mode == EXECUTOR_CHAOS)
        snprintf(out, SCHEDULE_TEXT_BYTES, "chaos:%" PRIu64, schedule.seed);
    else
        snprintf(out, SCHEDULE_TEXT_BYTES, "%s", names[schedule.mode]);
    return out;
}

double train_tokens_per_s(const struct train_result *result)
{
    return result->tokens ? (double)result->tokens / result->seconds : 0.0;
}

bool train_equal(const struct train_result *result)
{
    return !result->difference.found && result->verified_steps == result->steps - result->resumed_step;
}

bool train_passed(const struct train_setting *setting, const struct train_result *result)
{
    return (!setting->verify || train_equal(result)) && result->accounting_equal;
}

uint64_t train_sum(const uint64_t *values, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static void print_line(FILE *out, const char *name, uint64_t counted, uint64_t formula)
{
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
    fprintf(out, "  %-16s %17s %17s  %s\n", name, size_text(counted, a), size_text(formula, b),
            counted == formula ? "=" : "DIFFERS");
}

static void print_difference(const struct train_difference *d, FILE *out)
{
    int digits = (d->bits + 3) / 4;
    fprintf(out, "  FIRST DIFFERENCE  step %" PRIu64 ", rank %d, %s", d->step, d->rank, d->state);
    if (d->tensor[0] && d->digest)
        fprintf(out, " of the bucket that begins with %s, digest", d->tensor);
    else if (d->tensor[0])
        fprintf(out, " of %s, element %" PRIu64, d->tensor, d->element);
    fprintf(out, ": expected 0x%0*" PRIx64 ", got 0x%0*" PRIx64 "\n", digits, d->expected_bits, digits, d->actual_bits);
    if (d->schedule)
        fprintf(out, "    The same steps with a wait after each are equal: the difference is one of the schedule. "
                     "--schedule chaos:SEED looks for its cause.\n");
}

static void print_held(const struct train_setting *setting, const struct train_result *result, enum ledger_tier tier,
                       FILE *out)
{
    const uint64_t *held = result->held_bytes[tier], *formula = result->formula_held_bytes[tier];
    char number[SIZE_TEXT_BYTES];
    if (train_sum(held, KIND_COUNT) == 0 && train_sum(formula, KIND_COUNT) == 0)
        return;
    fprintf(out, "  bytes held by rank 0, %-6s  counted           formula\n", ledger_tier_name(tier));
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (held[kind] || formula[kind])
            print_line(out, ledger_kind_name((enum ledger_kind)kind), held[kind], formula[kind]);
    print_line(out, "total", train_sum(held, KIND_COUNT), train_sum(formula, KIND_COUNT));
    // The kinds before staging are the model states, which the paper's figure 1 counts.
    fprintf(out, "  %-16s %17s", "model states", size_text(train_sum(held, KIND_STAGING), number));
    // The paper trains every parameter.
    char paper[FORMULA_TEXT_BYTES] = "";
    if (!setting->model->lora)
        formula_memory_text(setting->config, tier, paper);
    fprintf(out, "%s%s\n", paper[0] ? "  in the paper: " : "", paper);
}

static void print_moved(const struct train_result *result, enum lane lane, FILE *out)
{
    for (int operation = 0; operation < OPERATION_COUNT; operation++) {
        uint64_t moved = result->moved_bytes[lane][operation], formula = result->formula_moved_bytes[lane][operation];
        if (moved || formula)
            print_line(out,
                       lane == LANE_COLLECTIVE ? ledger_operation_name((enum ledger_operation)operation)
                                               : ledger_lane_name(lane),
                       moved, formula);
    }
}

// Where the mesh has groups: what is sent within each kind of them.
static void print_groups(const struct train_result *result, FILE *out)
{
    if (result->group_bytes[GROUP_WORLD] == train_sum(result->group_bytes, GROUP_COUNT))
        return;
    fprintf(out, "  of these within groups   counted           formula\n");
    for (int group = 0; group < GROUP_COUNT; group++)
        if (result->group_bytes[group] || result->formula_group_bytes[group])
            print_line(out, ledger_group_name((enum ledger_group)group), result->group_bytes[group],
                       result->formula_group_bytes[group]);
}

// The tiers of states, unless all are on the device.
static void print_placement(const struct config *config, const struct train_result *result, FILE *out)
{
    bool offloads = config->offload_optimizer.tier != TIER_DEVICE;
    enum ledger_tier gradient_tier = offloads ? config->gradient_tier : TIER_DEVICE;
    bool checkpoints = config->activation_checkpointing;
    if (!offloads && config->offload_param.tier == TIER_DEVICE && !checkpoints)
        return;
    fprintf(out, "  parameters on %s, gradients on %s, optimizer on %s%s%s\n",
            ledger_tier_name(config->offload_param.tier), ledger_tier_name(gradient_tier),
            ledger_tier_name(config->offload_optimizer.tier), checkpoints ? ", activation checkpoints on " : "",
            checkpoints ? ledger_tier_name(config->activation_tier) : "");
    if (config->delayed_update_start_step > 0)
        fprintf(out, "  updates one step late from step %" PRIu64 " on\n", config->delayed_update_start_step);
    if (config->speculative_update)
        fprintf(out, "  updates before the step is decided, made again in %" PRIu64 " of %" PRIu64 " steps\n",
                result->redone_steps, result->steps - result->resumed_step);
}

static void print_pipeline(const struct config *config, FILE *out)
{
    const struct pipeline_schedule schedule = {config->pipeline_schedule, config->mesh.pipeline,
                                               (int)config->accumulation};
    if (schedule.stage_count > 1)
        fprintf(
            out,
            "  pipeline %s: %d stages, %d micro-batches, bubble (P-1)/(M+P-1) = %.1f %%; in flight at most %d in the "
            "first stage, %d in the last\n",
            pipeline_kind_name(schedule.kind), schedule.stage_count, schedule.micro_count,
            100 * pipeline_bubble(&schedule), pipeline_in_flight(&schedule, 0),
            pipeline_in_flight(&schedule, schedule.stage_count - 1));
}

// Facts without which the figures of a run would mislead.
static void print_marks(const struct train_setting *setting, const struct train_result *result, FILE *out)
{
    char text[EMULATION_TEXT_BYTES], number[SIZE_TEXT_BYTES];
    if (emulation_any(&setting->emulation))
        fprintf(out, "  EMULATED lanes, GB/s: %s\n", emulation_text(&setting->emulation, text));
    if (setting->buffered && config_uses_nvme(setting->config))
        fprintf(out, "  BUFFERED: NVMe through the page cache, not the disk's speed\n");
    char mesh[MESH_TEXT_BYTES];
    bool is_divided = setting->model->sequence_parallel && setting->config->mesh.tensor > 1;
    if (setting->config->mesh.expert > 1)
        fprintf(out, "  mesh %s: sums of experts within expert groups, then over the ranks with the same experts\n",
                mesh_text(&setting->config->mesh, mesh));
    else if (setting->config->mesh.replicate > 1)
        fprintf(out, "  mesh %s: sums within shard groups, then over replicas\n",
                mesh_text(&setting->config->mesh, mesh));
    if (mesh_parts(&setting->config->mesh) > 1)
        fprintf(out, "  mesh %s: %d parts, of which Psi is one%s\n", mesh_text(&setting->config->mesh, mesh),
                mesh_parts(&setting->config->mesh), is_divided ? "; sequence parallelism" : "");
    print_pipeline(setting->config, out);
    if (setting->config->e4m3_weights)
        fputs("  QUANTIZED parameters, in E4M3, one scale each\n", out);
    else if (setting->config->quantized_weights)
        fprintf(out, "  QUANTIZED parameters, in 8 bits, blocks of %zu\n", setting->config->quantization_block);
    if (setting->config->quantized_gradients)
        fprintf(out, "  QUANTIZED gradients, in 4 bits, blocks of %zu, nodes of %d ranks\n",
                setting->config->quantization_block, setting->config->node_ranks);
    else if (setting->config->reduction_group > 0)
        fprintf(out, "  HIERARCHICAL sums, in groups of %zu ranks\n", setting->config->reduction_group);
    if (train_multiplies_bf16(setting))
        fprintf(out, "  products in bf16 by %s\n", onednn_describe());
    if (train_multiplies_by_library(setting))
        fprintf(out, "  products by cuBLAS, whose sums have the GPU's order\n");
    if (result->unlocked_bytes)
        fprintf(out, "  NOT LOCKED: %s bytes of host memory%s\n", size_text(result->unlocked_bytes, number),
                setting->accelerator ? ", which the device refused to pin and copies as pageable memory"
                                     : " exceed the limit of locked memory (ulimit -l)");
    if (setting->config->offload_param.tier == TIER_NVME)
        fprintf(out, "  parameters on NVMe: %" PRIu64 " of %" PRIu64 " fetches found them on the host\n",
                result->host_hits, result->host_hits + result->host_misses);
}

void train_print_table(const struct train_setting *setting, const struct train_result *result, FILE *out)
{
    const struct config *config = setting->config;
    char schedule[SCHEDULE_TEXT_BYTES], number[SIZE_TEXT_BYTES];
    fprintf(out, "%s%s (%s), %s with %s parameters, %d rank%s%s%s, %s, %s, %s\n",
            emulation_any(&setting->emulation) ? "EMULATED " : "", result->operations->name,
            result->operations->partition, setting->model->name, size_text(result->param_elements, number),
            setting->world, setting->world == 1 ? "" : "s", setting->accelerator ? " on " : "",
            setting->accelerator ? device_name(setting) : "", dtype_name(config->precision), config->recipe,
            train_schedule_text(setting->schedule, schedule));
    fprintf(out, "  %" PRIu64 " steps, %" PRIu64 " skipped; loss %.4f -> %.4f; %.0f tokens/s\n", result->steps,
            result->skipped_steps, result->first_loss, result->loss, train_tokens_per_s(result));
    if (result->resumed_step)
        fprintf(out, "  continued from the checkpoint of step %" PRIu64 "\n", result->resumed_step);
    if (result->saved_step)
        fprintf(out, "  last checkpoint: %s, step %" PRIu64 "\n", setting->checkpoints->store.path, result->saved_step);
    if (result->save_copy_bytes)
        fprintf(out, "  saves while steps go on, from a copy of %s bytes in rank 0's host memory\n",
                size_text(result->save_copy_bytes, number));
    if (result->difference.found)
        print_difference(&result->difference, out);
    else if (setting->verify)
        fprintf(out, "  equal to unsharded %s in every bit, %" PRIu64 " of %" PRIu64 " steps\n",
                config_optimizer_name(config), result->verified_steps, result->steps - result->resumed_step);
    else
        fprintf(out, "  not compared with unsharded %s (--verify does)\n", config_optimizer_name(config));
    fprintf(out, "  state digest %s\n", result->digest);
    print_placement(config, result, out);
    print_marks(setting, result, out);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        print_held(setting, result, (enum ledger_tier)tier, out);
    fprintf(out, "  bytes sent by all        counted           formula%s%s\n",
            setting->model->lora ? "" : "  in the paper, per rank and step: ",
            setting->model->lora ? "" : result->traffic_formula);
    print_moved(result, LANE_COLLECTIVE, out);
    print_groups(result, out);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (lane != LANE_COLLECTIVE)
            print_moved(result, (enum lane)lane, out);
    if (!result->accounting_equal)
        fprintf(out, "  ACCOUNTING DIFFERS from the formulas on some rank\n");
}
