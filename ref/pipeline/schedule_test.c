// SPDX-License-Identifier: Apache-2.0
// Both schedules for all P up to 8 and M up to 16: every action once and in an order that its dependencies allow, no
// deadlock with one slot a direction, and the bubble and the micro-batches in flight of a simulated run, which equal
// the papers' formulas.
#include "ref/pipeline/schedule.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { STAGES_MAX = 8, MICROS_MAX = 16, VERBS = 6, SENDERS = 3 };

// A run of all stages with a simulated clock. A message that nobody has received waits in its slot. With a tied weight
// the last stage sends a message to the first after each of its gradients, and the first one's backward needs it.
struct run {
    struct pipeline_schedule schedule;
    int next[STAGES_MAX], in_flight[STAGES_MAX], most[STAGES_MAX];
    long clock[STAGES_MAX];
    int done[STAGES_MAX][VERBS][MICROS_MAX];
    struct slot {
        bool full;
        int micro;
        long sent, emptied;
    } slots[STAGES_MAX][SENDERS];  // by receiver: from the stage before it, from the stage after it, from the last
    bool tied;
    int owed;  // 1 + the micro-batch whose tied message the last stage has yet to send
    long forward_time, backward_time;
};

static long later(long a, long b)
{
    return a > b ? a : b;
}

static bool send(struct run *run, int stage, struct slot *slot, int micro)
{
    if (slot->full)
        return false;
    run->clock[stage] = later(run->clock[stage], slot->emptied);
    slot->full = true;
    slot->micro = micro;
    slot->sent = run->clock[stage];
    return true;
}

static bool receive(struct run *run, int stage, struct slot *slot, int micro)
{
    if (!slot->full)
        return false;
    cr_assert_eq(slot->micro, micro, "stage %d receives another micro-batch", stage);
    run->clock[stage] = slot->emptied = later(run->clock[stage], slot->sent);
    slot->full = false;
    return true;
}

enum { TIED = 1000 };

// Of two stages, the one after the first is the last.
static struct slot *tied_slot(struct run *run)
{
    return &run->slots[0][run->schedule.stage_count == 2 ? 1 : 2];
}

static bool pay(struct run *run, int stage)
{
    if (stage != run->schedule.stage_count - 1 || run->owed == 0)
        return true;
    if (!send(run, stage, tied_slot(run), TIED + run->owed - 1))
        return false;
    run->owed = 0;
    return true;
}

// Does an action, or returns false if it must wait.
static bool act(struct run *run, int stage, struct pipeline_action action)
{
    bool last = stage == run->schedule.stage_count - 1;
    switch (action.verb) {
    case PIPELINE_RECEIVE_ACTIVATIONS:
        return receive(run, stage, &run->slots[stage][0], action.micro);
    case PIPELINE_SEND_ACTIVATIONS:
        cr_assert_not(last);
        return send(run, stage, &run->slots[stage + 1][0], action.micro);
    case PIPELINE_RECEIVE_GRADIENTS:
        return receive(run, stage, &run->slots[stage][1], action.micro);
    case PIPELINE_SEND_GRADIENTS:
        cr_assert_gt(stage, 0);
        if (!send(run, stage, &run->slots[stage - 1][1], action.micro))
            return false;
        run->owed = run->tied && last ? action.micro + 1 : run->owed;
        return true;
    case PIPELINE_FORWARD:
        cr_assert(stage == 0 || run->done[stage][PIPELINE_RECEIVE_ACTIVATIONS][action.micro]);
        run->clock[stage] += run->forward_time;
        run->in_flight[stage]++;
        run->most[stage] = run->in_flight[stage] > run->most[stage] ? run->in_flight[stage] : run->most[stage];
        return true;
    case PIPELINE_BACKWARD:
        cr_assert(run->done[stage][PIPELINE_FORWARD][action.micro]);
        cr_assert(last || run->done[stage][PIPELINE_RECEIVE_GRADIENTS][action.micro]);
        for (int micro = 0; micro < run->schedule.micro_count; micro++)
            cr_assert_eq(run->done[stage][PIPELINE_BACKWARD][micro], micro < action.micro, "backward ascends");
        if (run->tied && stage == 0 && !receive(run, stage, tied_slot(run), TIED + action.micro))
            return false;
        run->clock[stage] += run->backward_time;
        run->in_flight[stage]--;
        return true;
    }
    return false;
}

// Every stage acts as long as it can; the run ends when none can.
static long simulate(struct run *run)
{
    bool moved = true;
    long end = 0;
    while (moved) {
        moved = false;
        for (int stage = 0; stage < run->schedule.stage_count; stage++) {
            struct pipeline_action action;
            for (int next = run->next[stage]; pipeline_next(&run->schedule, stage, &next, &action);) {
                if (!pay(run, stage) || !act(run, stage, action))
                    break;
                run->done[stage][action.verb][action.micro]++;
                run->next[stage] = next;
                moved = true;
            }
            moved |= run->owed && pay(run, stage) && !run->owed;
        }
    }
    for (int stage = 0; stage < run->schedule.stage_count; stage++)
        end = later(end, run->clock[stage]);
    return end;
}

static void expect_all_done(const struct run *run)
{
    int stages = run->schedule.stage_count;
    for (int stage = 0; stage < stages; stage++)
        for (int verb = 0; verb < VERBS; verb++)
            for (int micro = 0; micro < run->schedule.micro_count; micro++) {
                bool before = verb == PIPELINE_RECEIVE_ACTIVATIONS || verb == PIPELINE_SEND_GRADIENTS;
                bool after = verb == PIPELINE_SEND_ACTIVATIONS || verb == PIPELINE_RECEIVE_GRADIENTS;
                int expected = (before && stage == 0) || (after && stage == stages - 1) ? 0 : 1;
                cr_assert_eq(run->done[stage][verb][micro], expected, "%s, P %d, M %d, stage %d, verb %d, micro %d",
                             pipeline_kind_name(run->schedule.kind), stages, run->schedule.micro_count, stage, verb,
                             micro);
            }
}

static void expect_formulas(enum pipeline_kind kind, int stages, int micros, long forward, long backward)
{
    struct run run = {.schedule = {kind, stages, micros}, .forward_time = forward, .backward_time = backward};
    long end = simulate(&run), busy = micros * (forward + backward);
    expect_all_done(&run);
    // end x (P-1)/(M+P-1) is idle, in whole numbers.
    cr_assert_eq((end - busy) * (micros + stages - 1), end * (stages - 1), "%s, P %d, M %d: %ld of %ld idle",
                 pipeline_kind_name(kind), stages, micros, end - busy, end);
    cr_assert_float_eq(pipeline_bubble(&run.schedule), (double)(end - busy) / (double)end, 1e-12);
    for (int stage = 0; stage < stages; stage++) {
        int expected = kind == PIPELINE_GPIPE ? micros : stages - stage < micros ? stages - stage : micros;
        expected = stages == 1 ? 1 : expected;
        cr_assert_eq(run.most[stage], expected, "%s, P %d, M %d, stage %d: %d in flight", pipeline_kind_name(kind),
                     stages, micros, stage, run.most[stage]);
        cr_assert_eq(pipeline_in_flight(&run.schedule, stage), expected);
    }
}

Test(pipeline_schedule, every_schedule_ends_with_the_papers_bubble_and_activations)
{
    for (int stages = 1; stages <= STAGES_MAX; stages++)
        for (int micros = 1; micros <= MICROS_MAX; micros++)
            for (int kind = PIPELINE_1F1B; kind <= PIPELINE_GPIPE; kind++)
                for (long backward = 1; backward <= 3; backward++)
                    expect_formulas((enum pipeline_kind)kind, stages, micros, 1, backward);
}

// The messages of a tied weight cannot stop a run, whatever they wait for.
Test(pipeline_schedule, every_schedule_ends_with_a_tied_weight)
{
    for (int stages = 2; stages <= STAGES_MAX; stages++)
        for (int micros = 1; micros <= MICROS_MAX; micros++)
            for (int kind = PIPELINE_1F1B; kind <= PIPELINE_GPIPE; kind++) {
                struct run run = {.schedule = {(enum pipeline_kind)kind, stages, micros},
                                  .forward_time = 1,
                                  .backward_time = 2,
                                  .tied = true};
                long end = simulate(&run);
                expect_all_done(&run);
                cr_assert_eq(run.owed, 0);
                // In short pipelines nobody waits for them.
                if (stages <= 3)
                    cr_assert_eq(end, 3 * (micros + stages - 1), "P %d, M %d: %ld", stages, micros, end);
            }
}

// A stage's actions as letters: F, B, and for messages a, A (activations received, sent), g, G.
static const char *actions(enum pipeline_kind kind, int stages, int micros, int stage)
{
    static char out[512];
    static const char letters[] = "aFAgBG";
    struct pipeline_schedule schedule = {kind, stages, micros};
    struct pipeline_action action;
    size_t used = 0;
    for (int next = 0; pipeline_next(&schedule, stage, &next, &action);)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%c%d", used ? " " : "", letters[action.verb],
                                 action.micro);
    return out;
}

Test(pipeline_schedule, actions_are_those_of_the_papers_figures)
{
    cr_expect_str_eq(actions(PIPELINE_1F1B, 1, 2, 0), "F0 B0 F1 B1");
    cr_expect_str_eq(actions(PIPELINE_GPIPE, 1, 2, 0), "F0 B0 F1 B1");
    cr_expect_str_eq(actions(PIPELINE_GPIPE, 2, 2, 0), "F0 A0 F1 A1 g0 B0 g1 B1");
    cr_expect_str_eq(actions(PIPELINE_GPIPE, 2, 2, 1), "a0 F0 a1 F1 B0 G0 B1 G1");
    cr_expect_str_eq(actions(PIPELINE_1F1B, 2, 3, 0), "F0 A0 F1 A1 g0 B0 F2 A2 g1 B1 g2 B2");
    cr_expect_str_eq(actions(PIPELINE_1F1B, 2, 3, 1), "a0 F0 B0 G0 a1 F1 B1 G1 a2 F2 B2 G2");
    cr_expect_str_eq(actions(PIPELINE_1F1B, 3, 3, 1), "a0 F0 A0 a1 F1 A1 g0 B0 G0 a2 F2 A2 g1 B1 G1 g2 B2 G2");
}

Test(pipeline_schedule, names_are_those_of_the_configuration)
{
    enum pipeline_kind kind = PIPELINE_1F1B;
    cr_expect_eq(pipeline_kind_parse("gpipe", &kind), ERR_NONE);
    cr_expect_eq(kind, PIPELINE_GPIPE);
    cr_expect_eq(pipeline_kind_parse("1f1b", &kind), ERR_NONE);
    cr_expect_eq(kind, PIPELINE_1F1B);
    cr_expect_eq(pipeline_kind_parse("interleaved", &kind), ERR_USAGE);
    cr_expect_str_eq(err_message(), "\"interleaved\" is no pipeline schedule, expected \"1f1b\" or \"gpipe\"");
}
