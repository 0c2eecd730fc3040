// SPDX-License-Identifier: Apache-2.0
// A step on the mesh: sums of gradients over its groups, one decision, one norm, and Adam on each rank's own elements.
#include "conformance/reference/mesh_ranks.h"

#include "base/err.h"
#include "ref/arithmetic/norm.h"
#include "ref/optimizer/clip.h"
#include "ref/optimizer/muon.h"
#include "ref/optimizer/optimizer.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t INFINITY_BITS = 0x7f800000u;  // of fp32, without the sign: those of NaN are larger

void mesh_add_gradient(struct mesh_ranks *ranks, int rank, int use, bool first, float scale, float *gradient)
{
    const struct check_case *c = ranks->c;
    struct mesh_part *part = &ranks->parts[rank][case_owner(c, use)];
    for (size_t i = 0; i < part->count; i++)
        gradient[i] *= scale;
    mesh_round(c->precision, gradient, part->count);
    for (size_t i = 0; i < part->count; i++)
        part->grad[i] = first ? gradient[i] : part->grad[i] + gradient[i];
    mesh_round(c->accumulation_dtype, part->grad, part->count);
}

// Sums a part's gradients over the ranks of a group that hold it, the first rank first, in dtype; all of them get the
// sum.
static int sum_over(struct mesh_ranks *ranks, enum mesh_kind kind, int group, int param, enum dtype dtype)
{
    size_t count = case_part_count(ranks->c, param);
    float *sum = calloc(count + 1, sizeof *sum);
    if (!sum)
        return err_set(ERR_MEMORY, "no memory for a sum over ranks");
    for (int i = 0; i < mesh_group_size(&ranks->mesh, kind); i++) {
        struct mesh_part *part = &ranks->parts[mesh_rank_at(&ranks->mesh, kind, group, i)][param];
        if (!part->is_held)
            continue;
        mesh_round(dtype, part->grad, part->count);
        for (size_t k = 0; k < count; k++)
            sum[k] += part->grad[k];
    }
    mesh_round(dtype, sum, count);
    for (int i = 0; i < mesh_group_size(&ranks->mesh, kind); i++) {
        struct mesh_part *part = &ranks->parts[mesh_rank_at(&ranks->mesh, kind, group, i)][param];
        if (part->is_held)
            memcpy(part->grad, sum, count * sizeof *sum);
    }
    free(sum);
    return ERR_NONE;
}

static int sum_over_all(struct mesh_ranks *ranks, enum mesh_kind kind, int param, enum dtype dtype)
{
    for (int group = 0; group < mesh_group_count(&ranks->mesh, kind); group++)
        TRY(sum_over(ranks, kind, group, param, dtype));
    return ERR_NONE;
}

static bool is_tied(const struct check_case *c, int param)
{
    for (int use = 0; use < c->param_count; use++)
        if (c->params[use].tied_to == param)
            return true;
    return false;
}

// Shares of tensor ranks, then uses on several stages, then data ranks.
static int sum_gradients(struct mesh_ranks *ranks)
{
    const struct check_case *c = ranks->c;
    for (int param = 0; param < c->param_count; param++) {
        const struct case_placement *placement = &c->params[param].placement;
        enum mesh_kind data = placement->is_expert ? MESH_EXPERT_DATA : MESH_DATA;
        if (!case_is_trained(c, param))
            continue;
        if (placement->part == PART_PARTIAL)
            TRY(sum_over_all(ranks, MESH_TENSOR, param, c->accumulation_dtype));
        if (is_tied(c, param))
            TRY(sum_over_all(ranks, MESH_PIPELINE, param, c->accumulation_dtype));
        TRY(sum_over_all(ranks, data, param, c->communication_dtype));
    }
    return ERR_NONE;
}

// The largest magnitude of any element that any rank owns.
static uint32_t largest(const struct mesh_ranks *ranks)
{
    uint32_t max_bits = 0;
    for (int rank = 0; rank < ranks->c->world; rank++)
        for (int param = 0; param < ranks->c->param_count; param++) {
            const struct mesh_part *part = &ranks->parts[rank][param];
            if (!part->is_held || !case_is_trained(ranks->c, param))
                continue;
            uint32_t bits = norm_max(DTYPE_FP32, part->grad + part->begin, part->end - part->begin);
            max_bits = bits > max_bits ? bits : max_bits;
        }
    return max_bits;
}

static double norm_of(const struct mesh_ranks *ranks, uint32_t max_bits)
{
    struct norm_sum sum = {0};
    for (int rank = 0; rank < ranks->c->world; rank++)
        for (int param = 0; param < ranks->c->param_count; param++) {
            const struct mesh_part *part = &ranks->parts[rank][param];
            if (mesh_counts(ranks, rank, param) && case_is_trained(ranks->c, param))
                norm_accumulate(&sum, DTYPE_FP32, part->grad + part->begin, part->end - part->begin, max_bits);
        }
    return norm_finish(sum, max_bits);
}

static void update_part(struct mesh_ranks *ranks, int rank, int param, const struct adam_scalars *scalars,
                        float coefficient)
{
    struct mesh_part *part = &ranks->parts[rank][param];
    int tensor_rank = mesh_index_in(&ranks->mesh, MESH_TENSOR, rank);
    size_t tail = recipe_tail_start(ranks->recipe, ranks->c->params[param].count);
    if (case_is_muon(ranks->c, param))
        return;
    for (size_t i = part->begin; i < part->end; i++) {
        bool is_tail = case_whole_element(ranks->c, tensor_rank, param, i) >= tail;
        float mean = part->grad[i] / ranks->divisor;
        recipe_element(ranks->recipe, scalars, is_tail, coefficient == 1.0f ? mean : mean * coefficient,
                       &part->master[i], &part->exp_avg[i], &part->exp_avg_sq[i]);
        part->master[i] = dtype_kept(ranks->config->master_dtype, part->master[i]);
        part->exp_avg[i] = dtype_kept(ranks->config->moment_dtype, part->exp_avg[i]);
        part->exp_avg_sq[i] = dtype_kept(ranks->config->moment_dtype, part->exp_avg_sq[i]);
    }
}

// One matrix of Muon's, in memory of all ranks.
struct matrix {
    struct mesh_ranks *ranks;
    int param;
    float coefficient;
    struct model_param whole;
    float *own, *x;  // of one rank's elements; of all, with room for Newton-Schulz
};

static struct whole_step step_of(const struct matrix *m, int rank)
{
    const struct mesh_ranks *ranks = m->ranks;
    const struct mesh_part *part = &ranks->parts[rank][m->param];
    return (struct whole_step){.config = ranks->config,
                               .param = &m->whole,
                               .count = part->end - part->begin,
                               .step = ranks->t + ranks->skipped,
                               .t = ranks->t,
                               .grad = part->grad + part->begin,
                               .grad_dtype = DTYPE_FP32,
                               .grad_divisor = ranks->divisor,
                               .grad_coefficient = m->coefficient,
                               .master = part->master + part->begin,
                               .momentum = part->exp_avg + part->begin};
}

// Where an element that a rank owns lies in the whole matrix.
static size_t place_of(const struct matrix *m, int rank, size_t element)
{
    int tensor_rank = mesh_index_in(&m->ranks->mesh, MESH_TENSOR, rank);
    return case_whole_element(m->ranks->c, tensor_rank, m->param, m->ranks->parts[rank][m->param].begin + element);
}

// Each rank makes the direction of the elements that it owns. The matrix of all of them is made orthogonal, and each
// rank moves its own.
static void move_matrix(struct matrix *m)
{
    struct whole_step step = {0};
    for (int rank = 0; rank < m->ranks->c->world; rank++) {
        if (!m->ranks->parts[rank][m->param].is_held)
            continue;
        step = step_of(m, rank);
        muon_update.direct(&step, m->own);
        for (size_t i = 0; i < step.count; i++)
            m->x[place_of(m, rank, i)] = m->own[i];
    }
    const float *by = muon_update.transform(&step, m->x);
    for (int rank = 0; rank < m->ranks->c->world; rank++) {
        if (!m->ranks->parts[rank][m->param].is_held)
            continue;
        step = step_of(m, rank);
        for (size_t i = 0; i < step.count; i++)
            m->own[i] = by[place_of(m, rank, i)];
        muon_update.move(&step, m->own);
    }
}

static int update_matrix(struct mesh_ranks *ranks, int param, float coefficient)
{
    const struct case_param *p = &ranks->c->params[param];
    struct matrix m = {.ranks = ranks, .param = param, .coefficient = coefficient};
    m.whole = (struct model_param){
        .shape = {p->shape[0], p->shape[1]}, .shape_rank = 2, .count = p->count, .group = p->group};
    m.own = calloc(p->count + 1, sizeof *m.own);
    m.x = calloc(muon_update.scratch_floats(&m.whole) + 1, sizeof *m.x);
    bool complete = m.own && m.x;
    if (complete)
        move_matrix(&m);
    free(m.own);
    free(m.x);
    return complete ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the matrix %s", p->name);
}

static int update(struct mesh_ranks *ranks, float coefficient)
{
    const struct check_case *c = ranks->c;
    struct adam_scalars scalars[CASE_GROUP_MAX];
    ranks->t++;
    for (int group = 0; group < c->group_count; group++) {
        struct adam_hyper hyper = optimizer_group(ranks->config, group, ranks->t + ranks->skipped, ranks->t);
        TRY(recipe_begin_step(ranks->recipe, &hyper, ranks->t, &ranks->states[group], &scalars[group]));
    }
    for (int param = 0; param < c->param_count; param++)
        if (case_is_muon(c, param) && case_owner(c, param) == param)
            TRY(update_matrix(ranks, param, coefficient));
    for (int rank = 0; rank < c->world; rank++)
        for (int param = 0; param < c->param_count; param++)
            if (ranks->parts[rank][param].is_held && case_is_trained(c, param))
                update_part(ranks, rank, param, &scalars[c->params[param].group], coefficient);
    return ERR_NONE;
}

int mesh_step(struct mesh_ranks *ranks)
{
    const struct config *config = ranks->config;
    double scale = scaler_scale(&ranks->scaler);
    TRY(sum_gradients(ranks));
    uint32_t max_bits = largest(ranks);
    ranks->applied = !config->check_overflow || max_bits < INFINITY_BITS;
    ranks->divisor = optimizer_divisor(config, case_batches(ranks->c), scale);
    if (ranks->c->has_tokens)
        ranks->divisor = (float)(ranks->mean_count * scale);
    TRY(scaler_update(&ranks->scaler, !ranks->applied));
    ranks->skipped += !ranks->applied;
    if (!ranks->applied)
        return ERR_NONE;
    ranks->norm = norm_of(ranks, max_bits) / (double)ranks->divisor;
    return update(ranks, clip_coefficient(config->clip_form, ranks->norm, config->gradient_clipping));
}
