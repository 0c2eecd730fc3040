// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_advise.h"

#include "base/err.h"
#include "plan/planner/plan_choice.h"

#include <stdlib.h>

enum { SHOWN_MAX = 3 };

static void print_changes(const struct plan_choice *choice, FILE *out)
{
    for (size_t i = 0; i < choice->change_count; i++)
        fprintf(out, " --set %s", choice->changes[i]);
}

int plan_advise(const struct plan_options *options, const struct plan_machine *machine, const struct plan *plan,
                FILE *out)
{
    static const struct plan_changes changes[] = {
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
    struct plan_choices found = {0};
    int code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < sizeof changes / sizeof changes[0]; i++) {
        struct plan_choice choice = {0};
        plan_choice_change_all(&choice, &changes[i]);
        code = plan_choices_try(options, machine, &choice, &found);
    }
    plan_choices_sort(&found, GOAL_FASTEST);
    for (size_t i = 0; code == ERR_NONE && i < found.count && i < SHOWN_MAX; i++) {
        fprintf(out, "%s", i == 0 ? "it fits with" : "     or with");
        print_changes(&found.list[i], out);
        fprintf(out, ": step %.3f s\n", found.list[i].plan.step_s);
    }
    if (code == ERR_NONE && found.count == 0)
        fprintf(out, "no single change makes it fit; --search combines changes, --world adds devices\n");
    free(found.list);
    return code;
}
