// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_choice.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/terminal.h"
#include "plan/planner/plan_print.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD_TRIED_MAX = 1024, SEQUENCE_TRIED_MAX = 1 << 18 };

static const char within_nodes[] = "zero3 within each node";

// Where each state lives.
static const struct plan_changes placements[] = {
    {"zero0", {STAGE(0), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero1", {STAGE(1), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero2", {STAGE(2), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero3", {STAGE(3), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero2, optimizer on cpu", {STAGE(2), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("none")}},
    {"zero3, optimizer on cpu", {STAGE(3), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("none")}},
    {within_nodes, {STAGE(3), OPTIMIZER("none"), GRADIENTS("none"), PARAMETERS("none")}},
    {"zero3, half of the optimizer on cpu",
     {STAGE(3), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("none"), RATIO("0.5")}},
    {"zero3, all on cpu", {STAGE(3), OPTIMIZER("cpu"), GRADIENTS("cpu"), PARAMETERS("cpu")}},
    {"zero3, optimizer on nvme", {STAGE(3), OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("none")}},
    {"zero3, all on nvme", {STAGE(3), OPTIMIZER("nvme"), GRADIENTS("nvme"), PARAMETERS("nvme")}},
};
enum { PLACEMENT_COUNT = sizeof placements / sizeof placements[0] };

static const struct plan_changes checkpoints[] = {
    {"no checkpoints", {CHECKPOINTS("false"), CHECKPOINTS_ON("none")}},
    {"checkpoints", {CHECKPOINTS("true"), CHECKPOINTS_ON("none")}},
    {"checkpoints on cpu", {CHECKPOINTS("true"), CHECKPOINTS_ON("cpu")}},
};
enum { CHECKPOINT_COUNT = sizeof checkpoints / sizeof checkpoints[0] };

#define BUCKETS(n) "zero_optimization.reduce_bucket_size=" #n, "zero_optimization.allgather_bucket_size=" #n
#define PREFETCH(n) "zero_optimization.stage3_prefetch_bucket_size=" #n
#define TILES(n) "zerogauge.tiling.factor=" #n
#define LIVE(n) "zero_optimization.stage3_max_live_parameters=" #n

// Sizes of buckets, and how far stage 3 gathers ahead: DeepSpeed's defaults, room for the next layer, and what needs
// least memory.
static const struct plan_changes sizes[] = {
    {"buckets 5e8", {BUCKETS(500000000)}},
    {"buckets 5e7", {BUCKETS(50000000)}},
    {"buckets 5e8, next layer prefetched", {BUCKETS(500000000), PREFETCH(1500000000), LIVE(3000000000)}},
    {"16 tiles, nothing prefetched", {BUCKETS(50000000), PREFETCH(0), LIVE(0), TILES(16)}},
};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0], SIZE_LEAST = SIZE_COUNT - 1 };

// The sizes that make a difference: prefetching in stage 3 alone, smaller buckets in the others.
static bool has_sizes(int placement, int size)
{
    bool is_stage_3 = strncmp(placements[placement].name, "zero3", strlen("zero3")) == 0;
    return size == 0 || (size == 2) == is_stage_3;
}

// Replicas of shard groups that fill a node each; false where the world has no two whole nodes, or has its own mesh.
static bool change_mesh(const struct plan_options *options, const struct plan_machine *machine,
                        struct plan_choice *choice)
{
    char text[CHOICE_CHANGE_BYTES];
    int shard = machine->devices_per_node, replicate = options->world / shard;
    for (char **set = options->set; set && *set; set++)
        if (strncmp(*set, "zerogauge.mesh=", strlen("zerogauge.mesh=")) == 0)
            return false;
    snprintf(text, sizeof text, "zerogauge.mesh=replicate=%d,shard=%d", replicate, shard);
    plan_choice_change(choice, text);
    return shard > 1 && replicate > 1 && replicate * shard == options->world;
}

// False: the machine or the mesh has no such placement.
static bool describe(const struct plan_options *options, const struct plan_machine *machine, const int index[3],
                     size_t micro_batch, size_t accumulation, struct plan_choice *choice)
{
    const struct plan_changes *of[] = {&placements[index[0]], &checkpoints[index[1]], &sizes[index[2]]};
    char text[CHOICE_CHANGE_BYTES];
    *choice = (struct plan_choice){.placement = of[0]->name};
    for (int i = 0; i < 3; i++)
        plan_choice_change_all(choice, of[i]);
    if (choice->placement == within_nodes && !change_mesh(options, machine, choice))
        return false;
    snprintf(choice->label, sizeof choice->label, "%s; %s; %s; %zu x %zu sequences", of[0]->name, of[1]->name,
             of[2]->name, accumulation, micro_batch);
    snprintf(text, sizeof text, "train_micro_batch_size_per_gpu=%zu", micro_batch);
    plan_choice_change(choice, text);
    snprintf(text, sizeof text, "gradient_accumulation_steps=%zu", accumulation);
    plan_choice_change(choice, text);
    return true;
}

// True if a placement fits in a smaller world.
static bool fits_in_less(const struct plan_choices *found, const char *placement, int world)
{
    for (size_t i = 0; i < found->count; i++)
        if (found->list[i].setting.world < world && strcmp(found->list[i].placement, placement) == 0)
            return true;
    return false;
}

// Checkpoints on the host need least of the device: where they lack more than the closest does, so do all.
static int search_sizes(const struct plan_options *options, const struct plan_machine *machine, bool least,
                        size_t micro_batch, size_t accumulation, struct plan_choices *found)
{
    struct plan_choice choice;
    for (int p = 0; p < PLACEMENT_COUNT; p++) {
        bool is_out[SIZE_COUNT] = {false};
        if (options->goal == GOAL_SMALLEST && fits_in_less(found, placements[p].name, options->world))
            continue;
        for (int c = options->unshared ? 0 : -1; c < CHECKPOINT_COUNT; c++)
            for (int s = 0; s < SIZE_COUNT; s++) {
                const int index[] = {p, c < 0 ? CHECKPOINT_COUNT - 1 : c, s};
                bool is_tried = s == SIZE_LEAST ? least : !least && has_sizes(p, s);
                if (!is_tried || !describe(options, machine, index, micro_batch, accumulation, &choice))
                    continue;
                plan_search_progress(found, clock_now_s());
                if (c < 0)
                    TRY(plan_choices_rule_out(options, machine, &choice, found, &is_out[s]));
                else if (is_out[s])
                    found->tried++;
                else
                    TRY(plan_choices_try(options, machine, &choice, found));
            }
    }
    return ERR_NONE;
}

// The sizes that need least memory are slow: they are tried where no others fit.
static int search_batch(const struct plan_options *options, const struct plan_machine *machine, size_t micro_batch,
                        size_t accumulation, struct plan_choices *found)
{
    size_t fitting = found->count;
    TRY(search_sizes(options, machine, false, micro_batch, accumulation, found));
    return found->count > fitting ? ERR_NONE : search_sizes(options, machine, true, micro_batch, accumulation, found);
}

// Tries all batches with which this world processes at least the step's sequences. Once a micro-batch does not fit in
// any way, larger ones do not either.
static int search_world(const struct plan_options *options, const struct plan_machine *machine, size_t sequences,
                        struct plan_choices *found)
{
    size_t world = (size_t)options->world, own = (sequences + world - 1) / world;
    for (size_t micro = 1; micro <= own; micro *= 2) {
        size_t fitting = found->count;
        TRY(search_batch(options, machine, micro, (own + micro - 1) / micro, found));
        if (found->count == fitting)
            break;
    }
    return ERR_NONE;
}

static int smallest_world(const struct plan_choices *found, const char *placement)
{
    int world = 0;
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->list[i].placement, placement) == 0 && (world == 0 || found->list[i].setting.world < world))
            world = found->list[i].setting.world;
    return world;
}

// Bisects between the smallest world of each placement and the one before it in the series of search_worlds.
static int narrow_worlds(const struct plan_options *options, const struct plan_machine *machine, size_t sequences,
                         struct plan_choices *found)
{
    struct plan_options in_world = *options;
    for (int p = 0; p < PLACEMENT_COUNT; p++) {
        int fits = smallest_world(found, placements[p].name);
        int fails = (fits & (fits - 1)) == 0 ? fits * 3 / 4 : fits * 2 / 3;
        while (fits - fails > 1) {
            in_world.world = (fits + fails) / 2;
            TRY(search_world(&in_world, machine, sequences, found));
            *(smallest_world(found, placements[p].name) <= in_world.world ? &fits : &fails) = in_world.world;
        }
    }
    return ERR_NONE;
}

// Tries worlds in turn: 1, 2, 3, 4, 6, 8, 12, ... For the smallest, up to the first in which all states fit on devices,
// stage 3 without offloading, and then those between.
static int search_worlds(const struct plan_options *options, const struct plan_machine *machine, size_t sequences,
                         struct plan_choices *found)
{
    struct plan_options in_world = *options;
    for (int world = 1; world <= WORLD_TRIED_MAX; world *= 2)
        for (int part = 0; part < (world > 1 ? 2 : 1); part++) {
            in_world.world = world + part * world / 2;
            TRY(search_world(&in_world, machine, sequences, found));
            if (options->goal == GOAL_SMALLEST && fits_in_less(found, "zero3", WORLD_TRIED_MAX * 2))
                return narrow_worlds(options, machine, sequences, found);
        }
    return ERR_NONE;
}

static int fits_length(const struct plan_options *options, const struct plan_machine *machine, long long length,
                       struct plan_choices *found, bool *out)
{
    struct plan_options longer = *options;
    size_t fitting = found->count;
    longer.sequence_length = length;
    TRY(search_batch(&longer, machine, 1, 1, found));
    *out = found->count > fitting;
    return ERR_NONE;
}

// Doubles the sequences until nothing fits, and then bisects to a sixteenth of the last length that was doubled.
static int search_lengths(const struct plan_options *options, const struct plan_machine *machine,
                          struct plan_choices *found)
{
    bool fits = true;
    long long fitting = 0, failing = 0;
    for (long long length = 1024; fits && length <= SEQUENCE_TRIED_MAX; length *= 2) {
        TRY(fits_length(options, machine, length, found, &fits));
        *(fits ? &fitting : &failing) = length;
    }
    for (long long grain = fitting / 16; grain > 0 && failing - fitting > grain;) {
        long long middle = (fitting + failing) / 2;
        TRY(fits_length(options, machine, middle, found, &fits));
        *(fits ? &fitting : &failing) = middle;
    }
    return ERR_NONE;
}

// Says what the closest one lacks, and what would make it fit.
static int refuse(const struct plan_options *options, const struct plan_choices *found)
{
    char reason[PLAN_REASON_BYTES], shape[ADVICE_BYTES];
    const struct plan_choice *closest = &found->closest;
    if (found->closest_lack == 0 && found->late == 0 && !found->is_refused_otherwise)
        return err_set(ERR_USAGE, "%s", found->refusal);
    if (found->closest_lack == 0 && found->late == 0)
        return err_set(ERR_CHECK, "none of %zu configurations is possible on this machine; the first: %s", found->tried,
                       found->refusal);
    if (found->late > 0)
        return err_set(ERR_CHECK,
                       "%zu of %zu configurations fit, and all of them take more than %g days: try more "
                       "devices with --world N or --goal smallest",
                       found->late, found->tried, options->days);
    TRY(plan_advise_shape(options, closest->setting.machine, closest, shape));
    return err_set(ERR_CHECK, "none of %zu configurations fits%s; the closest, on %d device%s, %s: %s; %s%s",
                   found->tried, found->tight > 0 ? " (--tight lists those that are tight)" : "",
                   closest->setting.world, closest->setting.world > 1 ? "s" : "", closest->label,
                   plan_reason(&closest->plan, reason), shape[0] ? "it fits with " : "no more devices make it fit",
                   shape);
}

static int finish(const struct plan_options *options, struct plan_choices *found, FILE *out)
{
    if (found->count == 0)
        return refuse(options, found);
    plan_choices_sort(found, options->goal);
    return plan_search_print(found, options, out);
}

static int search_machine(const struct plan_options *options, const struct plan_machine *machine,
                          struct plan_choices *found)
{
    struct config config;
    TRY(plan_options_config(options, NULL, 0, &config, NULL));
    size_t sequences = config.micro_batch * config.accumulation * (size_t)options->world;
    bool any_world = options->goal == GOAL_SMALLEST || options->goal == GOAL_CHEAPEST;
    for (size_t i = 0; i < options->world_count; i++) {
        struct plan_options in_world = *options;
        in_world.world = options->worlds[i];
        TRY(search_world(&in_world, machine, sequences, found));
    }
    return options->world_count > 0        ? ERR_NONE
           : options->goal == GOAL_LONGEST ? search_lengths(options, machine, found)
           : any_world                     ? search_worlds(options, machine, sequences, found)
                                           : search_world(options, machine, sequences, found);
}

int plan_search(const struct plan_options *options, const struct plan_priced machines[], size_t machine_count,
                FILE *out)
{
    struct plan_choices found = {.began_s = clock_now_s()};
    struct plan_options priced = *options;
    int code = ERR_NONE;
    for (size_t i = 0; i < machine_count && code == ERR_NONE; i++) {
        const struct plan_machine *machine = &machines[i].machine;
        priced.price = machines[i].price;
        priced.world = options->world > 0 ? options->world : machine->devices_per_node;
        code = search_machine(&priced, machine, &found);
    }
    if (found.shown_s > 0)
        terminal_progress("%s", "");
    if (code == ERR_NONE)
        code = finish(&priced, &found, out);
    free(found.list);
    return code;
}
