// SPDX-License-Identifier: Apache-2.0
#include "conformance/cases/case_mesh.h"

#include <assert.h>
#include <string.h>

const char *const case_part_names[] = {[PART_WHOLE] = "whole", [PART_CUT] = "cut", [PART_PARTIAL] = "partial", NULL};

const char *const case_option_names[] = {
    [OPTION_REPLICATE] = "replicate",
    [OPTION_TENSOR] = "tensor",
    [OPTION_PIPELINE] = "pipeline",
    [OPTION_EXPERT] = "expert",
    [OPTION_LORA] = "lora",
    [OPTION_TOKEN_MEAN] = "token_mean",
    [OPTION_MUON] = "muon",
    [OPTION_SEQUENCE] = "sequence",
    [OPTION_FP8_GATHER] = "fp8_gather",
    [OPTION_COUNT] = NULL,
};

bool case_has_mesh(const struct check_case *c)
{
    return c->mesh.shard > 0;
}

struct mesh case_mesh(const struct check_case *c)
{
    return case_has_mesh(c) ? c->mesh : (struct mesh){1, c->world, 1, 1, 1};
}

int case_batches(const struct check_case *c)
{
    struct mesh mesh = case_mesh(c);
    return mesh_group_size(&mesh, MESH_DATA) / case_sequence_ranks(c);
}

int case_sequence_ranks(const struct check_case *c)
{
    return c->sequence > 1 ? c->sequence : 1;
}

int case_sequence_rank(const struct check_case *c, int rank)
{
    struct mesh mesh = case_mesh(c);
    return mesh_index_in(&mesh, MESH_DATA, rank) % case_sequence_ranks(c);
}

void case_logical(const struct check_case *c, struct check_case *out)
{
    *out = *c;
    out->world = case_batches(c);
    out->mesh = (struct mesh){0};
    out->sequence = 0;
}

static int expert_count(const struct check_case *c)
{
    int count = 0;
    for (int i = 0; i < c->param_count; i++)
        if (c->params[i].placement.is_expert && c->params[i].placement.expert >= count)
            count = c->params[i].placement.expert + 1;
    return count;
}

bool case_holds(const struct check_case *c, int rank, int use)
{
    const struct case_placement *placement = &c->params[use].placement;
    struct mesh mesh = case_mesh(c);
    if (placement->pipeline != mesh_index_in(&mesh, MESH_PIPELINE, rank))
        return false;
    if (!placement->is_expert)
        return true;
    int each = expert_count(c) / mesh.expert;
    return placement->expert / each == mesh_index_in(&mesh, MESH_EXPERT, rank);
}

static bool is_cut(const struct check_case *c, int param)
{
    return c->params[param].placement.part == PART_CUT;
}

void case_part_shape(const struct check_case *c, int param, size_t shape[CASE_SHAPE_MAX])
{
    const struct case_param *from = &c->params[param];
    memcpy(shape, from->shape, sizeof from->shape);
    if (is_cut(c, param))
        shape[from->placement.dimension] /= (size_t)case_mesh(c).tensor;
}

size_t case_part_count(const struct check_case *c, int param)
{
    return c->params[param].count / (is_cut(c, param) ? (size_t)case_mesh(c).tensor : 1);
}

size_t case_whole_element(const struct check_case *c, int tensor_rank, int param, size_t element)
{
    size_t part[CASE_SHAPE_MAX], inner = 1;
    int dimension = c->params[param].placement.dimension;
    if (!is_cut(c, param))
        return element;
    case_part_shape(c, param, part);
    for (int i = dimension + 1; i < c->params[param].shape_rank; i++)
        inner *= part[i];
    size_t run = part[dimension] * inner;  // elements of a part that follow one another
    return (element / run * (size_t)case_mesh(c).tensor + (size_t)tensor_rank) * run + element % run;
}

// A rank's share of x among `ranks`: twice x on one rank, -x on the next, and nothing on others, turned by element. All
// sums of shares are exact.
static float share(float x, int rank, int ranks, size_t element)
{
    size_t place = ((size_t)rank + element) % (size_t)ranks;
    return ranks == 1 ? x : place == 0 ? 2 * x : place == 1 ? -x : 0;
}

void case_part_gradient(const struct check_case *c, const struct case_values *values, int step, int micro, int rank,
                        int use, float *out)
{
    struct mesh mesh = case_mesh(c);
    const struct case_placement *placement = &c->params[use].placement;
    int tensor_rank = mesh_index_in(&mesh, MESH_TENSOR, rank), sequence = case_sequence_ranks(c);
    int ranks = placement->is_expert ? mesh.expert : 1, data = mesh_index_in(&mesh, MESH_DATA, rank);
    int first = data / ranks * ranks;
    assert(case_holds(c, rank, use));
    for (size_t i = 0; i < case_part_count(c, use); i++) {
        size_t element = case_whole_element(c, tensor_rank, use, i);
        float sum = 0;
        for (int k = first; k < first + ranks; k++) {
            float of_batch = case_gradient(values, step, micro, k / sequence, use)[element];
            float own = share(of_batch, k % sequence, sequence, element);
            sum = k == first ? own : sum + own;
        }
        out[i] = placement->part == PART_PARTIAL ? share(sum, tensor_rank, mesh.tensor, element) : sum;
    }
}

unsigned case_options(const struct check_case *c)
{
    struct mesh mesh = case_mesh(c);
    bool cut = mesh.tensor > 1 || mesh.pipeline > 1 || mesh.expert > 1 || c->sequence > 1;
    bool lora = false, muon = false;
    for (int i = 0; i < c->param_count; i++)
        lora |= c->params[i].is_adapter;
    for (int i = 0; i < c->group_count; i++)
        muon |= c->groups[i].muon;
    return (unsigned)(case_has_mesh(c) && (mesh.replicate > 1 || !cut)) << OPTION_REPLICATE |
           (unsigned)(mesh.tensor > 1) << OPTION_TENSOR | (unsigned)(mesh.pipeline > 1) << OPTION_PIPELINE |
           (unsigned)(mesh.expert > 1) << OPTION_EXPERT | (unsigned)lora << OPTION_LORA |
           (unsigned)c->has_tokens << OPTION_TOKEN_MEAN | (unsigned)muon << OPTION_MUON |
           (unsigned)(c->sequence > 1) << OPTION_SEQUENCE | (unsigned)c->gathers_e4m3 << OPTION_FP8_GATHER;
}
