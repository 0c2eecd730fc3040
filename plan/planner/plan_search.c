// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_search.h"

#include "base/err.h"
#include "base/file.h"
#include "plan/planner/plan_choice.h"
#include "plan/planner/plan_print.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 12 };

// Where each state lives.
static const struct plan_changes placements[] = {
    {"zero0", {STAGE(0), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero1", {STAGE(1), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero2", {STAGE(2), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero3", {STAGE(3), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero2, optimizer on cpu", {STAGE(2), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("none")}},
    {"zero3, optimizer on cpu", {STAGE(3), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("none")}},
    {"zero3, all on cpu", {STAGE(3), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("cpu")}},
    {"zero3, optimizer on nvme", {STAGE(3), OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("none")}},
    {"zero3, all on nvme", {STAGE(3), OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("nvme")}},
};
enum { PLACEMENT_COUNT = sizeof placements / sizeof placements[0] };

static const struct plan_changes checkpoints[] = {
    {"no checkpoints", {CHECKPOINTS("false"), CHECKPOINTS_ON("none")}},
    {"checkpoints", {CHECKPOINTS("true"), CHECKPOINTS_ON("none")}},
    {"checkpoints on cpu", {CHECKPOINTS("true"), CHECKPOINTS_ON("cpu")}},
};
enum { CHECKPOINT_COUNT = sizeof checkpoints / sizeof checkpoints[0] };

// Tries all placements, checkpoints and bucket sizes with one batch.
static int search_batch(const struct plan_options *options, const struct plan_machine *machine, size_t micro_batch,
                        size_t accumulation, struct plan_choices *found)
{
    static const char *const buckets[] = {"50000000", "500000000"};
    for (int p = 0; p < PLACEMENT_COUNT; p++)
        for (int c = 0; c < CHECKPOINT_COUNT; c++)
            for (int b = 0; b < 2; b++) {
                struct plan_choice choice = {0};
                char text[CHOICE_CHANGE_BYTES];
                plan_choice_change_all(&choice, &placements[p]);
                plan_choice_change_all(&choice, &checkpoints[c]);
                snprintf(choice.label, sizeof choice.label, "world %d; %s; %s; %zu x %zu sequences; buckets %s",
                         options->world, placements[p].name, checkpoints[c].name, accumulation, micro_batch,
                         buckets[b]);
                snprintf(text, sizeof text, "train_micro_batch_size_per_gpu=%zu", micro_batch);
                plan_choice_change(&choice, text);
                snprintf(text, sizeof text, "gradient_accumulation_steps=%zu", accumulation);
                plan_choice_change(&choice, text);
                snprintf(text, sizeof text, "zero_optimization.reduce_bucket_size=%s", buckets[b]);
                plan_choice_change(&choice, text);
                snprintf(text, sizeof text, "zero_optimization.allgather_bucket_size=%s", buckets[b]);
                plan_choice_change(&choice, text);
                TRY(plan_choices_try(options, machine, &choice, found));
            }
    return ERR_NONE;
}

// True if a change made no difference.
static bool same(const struct plan *a, const struct plan *b)
{
    return a->step_s == b->step_s && a->tokens == b->tokens &&
           memcmp(a->held_bytes, b->held_bytes, sizeof a->held_bytes) == 0;
}

static void print_found(const struct plan_choices *found, const struct plan_options *options, FILE *out)
{
    fprintf(out, "%zu of %zu configurations fit; the fastest:\n", found->count, found->tried);
    fprintf(out, "%10s %14s %10s %10s %10s\n", "step", "tokens/s", "device", "host", "nvme");
    for (size_t i = 0, shown = 0; i < found->count && shown < SHOWN_MAX; i++) {
        const struct plan *plan = &found->list[i].plan;
        char text[SIZE_TEXT_BYTES];
        if (i > 0 && same(plan, &found->list[i - 1].plan))
            continue;
        shown++;
        fprintf(out, "%8.3f s %14s", plan->step_s, size_text((uint64_t)((double)plan->tokens / plan->step_s), text));
        for (int tier = 0; tier < TIER_COUNT; tier++)
            fprintf(out, " %10s", plan->peak_bytes[tier] > 0 ? size_short_text(plan->peak_bytes[tier], text) : "-");
        fprintf(out, "  %s\n", found->list[i].label);
    }
    if (options->write)
        fprintf(out, "wrote the first one to %s\n", options->write);
    else
        fprintf(out, "--write FILE writes the first one\n");
}

static int print_found_json(const struct plan_choices *found, const struct plan_options *options, FILE *out)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct plan_choice *choice = &found->list[i];
        struct config config;
        struct plan_setting setting = choice->setting;
        TRY(plan_choice_config(options, choice, &config));
        setting.config = &config;
        json_t *record = plan_json(&setting, &choice->plan), *set = json_array();
        for (size_t k = 0; k < choice->change_count; k++)
            json_array_append_new(set, json_string(choice->changes[k]));
        json_object_set_new(record, "set", set);
        json_dumpf(record, out, JSON_COMPACT);
        fprintf(out, "\n");
        json_decref(record);
    }
    return ERR_NONE;
}

int plan_write(const char *path, const struct config *config)
{
    FILE *file;
    TRY(file_create(path, &file));
    config_print(config, file);
    return file_finish(file, path, ERR_NONE);
}

static int write_choice(const struct plan_options *options, const struct plan_choice *choice)
{
    struct config config;
    TRY(plan_choice_config(options, choice, &config));
    return plan_write(options->write, &config);
}

static int finish(const struct plan_options *options, struct plan_choices *found, FILE *out)
{
    if (found->count == 0)
        return err_set(ERR_CHECK, "none of %zu configurations fits; try more nodes or a smaller model", found->tried);
    plan_choices_sort(found);
    if (options->write)
        TRY(write_choice(options, &found->list[0]));
    if (options->json)
        return print_found_json(found, options, out);
    print_found(found, options, out);
    return ERR_NONE;
}

// Tries all batches with which this world processes the step's sequences; none if it cannot divide them equally.
static int search_world(const struct plan_options *options, const struct plan_machine *machine, size_t sequences,
                        struct plan_choices *found)
{
    size_t world = (size_t)options->world, own = sequences / world;
    if (sequences % world != 0)
        return ERR_NONE;
    for (size_t micro = 1; micro <= own; micro *= 2)
        if (own % micro == 0)
            TRY(search_batch(options, machine, micro, own / micro, found));
    return ERR_NONE;
}

int plan_search(const struct plan_options *options, const struct plan_machine *machine, FILE *out)
{
    struct config config;
    struct plan_choices found = {0};
    TRY(plan_options_config(options, NULL, 0, &config, NULL));
    size_t sequences = config.micro_batch * config.accumulation * (size_t)options->world;
    int code = options->world_count > 0 ? ERR_NONE : search_world(options, machine, sequences, &found);
    for (size_t i = 0; code == ERR_NONE && i < options->world_count; i++) {
        struct plan_options in_world = *options;
        in_world.world = options->worlds[i];
        code = search_world(&in_world, machine, sequences, &found);
    }
    if (code == ERR_NONE && found.tried == 0)
        code = err_set(ERR_USAGE, "--worlds %s: none of them divides the %zu sequences of a step equally",
                       options->world_list, sequences);
    if (code == ERR_NONE)
        code = finish(options, &found, out);
    free(found.list);
    return code;
}
