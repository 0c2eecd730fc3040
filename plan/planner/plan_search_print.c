// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_choice.h"

#include "base/err.h"
#include "base/size.h"
#include "base/terminal.h"
#include "plan/planner/plan_model.h"
#include "plan/planner/plan_print.h"

#include <string.h>

enum { SHOWN_MAX = 12 };

static const double quiet_s = 2, renewed_s = 0.2;

void plan_search_progress(struct plan_choices *found, double now_s)
{
    if (now_s - found->began_s < quiet_s || now_s - found->shown_s < renewed_s)
        return;
    found->shown_s = now_s;
    terminal_progress("%zu configurations tried in %.0f s, %zu fit", found->tried, now_s - found->began_s,
                      found->count);
}

static bool has_several_machines(const struct plan_choices *found)
{
    for (size_t i = 1; i < found->count; i++)
        if (found->list[i].setting.machine != found->list[0].setting.machine)
            return true;
    return false;
}

// True if a better choice differs only in sizes: it has the same machine, placement, world and sequence length. In a
// search for the smallest world or among machines, the world may be another.
static bool has_better(const struct plan_choices *found, enum plan_goal goal, size_t at)
{
    const struct plan_choice *a = &found->list[at];
    bool any_world = goal == GOAL_SMALLEST || has_several_machines(found);
    for (size_t i = 0; i < at; i++) {
        const struct plan_choice *b = &found->list[i];
        if ((any_world || a->setting.world == b->setting.world) && strcmp(a->placement, b->placement) == 0 &&
            a->setting.machine == b->setting.machine &&
            a->setting.model->sequence_length == b->setting.model->sequence_length)
            return true;
    }
    return false;
}

static void print_choice(const struct plan_choice *choice, const struct plan_options *options, bool with_machine,
                         FILE *out)
{
    const struct plan *plan = &choice->plan;
    char text[SIZE_TEXT_BYTES];
    double tokens_per_s = (double)plan->tokens / plan->step_s;
    fprintf(out, "%6d %8.3f s %12s", choice->setting.world, plan->step_s, size_text((uint64_t)tokens_per_s, text));
    if (options->tokens > 0)
        fprintf(out, " %8.1f", plan_options_days(options, tokens_per_s));
    if (choice->price > 0)
        fprintf(out, " %10.3g", choice->price * choice->setting.world / (tokens_per_s * 3600) * 1e6);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        fprintf(out, " %10s", plan->needed_bytes[tier] > 0 ? size_short_text(plan->needed_bytes[tier], text) : "-");
    fprintf(out, "  %s%s%s", with_machine ? choice->setting.machine->name : "", with_machine ? ", " : "",
            choice->label);
    if (options->goal == GOAL_LONGEST)
        fprintf(out, " of %s tokens", size_text(plan_model_length(choice->setting.model), text));
    fputc('\n', out);
}

static void print_found(const struct plan_choices *found, const struct plan_options *options, FILE *out)
{
    static const char *const goals[] = {"the fastest", "the smallest worlds", "the cheapest", "the longest sequences"};
    fprintf(out, "%zu of %zu configurations fit", found->count, found->tried);
    if (found->tight > 0)
        fprintf(out, " (%zu more are tight: --tight lists them, too)", found->tight);
    if (found->late > 0)
        fprintf(out, " (%zu more take longer than %g days)", found->late, options->days);
    fprintf(out, "; %s, the best of each placement:\n", goals[options->goal]);
    fprintf(out, "%6s %10s %12s", "world", "step", "tokens/s");
    if (options->tokens > 0)
        fprintf(out, " %8s", "days");
    if (found->list[0].price > 0)
        fprintf(out, " %10s", "a million");
    fprintf(out, " %10s %10s %10s\n", "device", "host", "nvme");
    for (size_t i = 0, shown = 0; i < found->count && shown < SHOWN_MAX; i++) {
        if (has_better(found, options->goal, i))
            continue;
        shown++;
        print_choice(&found->list[i], options, has_several_machines(found), out);
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
        TRY(plan_print_record(record, out));
    }
    return ERR_NONE;
}

static int write_choice(const struct plan_options *options, const struct plan_choice *choice)
{
    struct config config;
    struct plan_setting setting = choice->setting;
    setting.config = &config;
    TRY(plan_choice_config(options, choice, &config));
    return plan_write(options->write, &setting);
}

int plan_search_print(const struct plan_choices *found, const struct plan_options *options, FILE *out)
{
    if (options->write)
        TRY(write_choice(options, &found->list[0]));
    if (options->json)
        return print_found_json(found, options, out);
    print_found(found, options, out);
    return ERR_NONE;
}
