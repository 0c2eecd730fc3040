// SPDX-License-Identifier: Apache-2.0
// `zerogauge plan`: predicts the memory, traffic and time of training without data.
#include "base/clock.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "plan/papers/paper.h"
#include "plan/planner/plan_choice.h"
#include "plan/planner/plan_model.h"
#include "plan/planner/plan_against.h"
#include "plan/planner/plan_print.h"
#include "plan/planner/published.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The days and the cost of --tokens, and by how much the plan misses --days.
static void print_budget(const struct plan_options *options, const struct plan_setting *setting,
                         const struct plan *plan, FILE *out)
{
    char text[SIZE_TEXT_BYTES];
    double days = plan_options_days(options, (double)plan->tokens / plan->step_s);
    if (options->tokens == 0)
        return;
    fprintf(out, "%s tokens: %.1f days", size_text((uint64_t)options->tokens, text), days);
    if (options->price > 0)
        fprintf(out, ", for %.4g", options->price * setting->world * days * 24);
    if (options->days > 0 && days > options->days)
        fprintf(out, "; %g days need %.2f times the speed", options->days, days / options->days);
    fputc('\n', out);
}

static int show(const struct plan_options *options, const struct plan_setting *setting, const struct plan *plan,
                double began_s)
{
    if (options->write)
        TRY(plan_write(options->write, setting));
    if (options->json)
        return plan_print_record(plan_json(setting, plan), stdout);
    plan_print(setting, plan, stdout);
    print_budget(options, setting, plan, stdout);
    TRY(plan_advise(options, setting, plan, stdout));
    if (options->explain)
        plan_explain(setting, plan, stdout);
    printf("planned in %.2f s\n", clock_now_s() - began_s);
    return ERR_NONE;
}

static int plan_one(const struct plan_options *options, const struct plan_machine *machine)
{
    static struct config_notes notes;
    double began_s = clock_now_s();
    struct config config;
    struct plan plan = {0};
    struct plan_setting setting = {
        .config = &config, .machine = machine, .world = options->world, .choice = options->choice};
    TRY(plan_options_config(options, NULL, 0, &config, &notes));
    TRY(plan_options_model(options, &config, &setting.model));
    config_print_notes(&notes, stderr);
    text_terminal(stderr, plan_model_notes(setting.model), 0);
    TRY(plan_run(&setting, &plan));
    return show(options, &setting, &plan, began_s);
}

// The machines of --machine, with commas between them, each perhaps with its price: "l40s=1.2,dgx-h100=2.8".
static int read_machines(const struct plan_options *options, struct plan_priced machines[PLAN_MACHINE_MAX],
                         size_t *count)
{
    char text[1024], *rest = text, *word;
    *count = 0;
    snprintf(text, sizeof text, "%s", options->machine ? options->machine : "dgx-h100");
    bool is_file_of_all = access(text, R_OK) == 0;  // whose name may have commas
    while ((word = is_file_of_all ? rest : strsep(&rest, ","))) {
        rest = is_file_of_all ? NULL : rest;
        is_file_of_all = false;
        struct plan_priced *priced = &machines[*count];
        char *name = word, *end = "";
        bool is_file = access(word, R_OK) == 0;  // whose name may have an =
        word = is_file ? NULL : strrchr(name, '=');
        if (word)
            *word++ = '\0';
        if (*count == PLAN_MACHINE_MAX)
            return err_set(ERR_USAGE, "--machine: expected at most %d machines", PLAN_MACHINE_MAX);
        priced->price = word ? strtod(word, &end) : options->price;
        if (word && (end == word || *end || !(priced->price > 0)))
            return err_set(ERR_USAGE, "--machine %.64s=%.32s: expected a price above 0", name, word);
        TRY(plan_machine_find(name, &priced->machine));
        if (options->device_memory_gib > 0)
            plan_machine_set(&priced->machine, MACHINE_DEVICE_MEMORY_BYTES, options->device_memory_gib * (1 << 30),
                             "--device-memory");
        if (options->host_memory_gib > 0)
            plan_machine_set(&priced->machine, MACHINE_NODE_HOST_MEMORY_BYTES, options->host_memory_gib * (1 << 30),
                             "--host-memory");
        if ((priced->price > 0) != (machines[0].price > 0))
            return err_set(ERR_USAGE, "--machine %.64s: expected a price of each machine or of none", options->machine);
        (*count)++;
    }
    return *count == 1 || options->search
               ? ERR_NONE
               : err_set(ERR_USAGE, "--machine %.64s: several machines need --search", options->machine);
}

static int run(struct plan_options *options)
{
    static struct plan_priced machines[PLAN_MACHINE_MAX];
    size_t machine_count;
    if (options->papers)
        return paper_print(options->paper, options->json, stdout);
    if (options->throughputs)
        return published_speed_print(options->throughput, options->json, stdout);
    if (options->memories)
        return published_memory_print(options->memory, options->json, stdout);
    if (options->against)
        return plan_against(options->against, options->json, stdout);
    TRY(read_machines(options, machines, &machine_count));
    if (options->search)
        return plan_search(options, machines, machine_count, stdout);
    options->price = machines[0].price;
    if (options->world == 0)
        options->world = machines[0].machine.devices_per_node;
    return plan_one(options, &machines[0].machine);
}

int plan_main(int argc, const char **argv)
{
    struct plan_options options;
    int code = plan_options_parse(argc, argv, &options);
    if (code == ERR_NONE)
        code = run(&options);
    if (code != ERR_NONE)
        text_error("%s", argv[0]);
    plan_options_close(&options);
    return code == ERR_NONE ? 0 : code == ERR_CHECK ? 1 : 2;
}
