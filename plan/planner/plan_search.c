// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_search.h"

#include "base/err.h"
#include "plan/planner/plan_print.h"
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 12 };

// Where states live, as changes; the stage of those that have none is the configuration's.
struct placement {
    const char *name;
    const char *changes[6];
};

#define STAGE(n) "zero_optimization.stage=" #n
#define OPTIMIZER(tier) "zero_optimization.offload_optimizer.device=" tier
#define PARAMETERS(tier) "zero_optimization.offload_param.device=" tier
#define GRADIENTS(tier) "zerogauge.offload_gradient.device=" tier

static const struct placement placements[] = {
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

#define CHECKPOINTS(on) "zerogauge.activation_checkpointing.enabled=" on
#define CHECKPOINTS_ON(tier) "zerogauge.activation_checkpointing.device=" tier

static const struct placement checkpoints[] = {
    {"no checkpoints", {CHECKPOINTS("false"), CHECKPOINTS_ON("none")}},
    {"checkpoints", {CHECKPOINTS("true"), CHECKPOINTS_ON("none")}},
    {"checkpoints on cpu", {CHECKPOINTS("true"), CHECKPOINTS_ON("cpu")}},
};
enum { CHECKPOINT_COUNT = sizeof checkpoints / sizeof checkpoints[0] };

static void change(struct plan_choice *choice, const char *text)
{
    if (choice->change_count < CHOICE_CHANGE_MAX)
        snprintf(choice->changes[choice->change_count++], CHOICE_CHANGE_BYTES, "%s", text);
}

static void change_all(struct plan_choice *choice, const struct placement *placement)
{
    for (const char *const *text = placement->changes; *text; text++)
        change(choice, *text);
}

// Plans a choice. *fits is false, too, where the configuration or the machine does not allow it; other errors end all.
static int try_choice(const struct plan_options *options, const struct plan_machine *machine,
                      struct plan_choice *choice, struct config *config, bool *fits)
{
    const char *changes[CHOICE_CHANGE_MAX];
    *fits = false;
    for (size_t i = 0; i < choice->change_count; i++)
        changes[i] = choice->changes[i];
    choice->setting = (struct plan_setting){.config = config, .machine = machine, .world = options->world};
    int code = plan_options_config(options, changes, choice->change_count, config, NULL);
    if (code == ERR_NONE)
        code = plan_options_model(options, config, &choice->setting.model);
    if (code == ERR_NONE)
        code = plan_run(&choice->setting, &choice->plan);
    if (code == ERR_USAGE)
        return ERR_NONE;
    *fits = choice->plan.fits_all;
    return code;
}

static int compare_choices(const void *left, const void *right)
{
    const struct plan_choice *a = left, *b = right;
    double a_s = a->plan.step_s / (double)a->plan.tokens, b_s = b->plan.step_s / (double)b->plan.tokens;
    return a_s < b_s ? -1 : a_s > b_s;
}

// Choices that were found to fit. The list is owned.
struct found {
    struct plan_choice *list;
    size_t count, capacity, tried;
};

static int keep(const struct plan_choice *choice, struct found *found)
{
    if (found->count == found->capacity) {
        size_t capacity = 2 * found->capacity + 64;
        struct plan_choice *list = realloc(found->list, capacity * sizeof *list);
        if (!list)
            return err_set(ERR_MEMORY, "no memory for %zu configurations", capacity);
        found->list = list;
        found->capacity = capacity;
    }
    found->list[found->count++] = *choice;
    return ERR_NONE;
}

static int add(const struct plan_options *options, const struct plan_machine *machine, struct plan_choice *choice,
               struct found *found)
{
    struct config config;
    bool fits;
    TRY(try_choice(options, machine, choice, &config, &fits));
    found->tried++;
    return fits ? keep(choice, found) : ERR_NONE;
}

static void print_changes(const struct plan_choice *choice, FILE *out)
{
    for (size_t i = 0; i < choice->change_count; i++)
        fprintf(out, " --set %s", choice->changes[i]);
}

int plan_advise(const struct plan_options *options, const struct plan_machine *machine, const struct plan *plan,
                FILE *out)
{
    static const struct placement changes[] = {
        {"", {"train_micro_batch_size_per_gpu=1"}},
        {"", {CHECKPOINTS("true")}},
        {"", {CHECKPOINTS("true"), CHECKPOINTS_ON("cpu")}},
        {"", {"train_micro_batch_size_per_gpu=1", CHECKPOINTS("true")}},
        {"", {STAGE(1)}},
        {"", {STAGE(2)}},
        {"", {STAGE(3)}},
        {"", {OPTIMIZER("cpu")}},
        {"", {OPTIMIZER("nvme"), GRADIENTS("nvme")}},
        {"", {STAGE(3), OPTIMIZER("cpu"), PARAMETERS("cpu")}},
        {"", {STAGE(3), OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("nvme")}},
        {"", {"zerogauge.tiling.factor=16"}},
        {"", {"zerogauge.tiling.factor=16", "train_micro_batch_size_per_gpu=1"}},
    };
    if (plan->fits_all)
        return ERR_NONE;
    struct found found = {0};
    int code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < sizeof changes / sizeof changes[0]; i++) {
        struct plan_choice choice = {0};
        change_all(&choice, &changes[i]);
        code = add(options, machine, &choice, &found);
    }
    qsort(found.list, found.count, sizeof *found.list, compare_choices);
    for (size_t i = 0; code == ERR_NONE && i < found.count && i < 3; i++) {
        fprintf(out, "%s", i == 0 ? "it fits with" : "     or with");
        print_changes(&found.list[i], out);
        fprintf(out, ": a step %.3f s\n", found.list[i].plan.step_s);
    }
    if (code == ERR_NONE && found.count == 0)
        fprintf(out, "no change of one thing makes it fit; --search tries them together, more nodes hold more\n");
    free(found.list);
    return code;
}

// All placements, checkpoints and buckets with one batch.
static int search_batch(const struct plan_options *options, const struct plan_machine *machine, size_t micro_batch,
                        size_t accumulation, struct found *found)
{
    static const char *const buckets[] = {"50000000", "500000000"};
    for (int p = 0; p < PLACEMENT_COUNT; p++)
        for (int c = 0; c < CHECKPOINT_COUNT; c++)
            for (int b = 0; b < 2; b++) {
                struct plan_choice choice = {0};
                char text[CHOICE_CHANGE_BYTES];
                change_all(&choice, &placements[p]);
                change_all(&choice, &checkpoints[c]);
                snprintf(choice.label, sizeof choice.label, "%d ranks; %s; %s; %zu x %zu sequences; buckets %s",
                         options->world, placements[p].name, checkpoints[c].name, accumulation, micro_batch,
                         buckets[b]);
                snprintf(text, sizeof text, "train_micro_batch_size_per_gpu=%zu", micro_batch);
                change(&choice, text);
                snprintf(text, sizeof text, "gradient_accumulation_steps=%zu", accumulation);
                change(&choice, text);
                snprintf(text, sizeof text, "zero_optimization.reduce_bucket_size=%s", buckets[b]);
                change(&choice, text);
                snprintf(text, sizeof text, "zero_optimization.allgather_bucket_size=%s", buckets[b]);
                change(&choice, text);
                TRY(add(options, machine, &choice, found));
            }
    return ERR_NONE;
}

// Whether a change made no difference.
static bool same(const struct plan *a, const struct plan *b)
{
    return a->step_s == b->step_s && a->tokens == b->tokens &&
           memcmp(a->held_bytes, b->held_bytes, sizeof a->held_bytes) == 0;
}

static void print_found(const struct found *found, const struct plan_options *options, FILE *out)
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
        fprintf(out, "the first one is written to %s\n", options->write);
    else
        fprintf(out, "--write FILE writes the first one\n");
}

// The options in another world.
static struct plan_options in_world(const struct plan_options *options, int world)
{
    struct plan_options out = *options;
    out.world = world;
    return out;
}

// The configuration of a choice.
static int config_of(const struct plan_options *options, const struct plan_choice *choice, struct config *out)
{
    const struct plan_options in = in_world(options, choice->setting.world);
    const char *changes[CHOICE_CHANGE_MAX];
    for (size_t i = 0; i < choice->change_count; i++)
        changes[i] = choice->changes[i];
    return plan_options_config(&in, changes, choice->change_count, out, NULL);
}

static int print_found_json(const struct found *found, const struct plan_options *options, FILE *out)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct plan_choice *choice = &found->list[i];
        struct config config;
        struct plan_setting setting = choice->setting;
        TRY(config_of(options, choice, &config));
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
    FILE *file = fopen(path, "wxe");
    if (!file)
        return err_set(ERR_IO, "%s: cannot be written: %s%s", path, strerror(errno),
                       errno == EEXIST ? "; give another name" : "");
    config_print(config, file);
    bool failed = ferror(file) != 0;
    return fclose(file) != 0 || failed ? err_set(ERR_IO, "%s: cannot be written", path) : ERR_NONE;
}

static int write_choice(const struct plan_options *options, const struct plan_choice *choice)
{
    struct config config;
    TRY(config_of(options, choice, &config));
    return plan_write(options->write, &config);
}

static int finish(const struct plan_options *options, const struct found *found, FILE *out)
{
    if (found->count == 0)
        return err_set(ERR_CHECK, "none of %zu configurations fits: more nodes, or a smaller model", found->tried);
    qsort(found->list, found->count, sizeof *found->list, compare_choices);
    if (options->write)
        TRY(write_choice(options, &found->list[0]));
    if (options->json)
        return print_found_json(found, options, out);
    print_found(found, options, out);
    return ERR_NONE;
}

// All batches by which this world's ranks make the step's sequences; none where they cannot share them equally.
static int search_world(const struct plan_options *options, const struct plan_machine *machine, size_t sequences,
                        struct found *found)
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
    struct found found = {0};
    TRY(plan_options_config(options, NULL, 0, &config, NULL));
    size_t sequences = config.micro_batch * config.accumulation * (size_t)options->world;
    int code = options->world_count > 0 ? ERR_NONE : search_world(options, machine, sequences, &found);
    for (size_t i = 0; code == ERR_NONE && i < options->world_count; i++) {
        const struct plan_options in = in_world(options, options->worlds[i]);
        code = search_world(&in, machine, sequences, &found);
    }
    if (code == ERR_NONE && found.tried == 0)
        code = err_set(ERR_USAGE, "--worlds %s: none of them can share the %zu sequences of a step equally",
                       options->world_list, sequences);
    if (code == ERR_NONE)
        code = finish(options, &found, out);
    free(found.list);
    return code;
}
