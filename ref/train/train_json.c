// SPDX-License-Identifier: Apache-2.0
// The record of a run, as one line of JSON.
#include "ref/train/train_report.h"

#include "ref/train/device.h"
#include "ref/arithmetic/onednn.h"
#include "base/err.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

// Numbers by tier and kind if they are held, else by lane and operation, as an object of objects; rows of zeros are
// left out.
static json_t *lines(const uint64_t *values, bool held)
{
    int rows = held ? TIER_COUNT : LANE_COUNT, columns = held ? KIND_COUNT : OPERATION_COUNT;
    json_t *object = json_object();
    for (int row = 0; row < rows; row++, values += columns) {
        json_t *inner = json_object();
        for (int i = 0; i < columns; i++)
            json_object_set_new(
                inner, held ? ledger_kind_name((enum ledger_kind)i) : ledger_operation_name((enum ledger_operation)i),
                json_integer((json_int_t)values[i]));
        if (train_sum(values, columns) > 0)
            json_object_set(object, held ? ledger_tier_name((enum ledger_tier)row) : ledger_lane_name((enum lane)row),
                            inner);
        json_decref(inner);
    }
    return object;
}

// Groups that sent nothing are left out.
static json_t *groups_json(const uint64_t bytes[GROUP_COUNT])
{
    json_t *object = json_object();
    for (int group = 0; group < GROUP_COUNT; group++)
        if (bytes[group] > 0)
            json_object_set_new(object, ledger_group_name((enum ledger_group)group),
                                json_integer((json_int_t)bytes[group]));
    return object;
}

// JSON has neither infinities nor NaN: they become null.
static json_t *real_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *difference_json(const struct train_difference *d)
{
    if (!d->found)
        return json_null();
    char expected[19], actual[19];
    int digits = (d->bits + 3) / 4;
    snprintf(expected, sizeof expected, "0x%0*" PRIx64, digits, d->expected_bits);
    snprintf(actual, sizeof actual, "0x%0*" PRIx64, digits, d->actual_bits);
    json_t *element = d->digest ? json_null() : json_integer((json_int_t)d->element);
    return json_pack("{s:I,s:i,s:s,s:s,s:o,s:s,s:s,s:b}", "step", (json_int_t)d->step, "rank", d->rank, "state",
                     d->state, "tensor", d->tensor, "element", element, "expected_bits", expected, "actual_bits",
                     actual, "of_schedule", d->schedule);
}

static json_t *step_or_null(uint64_t step)
{
    return step ? json_integer((json_int_t)step) : json_null();
}

// Null: ranks send what they have in its own dtype.
static json_t *quantization_json(const struct config *config)
{
    if (config->quantization_block == 0)
        return json_null();
    if (config->e4m3_weights)
        return json_pack("{s:b,s:b,s:s}", "weights", 1, "gradients", 0, "format", "e4m3");
    return json_pack("{s:b,s:b,s:I}", "weights", config->quantized_weights, "gradients", config->quantized_gradients,
                     "block_elements", (json_int_t)config->quantization_block);
}

static json_t *run_json(const struct train_setting *setting, const struct train_result *result)
{
    const struct config *config = setting->config;
    char schedule[SCHEDULE_TEXT_BYTES], emulated[EMULATION_TEXT_BYTES];
    char mesh_shown[MESH_TEXT_BYTES];
    const struct mesh mesh = config_mesh(config, setting->world);
    bool nvme = config_uses_nvme(config), offloads = config->offload_optimizer.tier != TIER_DEVICE;
    return json_pack("{s:s,s:s,s:i,s:s,s:i,s:s,s:s,s:I,s:s,s:I,s:s,s:s,s:I,s:s?,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:s}",
                     "record", "train", "model", setting->model->name, "stage", config->stage, "stage_name",
                     result->operations->name, "world", setting->world, "mesh", mesh_text(&mesh, mesh_shown), "device",
                     device_name(setting), "steps", (json_int_t)result->steps, "precision",
                     dtype_name(config->precision), "accumulation", (json_int_t)config->accumulation, "schedule",
                     train_schedule_text(setting->schedule, schedule), "recipe", config->recipe, "param_elements",
                     (json_int_t)result->param_elements, "emulated",
                     emulation_any(&setting->emulation) ? emulation_text(&setting->emulation, emulated) : NULL,
                     "parameter_tier", ledger_tier_name(config->offload_param.tier), "gradient_tier",
                     ledger_tier_name(offloads ? config->gradient_tier : TIER_DEVICE), "optimizer_tier",
                     ledger_tier_name(config->offload_optimizer.tier), "delayed_update_start_step",
                     step_or_null(config->delayed_update_start_step), "buffered",
                     nvme ? json_boolean(setting->buffered) : json_null(), "swap_checksum",
                     nvme ? json_boolean(setting->swap_checksum) : json_null(), "quantization",
                     quantization_json(config), "products",
                     train_multiplies_bf16(setting)         ? onednn_describe()
                     : train_multiplies_by_library(setting) ? "cublas"
                                                            : "float");
}

static json_t *outcome_json(const struct train_setting *setting, const struct train_result *result)
{
    return json_pack("{s:I,s:o,s:o,s:o,s:s,s:s?,s:o,s:o,s:f,s:I,s:b,s:o,s:o,s:I,s:I,s:I,s:I}", "verified_steps",
                     (json_int_t)result->verified_steps, "redone_steps",
                     setting->config->speculative_update ? json_integer((json_int_t)result->redone_steps) : json_null(),
                     "equal", setting->verify ? json_boolean(train_equal(result)) : json_null(), "first_difference",
                     difference_json(&result->difference), "state_digest", result->digest, "oracle_digest",
                     result->oracle_digest[0] ? result->oracle_digest : NULL, "first_loss",
                     real_json(result->first_loss), "loss", real_json(result->loss), "tokens_per_s",
                     train_tokens_per_s(result), "skipped_steps", (json_int_t)result->skipped_steps, "interrupted",
                     result->interrupted, "resumed_step", step_or_null(result->resumed_step), "saved_step",
                     step_or_null(result->saved_step), "unlocked_bytes", (json_int_t)result->unlocked_bytes,
                     "host_hits", (json_int_t)result->host_hits, "host_misses", (json_int_t)result->host_misses,
                     "reduction_group", (json_int_t)setting->config->reduction_group);
}

// Bytes held and moved, and what the formulas say.
static json_t *accounts_json(const struct train_result *result)
{
    const int held_count = TIER_COUNT * KIND_COUNT, moved_count = LANE_COUNT * OPERATION_COUNT;
    return json_pack("{s:I,s:I,s:o,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:b}", "held_bytes",
                     (json_int_t)train_sum(result->held_bytes[0], held_count), "formula_held_bytes",
                     (json_int_t)train_sum(result->formula_held_bytes[0], held_count), "held_bytes_by_tier",
                     lines(result->held_bytes[0], true), "formula_held_bytes_by_tier",
                     lines(result->formula_held_bytes[0], true), "moved_bytes",
                     (json_int_t)train_sum(result->moved_bytes[0], moved_count), "formula_moved_bytes",
                     (json_int_t)train_sum(result->formula_moved_bytes[0], moved_count), "moved_bytes_by_lane",
                     lines(result->moved_bytes[0], false), "formula_moved_bytes_by_lane",
                     lines(result->formula_moved_bytes[0], false), "sent_bytes_by_group",
                     groups_json(result->group_bytes), "formula_sent_bytes_by_group",
                     groups_json(result->formula_group_bytes), "accounting_equal", result->accounting_equal);
}

int train_print_json(const struct train_setting *setting, const struct train_result *result, FILE *out)
{
    json_t *parts[] = {run_json(setting, result), outcome_json(setting, result), accounts_json(result)};
    json_t *record = json_object();
    bool complete = record;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        complete &= parts[i] && json_object_update(record, parts[i]) == 0;
        json_decref(parts[i]);
    }
    if (!complete) {
        json_decref(record);
        return err_set(ERR_INTERNAL, "the record could not be made");
    }
    int rc = json_dumpf(record, out, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(record);
    if (rc != 0 || fputc('\n', out) == EOF || fflush(out) != 0)
        return err_set(ERR_IO, "the record could not be written");
    return ERR_NONE;
}
