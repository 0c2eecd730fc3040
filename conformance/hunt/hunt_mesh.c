// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/hunt_mesh.h"

#include "conformance/cases/case_mesh.h"
#include "conformance/suite/factor_case.h"
#include "conformance/suite/suite_build.h"

#include <math.h>

enum { WORLD_MOST = 8 };

// --- drawing ---

// Each option of these is on in half of the draws.
static bool draws(struct factor_dice *dice, unsigned options, enum case_option option)
{
    return factor_roll(dice, 2) && options >> option & 1;
}

// A divisor of n above 1; 1 if there is none.
static int draw_divisor(struct factor_dice *dice, int n)
{
    int divisors[WORLD_MOST], count = 0;
    for (int i = 2; i <= n && i <= WORLD_MOST; i++)
        if (n % i == 0)
            divisors[count++] = i;
    return count > 0 ? divisors[factor_roll(dice, count)] : 1;
}

// True if the reference can answer the case on a mesh that cuts the model: it is asked about each find.
static bool may_cut(const struct check_case *c)
{
    bool state = c->loss_scale.kind == SCALE_DYNAMIC || c->overflow_check || c->weights_only;
    return c->offload_optimizer == TIER_DEVICE && c->offload_param == TIER_DEVICE && c->delayed_update == 0 &&
           (c->phase == PHASE_WHOLE || !state);
}

// How many ranks share each of at most `batches` micro-batches, where other degrees make `parts` of each. One of them
// has twice a gradient, for which the largest number of a format has no room.
static int draw_sequence(struct factor_dice *dice, const struct check_case *c, int batches, int parts, int experts)
{
    int ranks = batches == 1 && factor_roll(dice, 2) ? 4 : 2;
    for (int i = 0; i < c->data.poke_count; i++)
        if (isfinite(c->data.pokes[i].value))
            return 1;
    return ranks * batches * parts > WORLD_MOST || (experts % ranks && ranks % experts) ? 1 : ranks;
}

// A parameter of its own, which nothing is tied to.
static bool may_be_expert(const struct check_case *c, int param)
{
    for (int i = 0; i < c->param_count; i++)
        if (i != param && case_owner(c, i) == param)
            return false;
    return case_is_trained(c, param) && case_is_used(c, param) && c->params[param].count > 0;
}

// False: there are too few parameters for as many experts.
static bool place_experts(struct check_case *c, int experts)
{
    int placed = 0;
    for (int i = 0; i < c->param_count && placed < 2 * experts; i++)
        if (may_be_expert(c, i)) {
            c->params[i].placement.is_expert = true;
            c->params[i].placement.expert = placed++ % experts;
        }
    return placed >= experts;
}

static struct case_placement draw_part(struct factor_dice *dice, const struct case_param *param, int tensor)
{
    struct case_placement placement = param->placement;
    int kind = factor_roll(dice, 4), dimension = param->shape_rank > 0 ? factor_roll(dice, param->shape_rank) : 0;
    bool divides = param->shape_rank > 0 && param->shape[dimension] % (size_t)tensor == 0;
    if (kind < 2 && divides) {
        placement.part = PART_CUT;
        placement.dimension = dimension;
    } else if (kind == 2 && !placement.is_expert && !param->frozen) {
        placement.part = PART_PARTIAL;
    }
    return placement;
}

// A tied use lies as its owner, but for the stage.
static void place_parts(struct check_case *c, struct factor_dice *dice, int tensor)
{
    for (int i = 0; i < c->param_count; i++)
        c->params[i].placement =
            case_owner(c, i) == i ? draw_part(dice, &c->params[i], tensor) : c->params[case_owner(c, i)].placement;
}

static void place(struct check_case *c, struct factor_dice *dice, const struct mesh *cuts)
{
    c->mesh = *cuts;
    if (cuts->expert > 1 && !place_experts(c, cuts->expert))
        hunt_mesh_no_experts(c);
    if (cuts->tensor > 1)
        place_parts(c, dice, cuts->tensor);
    suite_place_stages(c);
}

void hunt_mesh_draw(uint64_t key, unsigned options, struct check_case parts[], int part_count)
{
    struct factor_dice dice = {.key = key};
    struct mesh cuts = {1, 1, 1, 1, 1};
    int replicas[2] = {1, 1}, most = parts[0].world, sequence = 1;
    bool replicate = draws(&dice, options, OPTION_REPLICATE), tensor = draws(&dice, options, OPTION_TENSOR),
         pipeline = draws(&dice, options, OPTION_PIPELINE), expert = draws(&dice, options, OPTION_EXPERT);
    for (int i = 0; i < part_count; i++) {
        replicas[i] = replicate ? draw_divisor(&dice, parts[i].world) : 1;
        most = parts[i].world > most ? parts[i].world : most;
    }
    if (may_cut(&parts[0])) {
        cuts.tensor = tensor ? 2 << (most == 1 && factor_roll(&dice, 2)) : 1;
        cuts.pipeline = pipeline && parts[0].stage <= 1 && 2 * cuts.tensor * most <= WORLD_MOST ? 2 : 1;
        cuts.expert = expert ? draw_divisor(&dice, parts[0].world / replicas[0]) : 1;
        if (part_count == 2 && parts[1].world / replicas[1] % cuts.expert != 0)
            cuts.expert = 1;
    }
    if (draws(&dice, options, OPTION_SEQUENCE))
        sequence = draw_sequence(&dice, &parts[0], most, cuts.tensor * cuts.pipeline, cuts.expert);
    if (!replicate && cuts.tensor * cuts.pipeline * cuts.expert * sequence == 1)
        return;
    place(&parts[0], &dice, &cuts);
    for (int i = part_count - 1; i >= 0; i--) {
        int ranks = parts[i].world;
        for (int k = 0; k < parts[i].param_count; k++)
            parts[i].params[k].placement = parts[0].params[k].placement;
        parts[i].mesh = parts[0].mesh;
        parts[i].mesh.replicate = replicas[i];
        parts[i].mesh.shard = ranks / replicas[i] * sequence;
        parts[i].sequence = sequence;
        parts[i].world = mesh_world(&parts[i].mesh);
        if (sequence == 1)
            continue;
        parts[i].data.reach = parts[i].data.spread = 0;
        suite_fit(&parts[i], 2 * most);
    }
}

// --- making it smaller ---

bool hunt_mesh_resize(struct check_case *c, int batches)
{
    struct mesh mesh = case_mesh(c);
    int data_ranks = batches * case_sequence_ranks(c);
    if (mesh.replicate == 1)
        mesh.shard = data_ranks;
    else if (data_ranks % mesh.shard == 0)
        mesh.replicate = data_ranks / mesh.shard;
    else if (data_ranks % mesh.replicate == 0)
        mesh.shard = data_ranks / mesh.replicate;
    else
        return false;
    c->world = mesh_world(&mesh);
    c->mesh = case_has_mesh(c) ? mesh : c->mesh;
    return true;
}

bool hunt_mesh_same_ranks(struct check_case halves[2])
{
    int first = case_batches(&halves[0]), second = case_batches(&halves[1]);
    if (first == second)
        return false;
    return first < second ? hunt_mesh_resize(&halves[1], first) : hunt_mesh_resize(&halves[0], second);
}

static void set_world(struct check_case *c)
{
    c->world = case_has_mesh(c) ? mesh_world(&c->mesh) : c->world;
}

void hunt_mesh_none(struct check_case *c)
{
    c->world = case_batches(c);
    c->mesh = (struct mesh){0};
    c->sequence = 0;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].placement = (struct case_placement){0};
}

void hunt_mesh_half_sequence(struct check_case *c)
{
    if (case_sequence_ranks(c) % 2 != 0)
        return;
    *(c->mesh.shard % 2 == 0 ? &c->mesh.shard : &c->mesh.replicate) /= 2;
    c->sequence /= 2;
    set_world(c);
    if (c->sequence == 1 && case_options(c) >> OPTION_REPLICATE & 1 && c->mesh.replicate == 1)
        hunt_mesh_none(c);
}

void hunt_mesh_one_replica(struct check_case *c)
{
    c->mesh.shard *= case_has_mesh(c) ? c->mesh.replicate : 1;
    c->mesh.replicate = case_has_mesh(c);
}

void hunt_mesh_shards_of_one(struct check_case *c)
{
    if (c->mesh.replicate > 1 && c->mesh.expert == 1) {
        c->mesh.replicate *= c->mesh.shard;
        c->mesh.shard = 1;
    }
}

void hunt_mesh_no_tensor(struct check_case *c)
{
    c->mesh.tensor = case_has_mesh(c);
    for (int i = 0; i < c->param_count; i++) {
        c->params[i].placement.part = PART_WHOLE;
        c->params[i].placement.dimension = 0;
    }
    set_world(c);
}

void hunt_mesh_less_tensor(struct check_case *c)
{
    c->mesh.tensor /= c->mesh.tensor > 2 ? 2 : 1;
    set_world(c);
}

void hunt_mesh_no_pipeline(struct check_case *c)
{
    c->mesh.pipeline = case_has_mesh(c);
    for (int i = 0; i < c->param_count; i++)
        c->params[i].placement.pipeline = 0;
    set_world(c);
}

void hunt_mesh_no_experts(struct check_case *c)
{
    c->mesh.expert = case_has_mesh(c);
    for (int i = 0; i < c->param_count; i++) {
        c->params[i].placement.is_expert = false;
        c->params[i].placement.expert = 0;
    }
}
