// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of plans: a plan's ledger against a real run's, entry by entry for every rank.
#ifndef ZG_PLAN_TEST_H
#define ZG_PLAN_TEST_H

#include "plan/planner/plan.h"

#include "plan/planner/plan_model.h"
#include "ref/train/offload_test.h"

enum { WORLD_MAX = 16 };

// The ledgers of a run's ranks, after its last step.
struct ledgers {
    uint64_t held_bytes[WORLD_MAX][TIER_COUNT][KIND_COUNT], peak_bytes[WORLD_MAX][TIER_COUNT];
    uint64_t moved_bytes[WORLD_MAX][LANE_COUNT][OPERATION_COUNT], moved_count[WORLD_MAX][LANE_COUNT][OPERATION_COUNT];
    uint64_t sent_bytes[WORLD_MAX][PURPOSE_COUNT], group_bytes[WORLD_MAX][GROUP_COUNT];
    uint64_t rescanned[WORLD_MAX];  // norms that read gradients on NVMe, of these bytes each
    uint64_t rescanned_bytes[WORLD_MAX][LANE_COUNT][OPERATION_COUNT];
    uint64_t unhanded_bytes[WORLD_MAX][LANE_COUNT][OPERATION_COUNT];
    bool all_applied;
};

static inline int observe(void *context, const struct train_moment *moment)
{
    struct ledgers *l = context;
    const struct ledger *ledger = moment->stage->setting.ledger;
    int rank = moment->rank;
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        l->peak_bytes[rank][tier] = ledger->tier_peak_bytes[tier];
        for (int kind = 0; kind < KIND_COUNT; kind++)
            l->held_bytes[rank][tier][kind] = ledger->held_bytes[tier][kind];
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < OPERATION_COUNT; i++) {
            l->moved_bytes[rank][lane][i] = ledger->moved_bytes[lane][i];
            l->moved_count[rank][lane][i] = ledger->moved_count[lane][i];
        }
    struct formula formula;
    formula_of(moment->stage, comm_rank(moment->stage->setting.comm), 0, 0, &formula);
    l->rescanned[rank] = moment->stage->optimizer.rescanned;
    // Where the norm reads gradients, it takes the buffers of states that were read ahead.
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < OPERATION_COUNT; i++) {
            l->rescanned_bytes[rank][lane][i] = formula.rescanned.bytes[lane][i] + formula.reread.bytes[lane][i];
            l->unhanded_bytes[rank][lane][i] = formula.unhanded.bytes[lane][i];
        }
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        l->sent_bytes[rank][purpose] = ledger->sent_bytes[purpose];
    for (int group = 0; group < GROUP_COUNT; group++)
        l->group_bytes[rank][group] = ledger->group_bytes[group];
    if (rank == 0 && moment->step > 0)
        l->all_applied &= moment->applied;
    return ERR_NONE;
}

// A plan has no gradients: it reads them for the norm of the first step alone.
static inline void compare(const struct offload_trial *t, const struct ledgers *run, int rank, const struct plan *plan)
{
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        for (int kind = 0; kind < KIND_COUNT; kind++)
            cr_assert_eq(plan->held_bytes[tier][kind], run->held_bytes[rank][tier][kind],
                         "rank %d: %s on %s: planned %zu, held %zu\n%s", rank, ledger_kind_name(kind),
                         ledger_tier_name(tier), plan->held_bytes[tier][kind], run->held_bytes[rank][tier][kind],
                         offload_name(t));
        cr_assert_eq(plan->peak_bytes[tier], run->peak_bytes[rank][tier], "rank %d: peak of %s\n%s", rank,
                     ledger_tier_name(tier), offload_name(t));
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < OPERATION_COUNT; i++) {
            uint64_t again = run->rescanned[rank] > 1 ? run->rescanned[rank] - 1 : 0;
            // An observed run waits for each update, so that no forward finds its parameters on the host.
            uint64_t unhanded_bytes = (plan->steps - 1) * run->unhanded_bytes[rank][lane][i];
            uint64_t again_bytes = again * run->rescanned_bytes[rank][lane][i] + unhanded_bytes;
            cr_assert_eq(plan->run_bytes[lane][i] + again_bytes, run->moved_bytes[rank][lane][i],
                         "rank %d: %s on lane %s: planned %zu, moved %zu\n%s", rank, ledger_operation_name(i),
                         ledger_lane_name(lane), plan->run_bytes[lane][i], run->moved_bytes[rank][lane][i],
                         offload_name(t));
            if (again_bytes == 0)
                cr_assert_eq(plan->run_count[lane][i], run->moved_count[rank][lane][i], "rank %d: calls of %s\n%s",
                             rank, ledger_operation_name(i), offload_name(t));
        }
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        cr_assert_eq(plan->run_sent_bytes[purpose], run->sent_bytes[rank][purpose], "rank %d: purpose %d\n%s", rank,
                     purpose, offload_name(t));
    for (int group = 0; group < GROUP_COUNT; group++)
        cr_assert_eq(plan->run_group_bytes[group], run->group_bytes[rank][group], "rank %d: group %s\n%s", rank,
                     ledger_group_name((enum ledger_group)group), offload_name(t));
}

// Runs the trial and plans each of its ranks.
static inline void demand(const struct offload_trial *t)
{
    static struct ledgers run;
    struct train_result result;
    struct config config;
    struct plan_machine machine;
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = t->world, .steps = t->steps};
    run = (struct ledgers){.all_applied = true};
    int rc = offload_run_with(t, (struct train_setting){.observe = observe, .observe_context = &run}, &result);
    cr_assert_eq(rc, ERR_NONE, "%s\n%s", rc ? err_message() : "", offload_name(t));
    cr_assert(run.all_applied, "a plan's steps are all applied\n%s", offload_name(t));
    cr_assert_eq(offload_config(t, &config), ERR_NONE);
    cr_assert_eq(plan_model_find(t->model, (size_t)t->tiles, &setting.model), ERR_NONE);
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE, "%s", err_message());
    for (setting.rank = 0; setting.rank < t->world; setting.rank++) {
        struct plan plan;
        rc = plan_run(&setting, &plan);
        cr_assert_eq(rc, ERR_NONE, "%s\n%s", rc ? err_message() : "", offload_name(t));
        compare(t, &run, setting.rank, &plan);
        plan_free(&plan);
    }
}

#endif
