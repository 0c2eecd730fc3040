// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_choice.h"

#include "base/err.h"
#include "plan/planner/plan_model.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 3, LORA_RANK = 16 };

// An option whose value grows or shrinks until the plan fits, and then back by bisection as far as it still fits.
struct shape {
    const char *option;
    long long limit, grain;  // the last value tried, and the difference at which bisection ends
};

static const struct shape shapes[] = {{"--world", PLAN_RANKS_MAX, 1}, {"--sequence-length", 256, 256}};

static int fits_with(const struct plan_options *options, const struct plan_machine *machine,
                     const struct plan_choice *choice, bool *out)
{
    struct plan_choices found = {0};
    struct plan_choice own = *choice;
    int code = plan_choices_try(options, machine, &own, &found);
    *out = found.count > 0;
    free(found.list);
    return code;
}

static int fits_at(const struct plan_options *options, const struct plan_machine *machine,
                   const struct plan_choice *choice, const struct shape *shape, long long value, bool *out)
{
    struct plan_options changed = *options;
    if (shape == &shapes[0])
        changed.world = (int)value;
    else
        changed.sequence_length = value;
    return fits_with(&changed, machine, choice, out);
}

// The value nearest to `from` with which the choice fits; 0 if none does.
static int nearest(const struct plan_options *options, const struct plan_machine *machine,
                   const struct plan_choice *choice, const struct shape *shape, long long from, long long *out)
{
    bool grows = shape->limit > from, fits = false;
    long long fails = from, value = from;
    *out = 0;
    while (!fits && value != shape->limit) {
        fails = value;
        value = grows ? value * 2 : value / 2;
        if (grows == (value > shape->limit))
            value = shape->limit;
        TRY(fits_at(options, machine, choice, shape, value, &fits));
    }
    if (!fits)
        return ERR_NONE;
    for (;;) {
        long long least = value < fails ? value : fails;
        long long middle = (fails + value) / 2 / shape->grain * shape->grain;
        if (llabs(fails - value) <= shape->grain || middle <= least)
            break;
        TRY(fits_at(options, machine, choice, shape, middle, &fits));
        *(fits ? &value : &fails) = middle;
    }
    *out = value;
    return ERR_NONE;
}

static void add_option(char out[ADVICE_BYTES], const char *option, long long value)
{
    size_t used = strlen(out);
    if (value > 0)
        snprintf(out + used, ADVICE_BYTES - used, "%s%s %lld", used > 0 ? ", or " : "", option, value);
}

int plan_advise_shape(const struct plan_options *options, const struct plan_machine *machine,
                      const struct plan_choice *choice, char out[ADVICE_BYTES])
{
    struct plan_options there = *options, adapted = *options;
    long long world, length;
    bool fits = false;
    out[0] = '\0';
    there.world = adapted.world = choice->setting.world;
    adapted.lora_rank = LORA_RANK;
    TRY(nearest(&there, machine, choice, &shapes[0], there.world, &world));
    TRY(nearest(&there, machine, choice, &shapes[1], (long long)plan_model_length(choice->setting.model), &length));
    if (options->lora_rank == 0)
        TRY(fits_with(&adapted, machine, choice, &fits));
    add_option(out, "--world", world);
    add_option(out, "--sequence-length", length);
    add_option(out, "--lora", fits ? LORA_RANK : 0);
    return ERR_NONE;
}

static void print_changes(const struct plan_choice *choice, FILE *out)
{
    for (size_t i = 0; i < choice->change_count; i++)
        fprintf(out, " --set %s", choice->changes[i]);
}

static const struct plan_changes single[] = {
    {"", {"train_micro_batch_size_per_gpu=1"}},
    {"", {CHECKPOINTS("true")}},
    {"", {CHECKPOINTS("true"), CHECKPOINTS_ON("cpu")}},
    {"", {"train_micro_batch_size_per_gpu=1", CHECKPOINTS("true")}},
    {"", {STAGE(1)}},
    {"", {STAGE(2)}},
    {"", {STAGE(3)}},
    {"", {OPTIMIZER("cpu")}},
    {"", {STAGE(3), OPTIMIZER("cpu"), RATIO("0.5")}},
    {"", {OPTIMIZER("nvme"), GRADIENTS("nvme")}},
    {"", {STAGE(3), OPTIMIZER("cpu"), PARAMETERS("cpu")}},
    {"", {STAGE(3), OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("nvme")}},
    {"", {"zerogauge.tiling.factor=16"}},
    {"", {"zerogauge.tiling.factor=16", "train_micro_batch_size_per_gpu=1"}},
};

#define FRUGAL "train_micro_batch_size_per_gpu=1", CHECKPOINTS("true"), STAGE(3)

// Each leaves less on the device than the one before.
static const struct plan_changes combined[] = {
    {"", {FRUGAL}},
    {"", {FRUGAL, OPTIMIZER("cpu")}},
    {"", {FRUGAL, OPTIMIZER("cpu"), PARAMETERS("cpu")}},
    {"", {FRUGAL, OPTIMIZER("cpu"), PARAMETERS("cpu"), CHECKPOINTS_ON("cpu")}},
    {"", {FRUGAL, OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("nvme"), CHECKPOINTS_ON("cpu")}},
};

static bool has(const struct plan_choice *choice, const char *change)
{
    for (size_t i = 0; i < choice->change_count; i++)
        if (strcmp(choice->changes[i], change) == 0)
            return true;
    return false;
}

// True if a part of the choice's changes is enough.
static bool exceeds(const struct plan_choice *choice, const struct plan_choices *found)
{
    for (size_t i = 0; i < found->count; i++) {
        size_t common = 0;
        for (size_t k = 0; k < found->list[i].change_count; k++)
            common += has(choice, found->list[i].changes[k]);
        if (common == found->list[i].change_count)
            return true;
    }
    return false;
}

// Single changes; where none of them is enough, the first combination that is.
static int try_changes(const struct plan_options *options, const struct plan_machine *machine,
                       struct plan_choices *found)
{
    enum { SINGLE = sizeof single / sizeof single[0], COMBINED = sizeof combined / sizeof combined[0] };
    for (size_t i = 0; i < SINGLE + COMBINED && (i < SINGLE || found->count == 0); i++) {
        struct plan_choice choice = {0};
        plan_choice_change_all(&choice, i < SINGLE ? &single[i] : &combined[i - SINGLE]);
        if (!exceeds(&choice, found))
            TRY(plan_choices_try(options, machine, &choice, found));
    }
    plan_choices_sort(found, GOAL_FASTEST);
    return ERR_NONE;
}

static void print_advice(const struct plan_choices *found, const char *shape, FILE *out)
{
    for (size_t i = 0; i < found->count && i < SHOWN_MAX; i++) {
        fprintf(out, "%s", i == 0 ? "it fits with" : "     or with");
        print_changes(&found->list[i], out);
        fprintf(out, ": step %.3f s\n", found->list[i].plan.step_s);
    }
    if (shape[0])
        fprintf(out, "%s %s\n", found->count > 0 ? "     or with" : "it fits with", shape);
    else if (found->count == 0)
        fprintf(out, "no change makes it fit, and no number of devices; --search tries more\n");
}

int plan_advise(const struct plan_options *options, const struct plan_setting *setting, const struct plan *plan,
                FILE *out)
{
    struct plan_choices found = {0};
    struct plan_choice unchanged = {.setting = *setting};
    char shape[ADVICE_BYTES];
    if (plan->verdict == PLAN_FITS)
        return ERR_NONE;
    int code = try_changes(options, setting->machine, &found);
    if (code == ERR_NONE)
        code = plan_advise_shape(options, setting->machine, &unchanged, shape);
    if (code == ERR_NONE)
        print_advice(&found, shape, out);
    free(found.list);
    return code;
}
