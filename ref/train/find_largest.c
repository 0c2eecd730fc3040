// SPDX-License-Identifier: Apache-2.0
#include "ref/train/find_largest.h"

#include "base/err.h"
#include "ref/model/gpt_find.h"
#include "base/size.h"
#include "ref/train/train_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// The family's model at that place, tiled as the configuration says; null past the last.
static int model_at(const struct train_setting *setting, int index, const struct model **out)
{
    TRY(gpt_family(index, out));
    return *out ? model_find_tiled((*out)->name, setting->config->tiling_factor, out) : ERR_NONE;
}

static int try_model(const struct train_setting *setting, const struct model *model, struct find_largest_trial *out)
{
    struct train_setting trial = *setting;
    struct train_result result;
    double begin_s = now_s();
    trial.model = model;
    trial.steps = 1;
    trial.progress = NULL;
    *out = (struct find_largest_trial){.model = model, .param_elements = model_param_elements(model, false)};
    int rc = train_run(&trial, &result);
    free(result.step_ns);
    out->seconds = now_s() - begin_s;
    if (rc == ERR_BUDGET) {
        snprintf(out->refusal, sizeof out->refusal, "%s", err_message());
        return ERR_NONE;
    }
    if (rc != ERR_NONE)
        return err_prefix(rc, "model %s", model->name);
    if (result.interrupted)
        return err_set(ERR_USAGE, "interrupted");
    if (!train_passed(&trial, &result))
        return err_set(ERR_CHECK, "model %s: bytes held or moved differ from the formulas", model->name);
    out->fits = true;
    for (int tier = 0; tier < TIER_COUNT; tier++)
        out->held_bytes[tier] = train_sum(result.held_bytes[tier], KIND_COUNT);
    return ERR_NONE;
}

// In strides that double until a model does not fit, or the family ends; then halving what is left. Between the two,
// `fits` is the place of the largest that fits so far, `beyond` of the smallest that does not.
int find_largest(const struct train_setting *setting, void (*tried)(const struct find_largest_trial *trial),
                 struct find_largest *out)
{
    int fits = -1, beyond = -1, stride = 1;
    *out = (struct find_largest){0};
    while (beyond < 0 || beyond - fits > 1) {
        int at = beyond < 0 ? fits + stride : fits + (beyond - fits) / 2;
        struct find_largest_trial trial;
        const struct model *model;
        TRY(model_at(setting, at, &model));
        if (!model) {
            // There is nothing so far out: nearer, or the family's last fits.
            if (stride == 1)
                break;
            stride /= 2;
            continue;
        }
        TRY(try_model(setting, model, &trial));
        out->trial_count++;
        if (tried)
            tried(&trial);
        if (trial.fits) {
            fits = at;
            out->largest = trial;
            stride *= 2;
        } else {
            beyond = at;
            out->next = trial;
        }
    }
    if (fits < 0)
        return err_set(ERR_BUDGET, "not even %s fits: %s", out->next.model->name, out->next.refusal);
    return ERR_NONE;
}

static void show_trial(const struct find_largest_trial *trial)
{
    char number[SIZE_TEXT_BYTES];
    fprintf(stderr, "%s, %s parameters: ", trial->model->name, size_text(trial->param_elements, number));
    if (!trial->fits) {
        fprintf(stderr, "%.*s\n", (int)strcspn(trial->refusal, "\n;"), trial->refusal);
        return;
    }
    fprintf(stderr, "trained a step in %.1f s", trial->seconds);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        if (trial->held_bytes[tier] > 0)
            fprintf(stderr, ", %s on %s", size_short_text(trial->held_bytes[tier], number),
                    ledger_tier_name((enum ledger_tier)tier));
    fputc('\n', stderr);
}

static void print_table(const struct find_largest *found, FILE *out)
{
    char number[SIZE_TEXT_BYTES];
    fprintf(out, "largest model       %s\n", found->largest.model->name);
    fprintf(out, "parameters          %s\n", size_text(found->largest.param_elements, number));
    for (int tier = 0; tier < TIER_COUNT; tier++)
        fprintf(out, "held, %-12s  %s bytes a rank\n", ledger_tier_name((enum ledger_tier)tier),
                size_text(found->largest.held_bytes[tier], number));
    if (!found->next.model)
        fprintf(out, "the next            is not in the family: this is its largest\n");
    else
        fprintf(out, "the next            %s, %s parameters: %s\n", found->next.model->name,
                size_text(found->next.param_elements, number), found->next.refusal);
}

static json_t *trial_json(const struct find_largest_trial *trial)
{
    if (!trial->model)
        return json_null();
    json_t *held = json_object();
    for (int tier = 0; tier < TIER_COUNT && trial->fits; tier++)
        json_object_set_new(held, ledger_tier_name((enum ledger_tier)tier),
                            json_integer((json_int_t)trial->held_bytes[tier]));
    return json_pack("{s:s,s:I,s:o,s:o}", "model", trial->model->name, "param_elements",
                     (json_int_t)trial->param_elements, "held_bytes_by_tier", held, "refusal",
                     trial->fits ? json_null() : json_string(trial->refusal));
}

static json_t *budget_json(uint64_t bytes)
{
    return bytes > 0 ? json_integer((json_int_t)bytes) : json_null();
}

static int print_json(const struct train_setting *setting, const struct find_largest *found, FILE *out)
{
    json_t *record = json_pack(
        "{s:s,s:i,s:i,s:I,s:o,s:o,s:o,s:i,s:o,s:o}", "record", "find_largest", "stage", setting->config->stage, "world",
        setting->world, "micro_batch", (json_int_t)setting->config->micro_batch, "device_memory_bytes",
        budget_json(setting->device_memory_bytes), "host_memory_bytes", budget_json(setting->host_memory_bytes),
        "nvme_space_bytes", budget_json(setting->nvme_space_bytes), "trials", found->trial_count, "largest",
        trial_json(&found->largest), "next", trial_json(&found->next));
    if (!record)
        return err_set(ERR_INTERNAL, "the record could not be made");
    int rc = json_dumpf(record, out, JSON_COMPACT);
    json_decref(record);
    if (rc != 0 || fputc('\n', out) == EOF || fflush(out) != 0)
        return err_set(ERR_IO, "the record could not be written");
    return ERR_NONE;
}

int find_largest_run(const struct train_setting *setting, bool json)
{
    struct find_largest found;
    TRY(find_largest(setting, json && !isatty(STDERR_FILENO) ? NULL : show_trial, &found));
    if (json)
        return print_json(setting, &found, stdout);
    print_table(&found, stdout);
    return ERR_NONE;
}
