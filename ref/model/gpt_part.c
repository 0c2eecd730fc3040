// SPDX-License-Identifier: Apache-2.0
// How a GPT is cut into parts. Tensor parallelism (Megatron-LM, arXiv:1909.08053, section 3) gives each rank as many of
// the model's blocks: columns of c_attn and c_fc with their biases, rows of the c_proj, rows of the token embedding.
// Everything else every rank has, and the first one counts it. Expert parallelism gives each rank as many experts.
#include "ref/model/gpt_pass.h"

#include "base/err.h"
#include "ref/mesh/mesh.h"

int gpt_check_blocks(const char *name, const struct gpt_shape *shape)
{
    size_t blocks = shape->product_blocks;
    if (blocks == 0 || (blocks & (blocks - 1)) != 0 || shape->head_count % blocks != 0 ||
        shape->vocabulary % blocks != 0)
        return err_set(ERR_USAGE,
                       "%s cannot have %zu blocks: expected a power of two that divides the %zu heads and the "
                       "vocabulary of %zu",
                       name, blocks, shape->head_count, shape->vocabulary);
    if (shape->sequence_parallel > 1)
        return err_set(ERR_USAGE, "%s has sequence_parallel=%zu, expected 1", name, shape->sequence_parallel);
    if (shape->sequence_parallel && (blocks == 1 || shape->sequence_length % blocks != 0))
        return err_set(ERR_USAGE,
                       "%s cannot have sequence parallelism: expected blocks=B, as many as ranks at least, that divide "
                       "the sequence of %zu tokens",
                       name, shape->sequence_length);
    if (blocks > 1 && shape->tile_count > 1)
        return err_set(ERR_USAGE, "%s has both blocks and tiles: leave out one of them", name);
    return ERR_NONE;
}

struct gpt_widths gpt_widths_of(const struct model *model)
{
    const struct gpt_shape *shape = model->shape;
    size_t parts = model->part ? (size_t)model->part->place.tensor_parts : 1;
    return (struct gpt_widths){
        .parts = parts,
        .part = model->part ? (size_t)model->part->place.tensor : 0,
        .blocks = shape->product_blocks / parts,
        .heads = shape->head_count / parts,
        .heads_width = shape->width / parts,
        .tile_width = 4 * shape->width / shape->tile_count / parts,
        .vocabulary = shape->vocabulary / parts,
    };
}

size_t gpt_stream_rows(const struct model *model, size_t sequence_count)
{
    const struct gpt_shape *shape = model->shape;
    size_t rows = sequence_count * shape->sequence_length;
    return shape->sequence_parallel ? rows / gpt_widths_of(model).parts : rows;
}

int gpt_place(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count)
{
    const struct gpt_shape *shape = whole->shape;
    const struct mesh mesh = {1, 1, place->tensor_parts, place->pipeline_parts, place->expert_parts};
    int blocks = (int)shape->block_count / place->pipeline_parts, each = gpt_layers_a_block(shape);
    bool first = place->pipeline == 0, last = place->pipeline == place->pipeline_parts - 1;
    *first_layer = first ? 0 : 1 + place->pipeline * blocks * each;
    *layer_count = blocks * each + first + last;
    if (shape->product_blocks % (size_t)place->tensor_parts != 0)
        return err_set(ERR_USAGE,
                       "mesh tensor=%d does not divide the %zu blocks of the model %s: a model with blocks=%d has "
                       "products that can be cut so",
                       place->tensor_parts, shape->product_blocks, whole->name, place->tensor_parts);
    return mesh_check_model(&mesh, (int)shape->block_count, (int)shape->head_count, whole->expert_count);
}

// Of a matrix whose columns are cut, A is whole and B has as many rows; of one whose rows are cut, A has as many
// columns and B is whole. Returns the dimension that is cut; -1: none.
static int cut_adapter(const struct model_place *place, int role, struct model_slice *slice,
                       const struct model_param *param)
{
    int module = (role - BLOCK_PARAMS) / 2;
    bool is_b = (role - BLOCK_PARAMS) % 2, by_column = module == MODULE_QKV || module == MODULE_FC;
    if (is_b != by_column)
        return -1;
    size_t count = !is_b ? param->shape[0] : module == MODULE_QKV ? 3 : 1;
    model_slice_cut(place, count, param->count / count, slice);
    return is_b ? 0 : 1;
}

// The same for any parameter of a GPT; role -1: it is in no block.
static int cut_param(const struct gpt_shape *shape, const struct model_place *place, int role,
                     struct model_slice *slice, const struct model_param *param)
{
    size_t rows = param->shape[0];
    if (slice->param == TOKEN_WEIGHT || role == PROJ_WEIGHT || role == OUT_WEIGHT)
        model_slice_cut(place, 1, param->count, slice);
    else if (role == QKV_WEIGHT || role == QKV_BIAS)
        model_slice_cut(place, role == QKV_BIAS ? 3 : 3 * rows, shape->width, slice);
    else if (role == FC_WEIGHT || role == FC_BIAS)
        model_slice_cut(place, role == FC_BIAS ? 1 : rows, 4 * shape->width, slice);
    else
        return role >= BLOCK_PARAMS && role != ROUTER_ROLE ? cut_adapter(place, role, slice, param) : -1;
    return role == QKV_WEIGHT || role == FC_WEIGHT;
}

int gpt_slice(const struct model *whole, const struct model_place *place, struct model_slice *slice,
              struct model_param *param)
{
    bool in_block = slice->param >= FIRST_BLOCK_PARAM && slice->param < whole->param_count - 2;
    struct gpt_block_param b = {.role = -1};
    if (in_block)
        b = gpt_block_param_of(whole->shape, slice->param);
    slice->counted = place->tensor == 0;
    if (b.expert > 0 && (b.expert - 1) / (whole->expert_count / place->expert_parts) != place->expert) {
        slice->block_count = 0;
        return ERR_NONE;
    }
    int dimension = place->tensor_parts > 1 ? cut_param(whole->shape, place, b.role, slice, param) : -1;
    if (dimension >= 0) {
        param->shape[dimension] /= (size_t)place->tensor_parts;
        slice->counted = true;
    }
    return ERR_NONE;
}

// A block's sums over ranks. Recomputation ends before the MLP's output, and behind the answers of experts.
static void block_exchange(const struct gpt_shape *shape, size_t rows, bool backward, bool again,
                           struct model_exchange *e)
{
    size_t experts = shape->experts.count, mlps = experts > 0 ? 0 : 1, adapted[MODULE_COUNT];
    bool trains_all = backward && shape->lora.rank == 0;
    for (int i = 0; i < MODULE_COUNT; i++)
        adapted[i] = lora_adapts(&shape->lora, gpt_modules[i]);
    e->sums[MODEL_SUM_STREAM] = (struct model_sum){1 + mlps + again, rows * shape->width};
    // Gathers of both norms' outputs, in backward those that recomputation has not left there, and of two gradients.
    e->gathers = backward ? 4 + again : 2;
    e->sums[MODEL_SUM_NORMS] = (struct model_sum){trains_all ? 2 : 0, 2 * shape->width};
    e->sums[MODEL_SUM_BIASES] = (struct model_sum){trains_all ? 1 + mlps : 0, shape->width};
    e->sums[MODEL_SUM_SLOTS] = (struct model_sum){experts * (1 + again), gpt_expert_slots(shape, rows) * shape->width};
    // Forward and backward sum u of matrices whose rows are cut, and backward du of the others.
    e->sums[MODEL_SUM_ADAPTERS] = (struct model_sum){
        adapted[MODULE_PROJ] * (1 + again) + adapted[MODULE_OUT] +
            (backward ? adapted[MODULE_QKV] + adapted[MODULE_FC] : 0),
        rows * shape->lora.rank,
    };
}

struct model_exchange gpt_exchange(const struct model *model, int layer, size_t sequence_count, bool backward,
                                   bool checkpointing)
{
    const struct gpt_shape *shape = model->shape;
    size_t rows = sequence_count * shape->sequence_length;
    bool again = backward && checkpointing;
    struct model_exchange e = {0};
    switch (gpt_layer_of(model, layer).kind) {
    case GPT_EMBEDDING:
        e = model_exchange_of_embedding(rows * shape->width, backward);
        break;
    case GPT_BLOCK:
        block_exchange(shape, rows, backward, again, &e);
        break;
    case GPT_HEAD:
        e = model_exchange_of_head(rows, rows * shape->width, backward, again);
        e.sums[MODEL_SUM_NORMS] = (struct model_sum){backward && shape->lora.rank == 0, 2 * shape->width};
        break;
    }
    model_exchange_divide(&e, shape->sequence_parallel ? gpt_stream_rows(model, sequence_count) * shape->width : 0);
    return e;
}
