// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_choice.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void plan_choice_change(struct plan_choice *choice, const char *change)
{
    assert(choice->change_count < CHOICE_CHANGE_MAX);
    snprintf(choice->changes[choice->change_count++], CHOICE_CHANGE_BYTES, "%s", change);
}

void plan_choice_change_all(struct plan_choice *choice, const struct plan_changes *changes)
{
    for (const char *const *change = changes->list; *change; change++)
        plan_choice_change(choice, *change);
}

int plan_choice_config(const struct plan_options *options, const struct plan_choice *choice, struct config *out)
{
    struct plan_options in_world = *options;
    const char *changes[CHOICE_CHANGE_MAX];
    in_world.world = choice->setting.world;
    for (size_t i = 0; i < choice->change_count; i++)
        changes[i] = choice->changes[i];
    return plan_options_config(&in_world, changes, choice->change_count, out, NULL);
}

static int keep(const struct plan_choice *choice, struct plan_choices *found)
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

int plan_choices_try(const struct plan_options *options, const struct plan_machine *machine, struct plan_choice *choice,
                     struct plan_choices *found)
{
    struct config config;
    choice->setting = (struct plan_setting){.config = &config, .machine = machine, .world = options->world};
    int code = plan_choice_config(options, choice, &config);
    if (code == ERR_NONE)
        code = plan_options_model(options, &config, &choice->setting.model);
    if (code == ERR_NONE)
        code = plan_run(&choice->setting, &choice->plan);
    choice->setting.config = NULL;
    found->tried++;
    if (code == ERR_USAGE)
        return ERR_NONE;
    TRY(code);
    return choice->plan.fits_all ? keep(choice, found) : ERR_NONE;
}

static int compare_choices(const void *left, const void *right)
{
    const struct plan_choice *a = left, *b = right;
    double a_s = a->plan.step_s / (double)a->plan.tokens, b_s = b->plan.step_s / (double)b->plan.tokens;
    return a_s < b_s ? -1 : a_s > b_s;
}

void plan_choices_sort(struct plan_choices *found)
{
    if (found->count > 0)  // an empty list is null, which qsort does not take
        qsort(found->list, found->count, sizeof *found->list, compare_choices);
}
