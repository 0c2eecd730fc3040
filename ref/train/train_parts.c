// SPDX-License-Identifier: Apache-2.0
// Expert parallelism: the parts of the model that the ranks of an expert group hold.
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <stdlib.h>

static struct mesh mesh_of(const struct train_rank *rank)
{
    return config_mesh(rank->setting->config, rank->setting->world);
}

int train_parts_open(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    const struct mesh mesh = mesh_of(rank);
    rank->model = setting->model;
    TRY(mesh_check_model(&mesh, 0, 0, setting->model->expert_count));
    if (setting->model->expert_count > 0 && setting->accelerator)
        return err_set(ERR_USAGE, "the model %s: GPUs have no mixtures of experts; leave out --device cuda",
                       setting->model->name);
    if (mesh.expert == 1)
        return ERR_NONE;
    rank->parts = calloc((size_t)mesh.expert, sizeof(struct model *));
    if (!rank->parts)
        return err_set(ERR_MEMORY, "no memory for %d parts of a model", mesh.expert);
    for (int i = 0; i < mesh.expert; i++)
        TRY(model_open_experts(setting->model, i, mesh.expert, &rank->parts[i]));
    rank->model = rank->parts[mesh_index_in(&mesh, MESH_EXPERT, rank->rank)];
    return ERR_NONE;
}

void train_parts_close(struct train_rank *rank)
{
    const struct mesh mesh = mesh_of(rank);
    for (int i = 0; rank->parts && i < mesh.expert; i++)
        model_close_experts(rank->parts[i]);
    free(rank->parts);
}

int train_part_count(const struct train_rank *rank, const struct bucket *bucket)
{
    return bucket->expert ? mesh_of(rank).expert : 1;
}

int train_part_own(const struct train_rank *rank, const struct bucket *bucket)
{
    const struct mesh mesh = mesh_of(rank);
    return bucket->expert ? mesh_index_in(&mesh, MESH_EXPERT, rank->rank) : 0;
}

int train_part_param(const struct train_rank *rank, int part, int param)
{
    return rank->parts ? model_whole_param(rank->parts[part], param) : param;
}
