// SPDX-License-Identifier: Apache-2.0
// A rank's place on a mesh with tensor, pipeline or expert parallelism: its part of the model, the ranks that train the
// same part, and the ranks that have the same micro-batches. Elsewhere the part is the whole model.
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <stdlib.h>

// Recipes that treat a tensor's last elements differently would see those of a slice.
static int check_recipe(const struct train_rank *rank)
{
    const char *name = rank->setting->config->recipe;
    const struct recipe *recipe = recipe_find(name);
    if (recipe && recipe->lanes > 0 && rank->mesh.tensor > 1)
        return err_set(ERR_USAGE,
                       "recipe %s treats the last elements of a tensor differently, and tensor parallelism moves them: "
                       "choose another recipe, or a mesh without tensor",
                       name);
    return ERR_NONE;
}

// The number of the part that a rank trains, and the first rank that trains it.
static int part_of(const struct mesh *mesh, int rank)
{
    return mesh_index_in(mesh, MESH_PIPELINE, rank) * mesh->tensor + mesh_index_in(mesh, MESH_TENSOR, rank);
}

static int first_rank_of(const struct mesh *mesh, int part)
{
    return part / mesh->tensor * mesh->tensor * mesh_group_size(mesh, MESH_DATA) + part % mesh->tensor;
}

// The ranks that agree with this one in a number.
typedef int number_of(const struct mesh *mesh, int rank);

static int data_of(const struct mesh *mesh, int rank)
{
    return mesh_index_in(mesh, MESH_DATA, rank);
}

static int tensor_group_of(const struct mesh *mesh, int rank)
{
    return mesh_group_of(mesh, MESH_TENSOR, rank);
}

static int pipeline_group_of(const struct mesh *mesh, int rank)
{
    return mesh_group_of(mesh, MESH_PIPELINE, rank);
}

// Of experts that are whole on each rank of tensor parallelism.
static int token_group_of(const struct mesh *mesh, int rank)
{
    return rank / (mesh->tensor * mesh->expert);
}

static int split(struct train_rank *rank, enum ledger_group group, number_of *number, struct comm **out)
{
    const struct mesh *mesh = &rank->mesh;
    int world = mesh_world(mesh), members[world], count = 0;
    for (int i = 0; i < world; i++)
        if (number(mesh, i) == number(mesh, rank->rank))
            members[count++] = i;
    TRY(comm_split(rank->comm, members, count, out));
    comm_count_in(*out, &rank->ledger);
    comm_count_for(*out, group);
    return ERR_NONE;
}

int train_data_ranks(const struct train_setting *setting)
{
    const struct mesh mesh = config_mesh(setting->config, setting->world);
    return mesh_group_size(&mesh, MESH_DATA);
}

// A mesh with tensor or pipeline parallelism has these requirements.
static int check_parts(const struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    if (setting->accelerator)
        return err_set(ERR_USAGE, "tensor and pipeline parallelism run in host memory alone: leave out the device");
    return check_recipe(rank);
}

// The ranks of an expert group have different experts, and are ranks of data parallelism all the same.
static int open_part(struct train_rank *rank)
{
    const struct mesh *mesh = &rank->mesh, experts = {1, 1, 1, 1, mesh->expert};
    const struct model_place place = {
        mesh_index_in(mesh, MESH_TENSOR, rank->rank),   mesh->tensor,
        mesh_index_in(mesh, MESH_PIPELINE, rank->rank), mesh->pipeline,
        mesh_index_in(mesh, MESH_EXPERT, rank->rank),   mesh->expert,
    };
    TRY(mesh_check_model(&experts, 0, 0, rank->model->expert_count));
    TRY(model_part_open(rank->setting->model, &place, &rank->part));
    rank->model = &rank->part->model;
    return ERR_NONE;
}

int train_part_open(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    const struct mesh *mesh = &rank->mesh;
    rank->mesh = config_mesh(setting->config, setting->world);
    rank->data_rank = mesh_index_in(mesh, MESH_DATA, rank->rank);
    rank->model = setting->model;
    rank->data_comm = rank->comm;
    if (setting->model->on_host && setting->accelerator)
        return err_set(ERR_USAGE,
                       "the model %s: Llamas, blocks and experts run in host memory alone: leave out the device",
                       setting->model->name);
    if (mesh_parts(mesh) > 1)
        TRY(check_parts(rank));
    if (mesh_parts(mesh) > 1 || mesh->expert > 1)
        TRY(open_part(rank));
    if (mesh_parts(mesh) == 1)
        return ERR_NONE;
    TRY(split(rank, GROUP_MODEL, data_of, &rank->parts_comm));
    TRY(split(rank, GROUP_SHARD, part_of, &rank->data_comm));
    if (mesh->tensor > 1)
        TRY(split(rank, GROUP_TENSOR, tensor_group_of, &rank->tensor_comm));
    if (mesh->tensor > 1 && setting->config->uses_muon)
        TRY(split(rank, GROUP_TENSOR, tensor_group_of, &rank->slices_comm));
    if (rank->model->whole_experts)
        TRY(split(rank, GROUP_EXPERT, token_group_of, &rank->token_comm));
    return mesh->pipeline > 1 ? split(rank, GROUP_PIPELINE, pipeline_group_of, &rank->pipeline_comm) : ERR_NONE;
}

void train_part_close(struct train_rank *rank)
{
    comm_close(rank->token_comm);
    comm_close(rank->pipeline_comm);
    comm_close(rank->slices_comm);
    comm_close(rank->tensor_comm);
    comm_close(rank->parts_comm);
    if (rank->data_comm != rank->comm)
        comm_close(rank->data_comm);
    model_part_close(rank->part);
}

// The bucket's facts and pieces, which the first rank of its part tells all others.
static int tell_bucket(struct train_rank *rank, struct train_bucket *b, struct train_piece **pieces)
{
    const struct layout *layout = &rank->stage.layout;
    const struct bucket *own = b->mine ? &layout->buckets[b->index] : NULL;
    uint64_t facts[] = {own ? own->frozen : 0, own ? own->count : 0, own ? (uint64_t)own->param_count : 0};
    if (rank->part)
        TRY(comm_broadcast(rank->comm, facts, sizeof facts, b->first_rank));
    b->frozen = facts[0] != 0;
    b->count = facts[1];
    b->piece_count = (int)facts[2];
    struct train_piece *all = *pieces = calloc((size_t)b->piece_count + 1, sizeof *all);
    if (!all)
        return err_set(ERR_MEMORY, "no memory for the parameters of a bucket");
    for (int i = 0; own && i < own->param_count; i++) {
        int param = own->params[i];
        all[i].slice = rank->part ? rank->part->slices[param] : model_slice_whole(rank->model, param);
        all[i].offset = layout->offset_of[param];
    }
    b->pieces = all;
    return rank->part ? comm_broadcast(rank->comm, all, (size_t)b->piece_count * sizeof *all, b->first_rank) : ERR_NONE;
}

static int visit_bucket(struct train_rank *rank, struct train_bucket *b, train_visit *visit, void *context)
{
    struct train_piece *pieces = NULL;
    int code = tell_bucket(rank, b, &pieces);
    if (code == ERR_NONE)
        code = visit(rank, b, context);
    free(pieces);
    return code;
}

// A bucket of a part that has it once, or once for each part of its experts: these lie in the same places.
static int visit_experts(struct train_rank *rank, struct train_bucket b, train_visit *visit, void *context)
{
    const struct mesh *mesh = &rank->mesh;
    int first = b.first_rank, expert = b.mine && rank->stage.layout.buckets[b.index].expert;
    bool mine = b.mine;
    if (mesh->expert > 1)
        TRY(comm_broadcast(rank->comm, &expert, sizeof expert, first));
    for (int part = 0; part < (expert ? mesh->expert : 1); part++) {
        b.first_rank = first + part * mesh->tensor;
        b.mine = mine && (!expert || part == rank->part->place.expert);
        TRY(visit_bucket(rank, &b, visit, context));
    }
    return ERR_NONE;
}

int train_each_bucket(struct train_rank *rank, train_visit *visit, void *context)
{
    int own_part = part_of(&rank->mesh, rank->rank);
    for (int part = 0; part < mesh_parts(&rank->mesh); part++) {
        struct train_bucket b = {.first_rank = first_rank_of(&rank->mesh, part), .mine = part == own_part};
        int count = rank->stage.layout.bucket_count;
        if (rank->part)
            TRY(comm_broadcast(rank->comm, &count, sizeof count, b.first_rank));
        for (b.index = 0; b.index < count; b.index++)
            TRY(visit_experts(rank, b, visit, context));
    }
    return ERR_NONE;
}
