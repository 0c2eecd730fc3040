// SPDX-License-Identifier: Apache-2.0
#include "ref/train/find_largest.h"

#include "base/err.h"
#include "base/size.h"
#include "ref/comm/comm_dry.h"
#include "ref/model/gpt_find.h"
#include "ref/model/names/model_find.h"
#include "ref/train/train_internal.h"
#include "ref/train/train_report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// Opens one rank of a dry run, which accounts for all memory that a real one takes before its first step.
static int open_rank(const struct train_setting *dry, int index, uint64_t held_bytes[TIER_COUNT])
{
    struct train_rank *rank = calloc(1, sizeof *rank);
    if (!rank)
        return err_set(ERR_MEMORY, "no memory for a rank");
    rank->setting = dry;
    rank->rank = index;
    int rc = comm_dry_open(index, dry->world, &rank->comm);
    if (rc == ERR_NONE)
        rc = train_rank_open(rank);
    for (int tier = 0; tier < TIER_COUNT && rc == ERR_NONE; tier++) {
        held_bytes[tier] = rank->ledger.tier_bytes[tier];
        if (held_bytes[tier] != train_sum(rank->formula.held_bytes[tier], KIND_COUNT))
            rc = err_set(ERR_CHECK, "bytes held differ from the formulas");
    }
    train_rank_close(rank);
    comm_close(rank->comm);
    free(rank);
    return rc == ERR_NONE ? rc : err_prefix(rc, "rank %d", index);
}

// Ranks differ only in padding, so the first and the last represent all.
static int try_model(const struct train_setting *setting, const struct model *model, struct find_largest_trial *out)
{
    struct train_setting dry = *setting;
    uint64_t held_bytes[TIER_COUNT];
    dry.model = model;
    dry.schedule = (struct executor_schedule){.mode = EXECUTOR_DRY};
    *out = (struct find_largest_trial){.model = model, .param_elements = model_param_elements(model, false)};
    int rc = open_rank(&dry, 0, out->held_bytes);
    if (rc == ERR_NONE && setting->world > 1)
        rc = open_rank(&dry, setting->world - 1, held_bytes);
    out->fits = rc == ERR_NONE;
    if (rc == ERR_BUDGET)
        snprintf(out->refusal, sizeof out->refusal, "%s", err_message());
    return rc == ERR_NONE || rc == ERR_BUDGET ? ERR_NONE : err_prefix(rc, "model %s", model->name);
}

int find_largest(const struct train_setting *setting, struct find_largest *out)
{
    const struct config *config = setting->config;
    const struct model_changes changes = {config->tiling_factor, config->sequence_parallel, config->lora};
    *out = (struct find_largest){0};
    for (int index = 0;; index++) {
        const struct model *model;
        TRY(gpt_family(index, &model));
        out->next = (struct find_largest_trial){0};
        if (!model)
            return ERR_NONE;
        TRY(model_find_changed(model->name, &changes, &model));
        TRY(try_model(setting, model, &out->next));
        out->trial_count++;
        if (!out->next.fits)
            return index > 0 ? ERR_NONE : err_set(ERR_BUDGET, "not even %s fits: %s", model->name, out->next.refusal);
        out->largest = out->next;
    }
}

static void print_table(const struct find_largest *found, FILE *out)
{
    char number[SIZE_TEXT_BYTES];
    fprintf(out, "largest model       %s\n", found->largest.model->name);
    fprintf(out, "parameters          %s\n", size_text(found->largest.param_elements, number));
    for (int tier = 0; tier < TIER_COUNT; tier++)
        fprintf(out, "held, %-12s  %s bytes per rank\n", ledger_tier_name((enum ledger_tier)tier),
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

int find_largest_run(const struct train_setting *setting, bool json)
{
    struct find_largest found;
    TRY(find_largest(setting, &found));
    if (!json) {
        print_table(&found, stdout);
        return ERR_NONE;
    }
    json_t *record = json_pack(
        "{s:s,s:i,s:i,s:I,s:o,s:o,s:o,s:i,s:o,s:o}", "record", "find_largest", "stage", setting->config->stage, "world",
        setting->world, "micro_batch", (json_int_t)setting->config->micro_batch, "device_memory_bytes",
        budget_json(setting->device_memory_bytes), "host_memory_bytes", budget_json(setting->host_memory_bytes),
        "nvme_space_bytes", budget_json(setting->nvme_space_bytes), "trials", found.trial_count, "largest",
        trial_json(&found.largest), "next", trial_json(&found.next));
    int rc = record && json_dumpf(record, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF && fflush(stdout) == 0
                 ? ERR_NONE
                 : err_set(ERR_IO, "the record could not be written");
    json_decref(record);
    return rc;
}
