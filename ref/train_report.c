// SPDX-License-Identifier: Apache-2.0
#include "train_report.h"

#include "err.h"
#include "size.h"
#include "train_checkpoint.h"

#include <inttypes.h>
#include <jansson.h>

const char *train_schedule_text(struct flow_schedule schedule, char out[SCHEDULE_TEXT_BYTES])
{
    static const char *const names[] = {"serial", "overlap"};
    if (schedule.mode == FLOW_CHAOS)
        snprintf(out, SCHEDULE_TEXT_BYTES, "chaos:%" PRIu64, schedule.seed);
    else
        snprintf(out, SCHEDULE_TEXT_BYTES, "%s", names[schedule.mode]);
    return out;
}

static double tokens_per_s(const struct train_result *result)
{
    return result->tokens ? (double)result->tokens / result->seconds : 0.0;
}

static json_t *step_or_null(uint64_t step)
{
    return step ? json_integer((json_int_t)step) : json_null();
}

// Every step of this run was compared, and nothing differs.
static bool equal(const struct train_result *result)
{
    return !result->difference.found && result->verified_steps == result->steps - result->resumed_step;
}

bool train_passed(const struct train_setting *setting, const struct train_result *result)
{
    return (!setting->verify || equal(result)) && result->accounting_equal;
}

static uint64_t total(const uint64_t *values, int count)
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
    if (d->tensor[0])
        fprintf(out, " of %s, element %" PRIu64, d->tensor, d->element);
    fprintf(out, ": expected 0x%0*" PRIx64 ", got 0x%0*" PRIx64 "\n", digits, d->expected_bits, digits, d->actual_bits);
}

static void print_held(const struct train_result *result, enum ledger_tier tier, FILE *out)
{
    const uint64_t *held = result->held_bytes[tier], *formula = result->formula_held_bytes[tier];
    char number[SIZE_TEXT_BYTES];
    if (total(held, KIND_COUNT) == 0 && total(formula, KIND_COUNT) == 0)
        return;
    fprintf(out, "  bytes held by rank 0, %-6s       counted           formula\n", ledger_tier_name(tier));
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (held[kind] || formula[kind])
            print_line(out, ledger_kind_name((enum ledger_kind)kind), held[kind], formula[kind]);
    print_line(out, "total", total(held, KIND_COUNT), total(formula, KIND_COUNT));
    // The kinds before staging are the model states: what the paper's figure 1 counts.
    fprintf(out, "  %-16s %17s", "model states", size_text(total(held, KIND_STAGING), number));
    fprintf(out, tier == TIER_DEVICE ? "  in the paper: %s\n" : "\n", result->memory_formula);
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

void train_print_table(const struct train_setting *setting, const struct train_result *result, FILE *out)
{
    const struct config *config = setting->config;
    char schedule[SCHEDULE_TEXT_BYTES], number[SIZE_TEXT_BYTES];
    fprintf(out, "%s (%s), %s with %s parameters, %d rank%s, %s, %s, %s\n", result->operations->name,
            result->operations->partition, setting->model->name, size_text(result->param_elements, number),
            setting->world, setting->world == 1 ? "" : "s", dtype_name(config->precision), config->recipe,
            train_schedule_text(setting->schedule, schedule));
    fprintf(out, "  %" PRIu64 " steps, %" PRIu64 " skipped; loss %.4f -> %.4f; %.0f tokens/s\n", result->steps,
            result->skipped_steps, result->first_loss, result->loss, tokens_per_s(result));
    if (result->resumed_step)
        fprintf(out, "  continued from the checkpoint of step %" PRIu64 "\n", result->resumed_step);
    if (result->saved_step)
        fprintf(out, "  last checkpoint: %s, step %" PRIu64 "\n", setting->checkpoints->store.path, result->saved_step);
    if (result->difference.found)
        print_difference(&result->difference, out);
    else if (setting->verify)
        fprintf(out, "  equal to unsharded Adam in every bit, %" PRIu64 " of %" PRIu64 " steps\n",
                result->verified_steps, result->steps - result->resumed_step);
    else
        fprintf(out, "  not compared with unsharded Adam (--verify does)\n");
    fprintf(out, "  state digest %s\n", result->digest);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        print_held(result, (enum ledger_tier)tier, out);
    fprintf(out, "  bytes sent by all        counted           formula  in the paper, a rank and step: %s\n",
            result->traffic_formula);
    print_moved(result, LANE_COLLECTIVE, out);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (lane != LANE_COLLECTIVE)
            print_moved(result, (enum lane)lane, out);
    if (!result->accounting_equal)
        fprintf(out, "  ACCOUNTING DIFFERS from the formulas on some rank\n");
}

static const char *kind_name(int kind)
{
    return ledger_kind_name((enum ledger_kind)kind);
}

static const char *operation_name(int operation)
{
    return ledger_operation_name((enum ledger_operation)operation);
}

static const char *tier_name(int tier)
{
    return ledger_tier_name((enum ledger_tier)tier);
}

static const char *lane_name(int lane)
{
    return ledger_lane_name((enum lane)lane);
}

// rows x columns numbers as an object of objects; rows of zeros are left out.
static json_t *lines(const uint64_t *values, int rows, const char *(*row_name)(int), int columns,
                     const char *(*column_name)(int))
{
    json_t *object = json_object();
    for (int row = 0; row < rows; row++, values += columns) {
        json_t *inner = json_object();
        for (int i = 0; i < columns; i++)
            json_object_set_new(inner, column_name(i), json_integer((json_int_t)values[i]));
        if (total(values, columns) > 0)
            json_object_set(object, row_name(row), inner);
        json_decref(inner);
    }
    return object;
}

static json_t *held_json(const uint64_t held[TIER_COUNT][KIND_COUNT])
{
    return lines(held[0], TIER_COUNT, tier_name, KIND_COUNT, kind_name);
}

static json_t *moved_json(const uint64_t moved[LANE_COUNT][OPERATION_COUNT])
{
    return lines(moved[0], LANE_COUNT, lane_name, OPERATION_COUNT, operation_name);
}

static json_t *difference_json(const struct train_difference *d)
{
    if (!d->found)
        return json_null();
    char expected[19], actual[19];
    int digits = (d->bits + 3) / 4;
    snprintf(expected, sizeof expected, "0x%0*" PRIx64, digits, d->expected_bits);
    snprintf(actual, sizeof actual, "0x%0*" PRIx64, digits, d->actual_bits);
    return json_pack("{s:I,s:i,s:s,s:s,s:I,s:s,s:s}", "step", (json_int_t)d->step, "rank", d->rank, "state", d->state,
                     "tensor", d->tensor, "element", (json_int_t)d->element, "expected_bits", expected, "actual_bits",
                     actual);
}

int train_print_json(const struct train_setting *setting, const struct train_result *result, FILE *out)
{
    const struct config *config = setting->config;
    char schedule[SCHEDULE_TEXT_BYTES];
    json_t *record = json_pack(
        "{s:s,s:s,s:i,s:s,s:i,s:I,s:s,s:I,s:s,s:s,s:I,s:o,s:o,s:s,s:f,s:f}", "record", "train", "model",
        setting->model->name, "stage", config->stage, "stage_name", result->operations->name, "world", setting->world,
        "steps", (json_int_t)result->steps, "precision", dtype_name(config->precision), "accumulation",
        (json_int_t)config->accumulation, "schedule", train_schedule_text(setting->schedule, schedule), "recipe",
        config->recipe, "verified_steps", (json_int_t)result->verified_steps, "equal",
        setting->verify ? json_boolean(equal(result))
                        : json_null(),
        "first_difference", difference_json(&result->difference), "state_digest", result->digest, "first_loss",
        result->first_loss, "loss", result->loss);
    if (!record)
        return err_set(ERR_INTERNAL, "the record could not be made");
    const int held_count = TIER_COUNT * KIND_COUNT, moved_count = LANE_COUNT * OPERATION_COUNT;
    json_t *rest = json_pack(
        "{s:I,s:I,s:o,s:o,s:I,s:I,s:o,s:o,s:b,s:f,s:I,s:I,s:b,s:o,s:o}", "held_bytes",
        (json_int_t)total(result->held_bytes[0], held_count), "formula_held_bytes",
        (json_int_t)total(result->formula_held_bytes[0], held_count), "held_bytes_by_tier",
        held_json(result->held_bytes), "formula_held_bytes_by_tier", held_json(result->formula_held_bytes),
        "moved_bytes", (json_int_t)total(result->moved_bytes[0], moved_count), "formula_moved_bytes",
        (json_int_t)total(result->formula_moved_bytes[0], moved_count), "moved_bytes_by_lane",
        moved_json(result->moved_bytes), "formula_moved_bytes_by_lane", moved_json(result->formula_moved_bytes),
        "accounting_equal", result->accounting_equal, "tokens_per_s", tokens_per_s(result), "skipped_steps",
        (json_int_t)result->skipped_steps, "param_elements", (json_int_t)result->param_elements, "interrupted",
        result->interrupted, "resumed_step", step_or_null(result->resumed_step), "saved_step",
        step_or_null(result->saved_step));
    if (!rest) {
        json_decref(record);
        return err_set(ERR_INTERNAL, "the record could not be made");
    }
    json_object_update(record, rest);
    json_decref(rest);
    int rc = json_dumpf(record, out, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(record);
    if (rc != 0 || fputc('\n', out) == EOF || fflush(out) != 0)
        return err_set(ERR_IO, "the record could not be written");
    return ERR_NONE;
}
