// SPDX-License-Identifier: Apache-2.0
// The ledger of a plan equals that of a real run, entry by entry for every rank, over stages, placements, formats and
// worlds, and over a sample in which all settings vary together.
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"
#include "ref/train/offload_random_test.h"
#include "ref/train/offload_test.h"

enum { WORLD_MAX = 16 };

// The ledgers of a run's ranks, after its last step.
struct ledgers {
    struct ledger ledgers[WORLD_MAX];
    struct formula formulas[WORLD_MAX];
    uint64_t rescanned[WORLD_MAX];  // norms that read gradients on NVMe
    bool all_applied;
};

static int observe(void *context, const struct train_moment *moment)
{
    struct ledgers *l = context;
    int rank = moment->rank;
    l->ledgers[rank] = *moment->stage->setting.ledger;
    formula_of(moment->stage, comm_rank(moment->stage->setting.comm), 0, 0, &l->formulas[rank]);
    l->rescanned[rank] = moment->stage->optimizer.rescanned;
    if (rank == 0 && moment->step > 0)
        l->all_applied &= moment->applied;
    return ERR_NONE;
}

// A plan has no gradients: it reads them for the norm of the first step alone.
static void compare(const struct offload_trial *t, const struct ledgers *run, int rank, const struct plan *plan)
{
    const struct ledger *held = &run->ledgers[rank];
    const struct formula *formula = &run->formulas[rank];
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        for (int kind = 0; kind < KIND_COUNT; kind++)
            cr_assert_eq(plan->held_bytes[tier][kind], held->held_bytes[tier][kind],
                         "rank %d: %s on %s: planned %zu, held %zu\n%s", rank, ledger_kind_name(kind),
                         ledger_tier_name(tier), plan->held_bytes[tier][kind], held->held_bytes[tier][kind],
                         offload_name(t));
        cr_assert_eq(plan->peak_bytes[tier], held->tier_peak_bytes[tier], "rank %d: peak of %s\n%s", rank,
                     ledger_tier_name(tier), offload_name(t));
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < OPERATION_COUNT; i++) {
            uint64_t again = run->rescanned[rank] > 1 ? run->rescanned[rank] - 1 : 0;
            // An observed run waits for each update, so that no forward finds its parameters on the host.
            uint64_t unhanded_bytes = (plan->steps - 1) * formula->unhanded.bytes[lane][i];
            // Where the norm reads gradients, it takes the buffers of states that were read ahead.
            uint64_t rescanned_bytes = formula->rescanned.bytes[lane][i] + formula->reread.bytes[lane][i];
            uint64_t again_bytes = again * rescanned_bytes + unhanded_bytes;
            cr_assert_eq(plan->run_bytes[lane][i] + again_bytes, held->moved_bytes[lane][i],
                         "rank %d: %s on lane %s: planned %zu, moved %zu\n%s", rank, ledger_operation_name(i),
                         ledger_lane_name(lane), plan->run_bytes[lane][i], held->moved_bytes[lane][i], offload_name(t));
            if (again_bytes == 0)
                cr_assert_eq(plan->run_count[lane][i], held->moved_count[lane][i], "rank %d: calls of %s\n%s", rank,
                             ledger_operation_name(i), offload_name(t));
        }
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        cr_assert_eq(plan->run_sent_bytes[purpose], held->sent_bytes[purpose], "rank %d: purpose %d\n%s", rank, purpose,
                     offload_name(t));
    for (int group = 0; group < GROUP_COUNT; group++)
        cr_assert_eq(plan->run_group_bytes[group], held->group_bytes[group], "rank %d: group %s\n%s", rank,
                     ledger_group_name((enum ledger_group)group), offload_name(t));
}

// Runs the trial and plans each of its ranks. False for a run that skips a step, which depends on values: a plan, which
// has none, applies all.
static bool is_planned(const struct offload_trial *t)
{
    static struct ledgers run;
    struct config config;
    struct plan_machine machine;
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = t->world, .steps = t->steps};
    run = (struct ledgers){.all_applied = true};
    offload_succeed(t, (struct train_setting){.observe = observe, .observe_context = &run});
    if (!run.all_applied)
        return false;
    cr_assert_eq(offload_config(t, &config), ERR_NONE);
    cr_assert_eq(plan_model_find(t->model, (size_t)t->tiles, &setting.model), ERR_NONE);
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE, "%s", err_message());
    for (setting.rank = 0; setting.rank < t->world; setting.rank++) {
        struct plan plan;
        int rc = plan_run(&setting, &plan);
        cr_assert_eq(rc, ERR_NONE, "%s\n%s", rc ? err_message() : "", offload_name(t));
        compare(t, &run, setting.rank, &plan);
    }
    return true;
}

static void demand(const struct offload_trial *t)
{
    cr_assert(is_planned(t), "a step is skipped\n%s", offload_name(t));
}

// Tiers that a stage permits for parameters, gradients and optimizer.
static const struct {
    int stage;
    enum ledger_tier parameter, gradient, optimizer;
} placements[] = {
    {0, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE}, {1, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
    {2, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE}, {3, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
    {1, TIER_DEVICE, TIER_HOST, TIER_HOST},     {2, TIER_DEVICE, TIER_HOST, TIER_HOST},
    {2, TIER_DEVICE, TIER_DEVICE, TIER_HOST},   {3, TIER_HOST, TIER_HOST, TIER_HOST},
    {3, TIER_DEVICE, TIER_NVME, TIER_NVME},     {3, TIER_NVME, TIER_DEVICE, TIER_DEVICE},
    {3, TIER_NVME, TIER_NVME, TIER_NVME},
};
enum { PLACEMENT_COUNT = sizeof placements / sizeof placements[0] };

static struct offload_trial trial_at(int placement)
{
    return OFFLOAD_TRIAL(.stage = placements[placement].stage, .parameter = placements[placement].parameter,
                         .gradient = placements[placement].gradient, .optimizer = placements[placement].optimizer);
}

Test(plan, every_place_in_worlds_of_one_to_eight_is_as_in_a_real_run)
{
    static const int worlds[] = {1, 2, 3, 4, 8};
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
            struct offload_trial t = trial_at(placement);
            t.world = worlds[w];
            demand(&t);
        }
}

Test(plan, every_format_and_accumulation_is_as_in_a_real_run)
{
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (size_t accumulation = 1; accumulation <= 3; accumulation += 2) {
                struct offload_trial t = trial_at(placement);
                t.precision = t.communication = dtypes[dtype];
                t.sum = DTYPE_FP32;
                t.accumulation = accumulation;
                t.world = 3;
                demand(&t);
            }
}

Test(plan, delayed_updates_buckets_and_owners_are_as_in_a_real_run)
{
    static const size_t buckets[] = {64, 998, 100000000};
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (size_t b = 0; b < 3; b++) {
            struct offload_trial t = trial_at(placement);
            t.bucket = buckets[b];
            t.delay = t.optimizer != TIER_DEVICE ? 2 : 0;
            t.owner_broadcast = t.stage == 3;
            t.contiguous = b != 1;
            t.reuse = b == 2 ? 1000000000 : 0;
            t.steps = 4;
            demand(&t);
        }
}

Test(plan, a_gpt_with_checkpoints_and_tiles_is_as_in_a_real_run)
{
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (enum ledger_tier kept = TIER_DEVICE; kept <= TIER_NVME; kept++) {
            struct offload_trial t = trial_at(placement);
            t.model = "gpt-nano";
            t.checkpointing = true;
            t.activation = kept;
            t.tiles = placement % 2 ? 4 : 1;
            t.steps = 2;
            demand(&t);
        }
}

// Counts do not depend on the schedule, whose threads and delays take most of the time of a run (offload_random_test.c
// has runs enough of them): `serial` leaves it out.
static void sample(uint64_t from, uint64_t count, bool serial)
{
    uint64_t planned_count = 0;
    for (uint64_t number = from; number < from + count; number++) {
        struct draw d = {random_key(21, number), 0};
        struct offload_trial t = draw_trial(&d);
        if (strncmp(t.model, "linear-overflow", 15) == 0)
            t.model = "linear";
        // Clipped steps depend on values, too: a speculative update is made again.
        if (t.speculative)
            t.clip = 1e6;
        if (serial)
            t.schedule = (struct executor_schedule){EXECUTOR_SERIAL, 0};
        planned_count += is_planned(&t);
    }
    cr_assert_geq(planned_count * 10, count * 9, "%" PRIu64 " of %" PRIu64, planned_count, count);
}

Test(plan, a_sample_of_all_settings_is_as_in_a_real_run)
{
    sample(0, 60, false);
}
Test(plan, a_large_sample_of_all_settings_is_as_in_a_real_run_long, .timeout = 580)
{
    sample(1000, 1000, true);
}

Test(plan, a_second_large_sample_of_all_settings_is_as_in_a_real_run_long, .timeout = 580)
{
    sample(2000, 1000, true);
}

Test(plan, a_third_large_sample_of_all_settings_is_as_in_a_real_run_long, .timeout = 580)
{
    sample(3000, 1000, true);
}

// Of a mesh's two kinds of groups, both are in the timeline with their own links: replicas on different nodes exchange
// a shard's gradients over the network, which 8 groups share, and gathers stay within the node.
Test(plan, a_mesh_on_nodes_gathers_within_a_node)
{
    static const char *const meshes[] = {"", "zerogauge.mesh=replicate=8,shard=8"};
    struct plan_machine machine;
    double gather_s[2], reduce_s[2];
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE);
    for (int i = 0; i < 2; i++) {
        struct config config;
        struct plan plan;
        const struct config_options options = {.world = 64, .set = &meshes[i], .set_count = (size_t)i};
        struct plan_setting setting = {.config = &config, .machine = &machine, .world = 64};
        cr_assert_eq(config_load_preset("zero3", &options, &config, NULL), ERR_NONE, "%s", err_message());
        cr_assert_eq(plan_model_find("gpt2-xl", 1, &setting.model), ERR_NONE);
        cr_assert_eq(plan_run(&setting, &plan), ERR_NONE, "%s", err_message());
        gather_s[i] = reduce_s[i] = 0;
        for (int k = 0; k < plan.part_count; k++) {
            gather_s[i] += strcmp(plan.parts[k].name, "all-gather") == 0 ? plan.parts[k].busy_s : 0;
            reduce_s[i] += strcmp(plan.parts[k].name, "all-reduce") == 0 ? plan.parts[k].busy_s : 0;
        }
    }
    cr_expect_lt(gather_s[1], 0.99 * gather_s[0], "%g, %g", gather_s[0], gather_s[1]);
    cr_expect_eq(reduce_s[0], 0);
    cr_expect_gt(reduce_s[1], 0);
}

// The ledger of a plan on a mesh equals that of a real run, entry by entry for every rank: tensor and pipeline
// parallelism and experts, at every stage that they allow. And the times of a pipeline follow from its schedule.

static const char LAYERS[] = "gpt:layers=4,width=16,heads=2,length=16,vocabulary=256,blocks=2";

static const struct {
    const char *model;
    int replicas, shards, tensor, pipeline, experts, stages;  // experts: 0 without; stages: the highest of ZeRO
} meshes[] = {
    {"gpt-nano:blocks=2", 1, 2, 2, 1, 0, 3},
    {"gpt-nano:blocks=2", 2, 1, 2, 1, 0, 3},
    {"gpt-nano:blocks=4,heads=4", 1, 1, 4, 1, 0, 3},
    {"gpt-nano:blocks=2,vocabulary=258,length=7", 2, 3, 2, 1, 0, 3},
    {"gpt-nano:blocks=4,heads=4,sequence_parallel=1", 1, 2, 2, 1, 0, 3},
    {LAYERS, 1, 1, 1, 2, 0, 1},
    {LAYERS, 1, 3, 1, 4, 0, 1},
    {LAYERS, 2, 2, 1, 2, 0, 1},
    {LAYERS, 1, 2, 2, 2, 0, 1},
    {"gpt-nano:experts=4,top=2", 1, 2, 1, 1, 2, 3},
    {"gpt-nano:layers=1,experts=8,capacity=0.7", 1, 4, 1, 1, 2, 3},
    {"gpt-nano:experts=4,blocks=2", 1, 2, 2, 1, 2, 3},
    {"gpt-nano:experts=4", 1, 2, 1, 2, 2, 1},
    {"gpt-nano:experts=4,blocks=2,sequence_parallel=1", 1, 2, 2, 2, 2, 1},
};
enum { MESH_COUNT = sizeof meshes / sizeof meshes[0] };

static struct offload_trial trial_of(int mesh, int stage, int number)
{
    struct offload_trial t = OFFLOAD_TRIAL(.model = meshes[mesh].model, .stage = stage, .steps = 2);
    // Stage 0 partitions nothing: its ranks of data parallelism are replicas.
    t.replicas = stage == 0 ? meshes[mesh].replicas * meshes[mesh].shards : meshes[mesh].replicas;
    t.tensor = meshes[mesh].tensor;
    t.pipeline = meshes[mesh].pipeline;
    t.experts = meshes[mesh].experts;
    t.world = meshes[mesh].replicas * meshes[mesh].shards * meshes[mesh].tensor * meshes[mesh].pipeline;
    t.accumulation = 1 + (size_t)number % 4;
    t.gpipe = number % 2;
    t.checkpointing = number % 3 == 1;
    t.bucket = number % 3 ? 5000 : 300;
    t.precision = t.communication = t.sum = number % 2 ? DTYPE_BF16 : DTYPE_FP32;
    return t;
}

Test(plan_mesh, every_rank_of_every_part_is_as_in_a_real_run)
{
    for (int mesh = 0, number = 0; mesh < MESH_COUNT; mesh++)
        for (int stage = 0; stage <= meshes[mesh].stages; stage++, number++) {
            struct offload_trial t = trial_of(mesh, stage, number);
            demand(&t);
        }
}

Test(plan_mesh, offloaded_states_of_parts_are_as_in_a_real_run)
{
    for (int mesh = 0; mesh < MESH_COUNT; mesh++) {
        struct offload_trial t = trial_of(mesh, meshes[mesh].stages, mesh + 1);
        t.optimizer = t.gradient = TIER_HOST;
        t.muon = mesh % 2;
        demand(&t);
    }
}

static void plan_with(const char *mesh, const char *accumulation, const char *sequence_parallel, int rank,
                      struct plan *out)
{
    const char *set[] = {mesh, accumulation, sequence_parallel, "train_micro_batch_size_per_gpu=1"};
    struct config config;
    struct plan_machine machine;
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = 16, .rank = rank};
    const struct config_options options = {.world = 16, .set = set, .set_count = 4};
    const struct plan_model_variant variant = {.tensor = strstr(mesh, "tensor=8") ? 8 : 0,
                                               .sequence_parallel = strstr(sequence_parallel, "true") != NULL};
    const struct framework_words words = {.framework = "megatron"};
    cr_assert_eq(framework_choose(&words, &setting.choice), ERR_NONE);
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE);
    cr_assert_eq(config_load_preset("zero1", &options, &config, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_model_find_variant("gpt3-6.7b", &variant, &setting.model), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_run(&setting, out), ERR_NONE, "%s", err_message());
}

static void plan_on(const char *mesh, const char *accumulation, int rank, struct plan *out)
{
    plan_with(mesh, accumulation, "zerogauge.sequence_parallel=false", rank, out);
}

static double activation_bytes(const struct plan *plan)
{
    for (int i = 0; i < plan->device.line_count; i++)
        if (strcmp(plan->device.lines[i].name, "activations") == 0)
            return (double)plan->device.lines[i].bytes[TIER_DEVICE];
    return 0;
}

// Stage p of P has P-p micro-batches in flight, if there are as many. Ranks of a stage are 4 apart.
Test(plan_mesh, a_pipeline_has_its_bubble_and_the_activations_of_micro_batches_in_flight)
{
    struct plan of_first, of_last, of_one;
    plan_on("zerogauge.mesh=pipeline=4,shard=4", "gradient_accumulation_steps=8", 0, &of_first);
    plan_on("zerogauge.mesh=pipeline=4,shard=4", "gradient_accumulation_steps=8", 15, &of_last);
    plan_on("zerogauge.mesh=pipeline=1,shard=16", "gradient_accumulation_steps=8", 0, &of_one);
    cr_expect_float_eq(of_first.bubble, 3.0 / 11, 1e-12);
    cr_expect_float_eq(activation_bytes(&of_first), 4 * activation_bytes(&of_last), 8);
    cr_expect_float_eq(activation_bytes(&of_first), activation_bytes(&of_one), 8, "a fourth of the blocks, four times");
    cr_expect_eq(of_one.bubble, 0);
    cr_expect_eq(of_one.bubble_s, 0);
    double passes_s = 0;
    for (int i = 0; i < of_first.part_count; i++)
        if (of_first.parts[i].lane == LANE_COMPUTE && strstr("forward backward", of_first.parts[i].name))
            passes_s += of_first.parts[i].critical_s;
    cr_expect_float_eq(of_first.bubble_s / (of_first.bubble_s + passes_s), 3.0 / 11, 1e-9);
}

// Eight ranks of a node cut each layer: an eighth of the parameters but for what is not cut, a padded vocabulary, and
// sums within the node, whose times the plan has.
Test(plan_mesh, tensor_parallelism_divides_states_and_times_its_sums)
{
    struct plan whole, cut;
    plan_on("zerogauge.mesh=shard=16", "gradient_accumulation_steps=1", 0, &whole);
    plan_on("zerogauge.mesh=tensor=8,shard=2", "gradient_accumulation_steps=1", 0, &cut);
    double share =
        (double)cut.held_bytes[TIER_DEVICE][KIND_PARAMETER] / (double)whole.held_bytes[TIER_DEVICE][KIND_PARAMETER];
    cr_expect(share > 0.125 && share < 0.128, "%g", share);
    cr_expect_float_eq(cut.model_flops, whole.model_flops / 8, 1e-3 * cut.model_flops);
    double sums_s = 0;
    for (int i = 0; i < cut.part_count; i++)
        sums_s += strncmp(cut.parts[i].name, "tensor ", 7) == 0 ? cut.parts[i].critical_s : 0;
    cr_expect(sums_s > 0 && sums_s < cut.step_s, "%g of %g", sums_s, cut.step_s);
    uint64_t sent = cut.step_bytes[LANE_COLLECTIVE][OPERATION_ALL_TO_ALL], rows = 2048, width = 4096, layers = 32;
    cr_expect_eq(sent, (2 * (2 * layers) + 2) * rows * width * sizeof(float) / 8 * 7, "%zu", (size_t)sent);
}

Test(plan_mesh, quantized_communication_is_as_in_a_real_run)
{
    static const int nodes[][3] = {{4, 2, 0}, {4, 0, 2}, {3, 0, 0}, {6, 3, 2}, {4, 1, 0}};  // ranks, a node's, hpZ's
    for (int number = 0; number < 15; number++) {
        struct offload_trial t =
            OFFLOAD_TRIAL(.model = number % 2 ? "gpt-nano" : "linear", .steps = 2, .block = number % 4 ? 64 : 2048);
        t.world = nodes[number % 5][0];
        t.node = nodes[number % 5][1];
        t.secondary = nodes[number % 5][2];
        t.quantized_weights = number % 3 != 1;
        t.quantized_gradients = number % 3 != 0;
        t.accumulation = 1 + (size_t)number % 2;
        t.bucket = number % 2 ? 300 : 5000;
        t.persistence = number % 4 == 1 ? 100 : 0;
        t.parameter = t.optimizer = t.gradient = number % 5 == 3 ? TIER_HOST : TIER_DEVICE;
        demand(&t);
    }
}

// Of a token's 16 widths that a block keeps, tensor parallelism leaves four whole: those of the stream and of the
// norms.
Test(plan_mesh, sequence_parallelism_divides_the_activations_that_tensor_parallelism_leaves)
{
    static const char tensor[] = "zerogauge.mesh=tensor=8,shard=2", once[] = "gradient_accumulation_steps=1";
    struct plan whole, cut, divided;
    plan_on("zerogauge.mesh=shard=16", once, 0, &whole);
    plan_on(tensor, once, 0, &cut);
    plan_with(tensor, once, "zerogauge.sequence_parallel=true", 0, &divided);
    double block = activation_bytes(&whole);
    cr_expect_float_eq(activation_bytes(&cut), block * (4 + 12 / 8.0) / 16, 1);
    cr_expect_float_eq(activation_bytes(&divided), block / 8, 1);
    const uint64_t slice = UINT64_C(2048) * 4096 / 8 * sizeof(float) * 7, layers = 32;
    const uint64_t vectors = (6 * layers + 2) * 4096 / 8 * sizeof(float) * 7;
    cr_expect_eq(divided.step_bytes[LANE_COLLECTIVE][OPERATION_ALL_TO_ALL], (4 * layers + 2) * slice + vectors);
    cr_expect_eq(divided.step_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER] -
                     cut.step_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER],
                 (2 * layers + 1) * slice + vectors);
}
