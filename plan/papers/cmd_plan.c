// SPDX-License-Identifier: Apache-2.0
// `zerogauge plan`: predicts the memory, traffic and time of training without data.
#include "base/clock.h"
#include "base/err.h"
#include "plan/papers/paper.h"
#include "plan/planner/plan_choice.h"
#include "plan/planner/plan_model.h"
#include "plan/planner/plan_against.h"
#include "plan/planner/plan_print.h"
#include "plan/planner/published.h"

#include <stdio.h>
#include <stdlib.h>

static int show(const struct plan_options *options, const struct plan_setting *setting, const struct plan *plan,
                double began_s)
{
    if (options->write)
        TRY(plan_write(options->write, setting));
    if (options->json)
        return plan_print_record(plan_json(setting, plan), stdout);
    plan_print(setting, plan, stdout);
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
    fputs(plan_model_notes(setting.model), stderr);
    TRY(plan_run(&setting, &plan));
    return show(options, &setting, &plan, began_s);
}

static int run(struct plan_options *options)
{
    struct plan_machine machine;
    if (options->papers)
        return paper_print(options->paper, options->json, stdout);
    if (options->throughputs)
        return published_speed_print(options->throughput, options->json, stdout);
    if (options->memories)
        return published_memory_print(options->memory, options->json, stdout);
    if (options->against)
        return plan_against(options->against, options->json, stdout);
    TRY(plan_machine_find(options->machine ? options->machine : "dgx-h100", &machine));
    if (options->device_memory_gib > 0)
        plan_machine_set(&machine, MACHINE_DEVICE_MEMORY_BYTES, options->device_memory_gib * (1 << 30),
                         "--device-memory");
    if (options->host_memory_gib > 0)
        plan_machine_set(&machine, MACHINE_NODE_HOST_MEMORY_BYTES, options->host_memory_gib * (1 << 30),
                         "--host-memory");
    if (options->world == 0)
        options->world = machine.devices_per_node;
    return options->search ? plan_search(options, &machine, stdout) : plan_one(options, &machine);
}

int plan_main(int argc, const char **argv)
{
    struct plan_options options;
    int code = plan_options_parse(argc, argv, &options);
    if (code == ERR_NONE)
        code = run(&options);
    if (code != ERR_NONE)
        fprintf(stderr, "%s: %s\n", argv[0], err_message());
    plan_options_close(&options);
    return code == ERR_NONE ? 0 : code == ERR_CHECK ? 1 : 2;
}
