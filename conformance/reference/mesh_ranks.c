// SPDX-License-Identifier: Apache-2.0
// Who holds what on the mesh.
#include "conformance/reference/mesh_ranks.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

// True if a stage's rank holds a parameter for any of its uses.
static bool holds(const struct check_case *c, int rank, int param)
{
    for (int use = 0; use < c->param_count; use++)
        if (case_owner(c, use) == param && case_holds(c, rank, use))
            return true;
    return false;
}

// The group over whose ranks the states of a part are cut.
static enum mesh_kind state_group(const struct check_case *c, int param)
{
    return c->params[param].placement.is_expert ? MESH_EXPERT_DATA : MESH_SHARD;
}

static int open_part(struct mesh_ranks *ranks, int rank, int param)
{
    struct mesh_part *part = &ranks->parts[rank][param];
    const struct check_case *c = ranks->c;
    enum mesh_kind kind = state_group(c, param);
    int shards = c->stage > 0 ? mesh_group_size(&ranks->mesh, kind) : 1;
    int shard = c->stage > 0 ? mesh_index_in(&ranks->mesh, kind, rank) : 0;
    size_t count = case_part_count(c, param), each = (count + (size_t)shards - 1) / (size_t)shards;
    size_t begin = each * (size_t)shard < count ? each * (size_t)shard : count;
    *part = (struct mesh_part){
        .is_held = true, .count = count, .begin = begin, .end = begin + each < count ? begin + each : count};
    float **const arrays[] = {&part->model, &part->grad, &part->master, &part->exp_avg, &part->exp_avg_sq};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = calloc(count + 1, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory for the part of %s", c->params[param].name);
    return ERR_NONE;
}

int mesh_ranks_open(const struct check_case *c, const struct config *config, struct mesh_ranks **out)
{
    struct mesh_ranks *ranks = *out = calloc(1, sizeof *ranks);
    if (!ranks)
        return err_set(ERR_MEMORY, "no memory for %d ranks", c->world);
    ranks->c = c;
    ranks->config = config;
    ranks->mesh = c->mesh;
    ranks->recipe = recipe_find(config->recipe);
    scaler_open(&ranks->scaler, &config->loss_scale);
    for (int rank = 0; rank < c->world; rank++)
        for (int param = 0; param < c->param_count; param++)
            if (case_owner(c, param) == param && holds(c, rank, param))
                TRY(open_part(ranks, rank, param));
    return ERR_NONE;
}

void mesh_ranks_close(struct mesh_ranks *ranks)
{
    for (int rank = 0; ranks && rank < ranks->c->world; rank++)
        for (int param = 0; param < ranks->c->param_count; param++) {
            struct mesh_part *part = &ranks->parts[rank][param];
            free(part->model);
            free(part->grad);
            free(part->master);
            free(part->exp_avg);
            free(part->exp_avg_sq);
        }
    free(ranks);
}

bool mesh_counts(const struct mesh_ranks *ranks, int rank, int param)
{
    const struct mesh *mesh = &ranks->mesh;
    const struct case_placement *placement = &ranks->c->params[param].placement;
    if (!ranks->parts[rank][param].is_held || placement->pipeline != mesh_index_in(mesh, MESH_PIPELINE, rank))
        return false;
    if (placement->part != PART_CUT && mesh_index_in(mesh, MESH_TENSOR, rank) > 0)
        return false;
    if (ranks->c->stage == 0)
        return mesh_index_in(mesh, placement->is_expert ? MESH_EXPERT_DATA : MESH_DATA, rank) == 0;
    return placement->is_expert || mesh_index_in(mesh, MESH_REPLICATE, rank) == 0;
}

// Copies between a part's elements and their places in the whole parameter.
static void copy_in(const struct mesh_ranks *ranks, int rank, int param, const float *whole, float *part)
{
    int tensor_rank = mesh_index_in(&ranks->mesh, MESH_TENSOR, rank);
    for (size_t i = 0; whole && i < ranks->parts[rank][param].count; i++)
        part[i] = whole[case_whole_element(ranks->c, tensor_rank, param, i)];
}

static void copy_out(const struct mesh_ranks *ranks, int rank, int param, const float *part, float divisor,
                     float *whole)
{
    int tensor_rank = mesh_index_in(&ranks->mesh, MESH_TENSOR, rank);
    for (size_t i = ranks->parts[rank][param].begin; whole && i < ranks->parts[rank][param].end; i++)
        whole[case_whole_element(ranks->c, tensor_rank, param, i)] = part[i] / divisor;
}

void mesh_scatter(struct mesh_ranks *ranks, const struct answer_step *whole)
{
    for (int rank = 0; rank < ranks->c->world; rank++)
        for (int param = 0; param < ranks->c->param_count; param++) {
            struct mesh_part *part = &ranks->parts[rank][param];
            if (!part->is_held)
                continue;
            copy_in(ranks, rank, param, whole->param[param], part->master);
            copy_in(ranks, rank, param, whole->exp_avg[param], part->exp_avg);
            copy_in(ranks, rank, param, whole->exp_avg_sq[param], part->exp_avg_sq);
        }
}

void mesh_collect(const struct mesh_ranks *ranks, struct answer_step *whole)
{
    for (int rank = 0; rank < ranks->c->world; rank++)
        for (int param = 0; param < ranks->c->param_count; param++) {
            const struct mesh_part *part = &ranks->parts[rank][param];
            if (!mesh_counts(ranks, rank, param))
                continue;
            copy_out(ranks, rank, param, part->master, 1, whole->param[param]);
            copy_out(ranks, rank, param, part->exp_avg, 1, whole->exp_avg[param]);
            copy_out(ranks, rank, param, part->exp_avg_sq, 1, whole->exp_avg_sq[param]);
            copy_out(ranks, rank, param, part->grad, ranks->divisor, whole->grad[param]);
        }
}

void mesh_round(enum dtype dtype, float *values, size_t count)
{
    for (size_t i = 0; dtype != DTYPE_FP32 && i < count; i++) {
        uint16_t narrow;
        dtype_narrow(dtype, &values[i], &narrow, 1);
        dtype_widen(dtype, &narrow, &values[i], 1);
    }
}

void mesh_gather(struct mesh_ranks *ranks)
{
    for (int rank = 0; rank < ranks->c->world; rank++)
        for (int param = 0; param < ranks->c->param_count; param++) {
            struct mesh_part *to = &ranks->parts[rank][param];
            enum mesh_kind kind = state_group(ranks->c, param);
            int group = mesh_group_of(&ranks->mesh, kind, rank);
            for (int i = 0; to->is_held && i < mesh_group_size(&ranks->mesh, kind); i++) {
                int owner = ranks->c->stage > 0 ? mesh_rank_at(&ranks->mesh, kind, group, i) : rank;
                const struct mesh_part *from = &ranks->parts[owner][param];
                memcpy(to->model + from->begin, from->master + from->begin,
                       (from->end - from->begin) * sizeof *to->model);
            }
            if (to->is_held)
                mesh_round(ranks->c->precision, to->model, to->count);
        }
}
