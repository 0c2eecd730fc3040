// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_choice.h"

#include "base/array.h"
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
    TRY(array_grow(&found->list, &found->capacity, found->count, sizeof *found->list, "configurations"));
    found->list[found->count++] = *choice;
    return ERR_NONE;
}

// By how much the fullest tier exceeds its memory, as a factor.
static double lack_of(const struct plan *plan)
{
    double lack = 0;
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        double factor = (double)plan->needed_bytes[tier] / (double)(plan->available_bytes[tier] + 1);
        lack = factor > lack ? factor : lack;
    }
    return lack;
}

static int run(const struct plan_options *options, const struct plan_machine *machine, bool only_memory,
               struct plan_choice *choice)
{
    struct config config;
    choice->setting = (struct plan_setting){.config = &config,
                                            .machine = machine,
                                            .world = options->world,
                                            .choice = options->choice,
                                            .only_fitting = true,
                                            .only_memory = only_memory,
                                            .also_tight = options->tight};
    int code = plan_choice_config(options, choice, &config);
    if (code == ERR_NONE)
        code = plan_options_model(options, &config, &choice->setting.model);
    if (code == ERR_NONE)
        code = plan_run(&choice->setting, &choice->plan);
    choice->setting.config = NULL;
    return code;
}

int plan_choices_rule_out(const struct plan_options *options, const struct plan_machine *machine,
                          struct plan_choice *least, const struct plan_choices *found, bool *out)
{
    *out = false;
    if (found->closest_lack == 0)
        return ERR_NONE;
    int code = run(options, machine, true, least);
    if (code == ERR_USAGE)
        return ERR_NONE;
    const struct plan *plan = &least->plan;
    double device = (double)plan->needed_bytes[TIER_DEVICE] / ((double)plan->available_bytes[TIER_DEVICE] + 1);
    *out = plan->verdicts[TIER_DEVICE] == PLAN_DOES_NOT_FIT && device > found->closest_lack;
    return code;
}

int plan_choices_try(const struct plan_options *options, const struct plan_machine *machine, struct plan_choice *choice,
                     struct plan_choices *found)
{
    int code = run(options, machine, false, choice);
    found->tried++;
    if (code == ERR_USAGE) {
        found->is_refused_otherwise |= found->refusal[0] && strcmp(found->refusal, err_message()) != 0;
        if (!found->refusal[0])
            err_keep(found->refusal);
        return ERR_NONE;
    }
    TRY(code);
    choice->price = options->price;
    if (choice->plan.verdict == PLAN_FITS || (options->tight && choice->plan.verdict == PLAN_TIGHT)) {
        double days = plan_options_days(options, (double)choice->plan.tokens / choice->plan.step_s);
        if (options->days == 0 || days <= options->days)
            return keep(choice, found);
        found->late++;
        return ERR_NONE;
    }
    found->tight += choice->plan.verdict == PLAN_TIGHT;
    double lack = lack_of(&choice->plan);
    if (found->closest_lack == 0 || lack < found->closest_lack) {
        found->closest = *choice;
        found->closest_lack = lack;
    }
    return ERR_NONE;
}

static double per_token(const struct plan_choice *choice)
{
    return choice->plan.step_s / (double)choice->plan.tokens;
}

static int order(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_fastest(const void *left, const void *right)
{
    return order(per_token(left), per_token(right));
}

static int compare_smallest(const void *left, const void *right)
{
    const struct plan_choice *a = left, *b = right;
    int by_world = order(a->setting.world, b->setting.world);
    return by_world ? by_world : compare_fastest(a, b);
}

static int compare_cheapest(const void *left, const void *right)
{
    const struct plan_choice *a = left, *b = right;
    bool has_prices = a->price > 0 && b->price > 0;
    return order((has_prices ? a->price : 1) * a->setting.world * per_token(a),
                 (has_prices ? b->price : 1) * b->setting.world * per_token(b));
}

static int compare_longest(const void *left, const void *right)
{
    const struct plan_choice *a = left, *b = right;
    int by_length = order((double)b->setting.model->sequence_length, (double)a->setting.model->sequence_length);
    return by_length ? by_length : compare_fastest(a, b);
}

void plan_choices_sort(struct plan_choices *found, enum plan_goal goal)
{
    static int (*const compare[])(const void *, const void *) = {
        [GOAL_FASTEST] = compare_fastest,
        [GOAL_SMALLEST] = compare_smallest,
        [GOAL_CHEAPEST] = compare_cheapest,
        [GOAL_LONGEST] = compare_longest,
    };
    if (found->count > 0)  // an empty list is null, which qsort does not take
        qsort(found->list, found->count, sizeof *found->list, compare[goal]);
}
