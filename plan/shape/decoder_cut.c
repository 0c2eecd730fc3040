// SPDX-License-Identifier: Apache-2.0
// How a decoder is cut into parts, as a GPT is (ref/model/gpt_part.c): tensor parallelism (Megatron-LM,
// arXiv 1909.08053, section 3) cuts matrices from the stream by rows, those back to it by columns, and vocabularies by
// rows; every rank has routers, norms and projections to latent vectors. Expert parallelism gives each rank as many
// experts, which tensor parallelism cuts as it cuts an MLP, or divides among its ranks, too
// (expert_tensor_parallel_size 1).
//
// A degree divides the heads of keys and values, or is a multiple of them (decoder_key_copies); others are refused, as
// Megatron-LM refuses them (core/transformer/transformer_config.py).
#include "base/err.h"
#include "plan/shape/decoder_internal.h"
#include "ref/mesh/mesh.h"
#include "ref/model/part.h"

size_t decoder_stage_blocks(size_t blocks, size_t stages, size_t stage)
{
    if (blocks % stages == 0)
        return blocks / stages;
    size_t all = blocks + 2, own = all / stages + (stage < all % stages),
           ends = (size_t)(stage == 0) + (size_t)(stage == stages - 1);
    return own > ends ? own - ends : 0;
}

static int check_tensor(const struct model *whole, size_t parts)
{
    const struct decoder_shape *s = &decoder_of(whole)->shape;
    const struct {
        const char *name;
        size_t count;
    } cuts[] = {
        {"attention heads", s->heads},
        {"heads of keys and values", s->key_latent > 0 || parts % s->key_heads == 0 ? 0 : s->key_heads},
        {"channels of keys", s->key_latent > 0 ? 0 : decoder_key_width(s)},
        {"heads of state spaces", s->state.heads},
        {"hidden channels", s->hidden},
        {"hidden channels of an expert", s->experts > 0 && !s->whole_experts ? s->expert_hidden : 0},
        {"hidden channels of shared experts", s->shared_hidden},
        {"tokens of a sequence", s->sequence_parallel ? s->sequence_length : 0},
        {"tokens of the vocabulary", s->vocabulary},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++)
        if (cuts[i].count % parts != 0)
            return err_set(ERR_USAGE,
                           "mesh tensor=%zu does not divide the %zu %s of the model %s: choose a degree that does",
                           parts, cuts[i].count, cuts[i].name, whole->name);
    return ERR_NONE;
}

int decoder_place(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count)
{
    const struct mesh experts = {1, 1, 1, 1, place->expert_parts * (whole->whole_experts ? place->tensor_parts : 1)};
    size_t blocks = decoder_of(whole)->shape.blocks, stages = (size_t)place->pipeline_parts;
    bool first = place->pipeline == 0, last = place->pipeline == place->pipeline_parts - 1;
    for (size_t stage = 0; stage < stages; stage++)
        if (decoder_stage_blocks(blocks, stages, stage) == 0)
            return err_set(ERR_USAGE, "mesh pipeline=%zu leaves a stage without blocks: the model %s has %zu", stages,
                           whole->name, blocks);
    *first_layer = first ? 0 : 1;
    for (int stage = 0; stage < place->pipeline; stage++)
        *first_layer += (int)decoder_stage_blocks(blocks, stages, (size_t)stage);
    *layer_count = (int)decoder_stage_blocks(blocks, stages, (size_t)place->pipeline) + first + last;
    TRY(check_tensor(whole, (size_t)place->tensor_parts));
    return mesh_check_model(&experts, 0, 0, whole->expert_count);
}

// Vectors for all heads lie one after the other here, as their sizes alone matter.
int decoder_slice(const struct model *whole, const struct model_place *place, struct model_slice *slice,
                  struct model_param *param)
{
    const struct decoder_role role = decoder_of(whole)->roles[slice->param];
    bool is_own = whole->whole_experts && role.expert > 0;
    int ranks = is_own ? place->tensor_parts : 1, index = place->expert * ranks + (is_own ? place->tensor : 0);
    slice->counted = place->tensor == 0 || is_own;
    if (role.expert > 0 && (role.expert - 1) / (whole->expert_count / (place->expert_parts * ranks)) != index) {
        slice->block_count = 0;
        return ERR_NONE;
    }
    if (place->tensor_parts == 1 || role.cut == DECODER_WHOLE || is_own)
        return ERR_NONE;
    bool by_column = role.cut == DECODER_CUT_COLUMNS;
    size_t blocks = by_column ? param->shape[0] : 1;
    model_slice_cut(place, blocks, param->count / blocks, slice);
    param->shape[by_column] /= (size_t)place->tensor_parts;
    slice->counted = true;
    return ERR_NONE;
}

size_t decoder_stream_rows(const struct model *model, size_t sequence_count)
{
    size_t rows = sequence_count * model->sequence_length;
    return model->sequence_parallel ? rows / decoder_tensor_parts(model) : rows;
}

// Every token is sent to each of its experts, which all have as many tokens: none is dropped. Ranks with whole experts
// send the tokens that they have of the sequence.
size_t decoder_token_bytes(const struct model *model, int layer, size_t sequence_count)
{
    const struct decoder *decoder = decoder_of(model);
    const struct decoder_shape *s = &decoder->shape;
    int whole = decoder_whole_layer(model, layer);
    if (!decoder_is_block(decoder, whole) || s->block[whole - 1].mlp != DECODER_MLP_EXPERTS)
        return 0;
    size_t own = decoder_expert_ranks(model), ranks = own * (model->part ? (size_t)model->part->place.expert_parts : 1);
    size_t rows = sequence_count * s->sequence_length / own * s->experts_used;
    return (rows + ranks - 1) / ranks * s->width * sizeof(float);
}

void decoder_border(const struct model_run *run, struct model_border *out)
{
    float *memory = run->memory;
    size_t values = decoder_stream_rows(run->model, run->sequence_count) * decoder_of(run->model)->shape.width;
    *out = (struct model_border){
        .input = memory, .output = memory + values, .gradient = memory + 2 * values, .bytes = values * sizeof *memory};
}

// A block's sums over ranks: behind attention and behind a dense MLP or a shared one, in backward of the gradients of
// their inputs; of experts' answers, unless experts are whole. Where forward is computed again, it ends before the
// MLP's output. Blocks whose attention and MLP have the same input add both before the sum (GPT-NeoX,
// megatron/model/transformer.py).
static struct model_exchange block_exchange(const struct decoder_shape *s, const struct decoder_block *b, size_t rows,
                                            bool backward, bool again)
{
    struct model_exchange e = {0};
    bool mixes = !b->has_no_attention || b->has_state, has_experts = b->mlp == DECODER_MLP_EXPERTS;
    bool has_mlp = b->mlp == DECODER_MLP_DENSE || (has_experts && s->shared_hidden > 0);
    bool is_joint = s->is_parallel && mixes && b->mlp == DECODER_MLP_DENSE, trains = backward && s->lora_rank == 0;
    bool cuts_experts = has_experts && !s->whole_experts;
    size_t inputs = (size_t)mixes + (has_mlp || cuts_experts) - is_joint;
    e.sums[MODEL_SUM_STREAM] =
        (struct model_sum){(size_t)mixes + has_mlp - is_joint + (again && mixes && !is_joint), rows * s->width};
    e.sums[MODEL_SUM_SLOTS] = (struct model_sum){cuts_experts ? 1 + again : 0, rows * s->experts_used * s->width};
    // Gathers of the norms' outputs, in backward those that recomputation has not left there, and of two gradients.
    e.gathers = backward ? 2 * inputs + (again && mixes) : inputs;
    e.sums[MODEL_SUM_NORMS] = (struct model_sum){trains ? s->block_norms : 0, s->norm_vectors * s->width};
    e.sums[MODEL_SUM_BIASES] =
        (struct model_sum){trains ? (size_t)s->output_bias + (s->mlp_biases && has_mlp) : 0, s->width};
    return e;
}

struct model_exchange decoder_exchange(const struct model *model, int layer, size_t sequence_count, bool backward,
                                       bool checkpointing)
{
    const struct decoder *decoder = decoder_of(model);
    const struct decoder_shape *s = &decoder->shape;
    size_t rows = sequence_count * s->sequence_length, stream = rows * s->width;
    bool again = backward && checkpointing;
    size_t parts = decoder_tensor_parts(model);
    int whole = decoder_whole_layer(model, layer);
    struct model_exchange e;
    if (whole == 0) {
        e = model_exchange_of_embedding(stream, backward);
    } else if (decoder_is_block(decoder, whole)) {
        e = block_exchange(s, &s->block[whole - 1], rows, backward, again);
        if (decoder_key_copies(s, parts) > 1 && !s->block[whole - 1].has_no_attention)
            e.gathered_elements = (1 + again) * rows * (decoder_query_width(s) + 2 * decoder_key_width(s)) / parts;
    } else {
        e = model_exchange_of_head(rows, stream, backward, again);
        e.sums[MODEL_SUM_NORMS] =
            (struct model_sum){backward && s->lora_rank == 0 && !s->no_final_norm, s->norm_vectors * s->width};
    }
    model_exchange_divide(&e, s->sequence_parallel ? decoder_stream_rows(model, sequence_count) * s->width : 0);
    return e;
}
