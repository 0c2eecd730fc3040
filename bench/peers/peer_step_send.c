// SPDX-License-Identifier: Apache-2.0
// The setting has "preset", "dtype", "world", "threads" of each rank, "steps" per turn, "turns", "sequences" per rank,
// the model's "layers", "heads", "length" and "params" (names and shapes), the hyperparameters, "clip", "nvme_path",
// and "replicate" and "shard" of the mesh. The parameters in fp32 follow, then the tokens of all steps as uint16,
// [turns x steps][world][sequences][length + 1].
#include "bench/peers/peer_step.h"
#include "ref/model/gpt.h"
#include "ref/model/llama/llama.h"

#include "base/err.h"

#include <stdlib.h>

int peer_step_threads(const struct peer_options *options)
{
    return options->shared.thread_count > 0 ? options->shared.threads[0] : 1;
}

static json_t *params_json(const struct model *model)
{
    json_t *params = json_array();
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *p = &model->params[i];
        json_t *shape = json_array();
        for (int d = 0; d < p->shape_rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)p->shape[d]));
        json_array_append_new(params, json_pack("{s:s, s:o}", "name", p->name, "shape", shape));
    }
    return params;
}

static json_t *setting_json(const struct peer_step_start *start)
{
    const struct llama_sizes *llama = llama_sizes_of(start->model);
    const struct gpt_shape *gpt = llama ? NULL : start->model->shape;
    const struct config *config = start->config;
    return json_pack(
        "{s:s, s:s?, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:[f, f], s:f, s:f, s:f, s:s, s:i, s:i}",
        "part", "step", "preset", start->options->preset, "dtype", dtype_name(config->precision), "threads",
        peer_step_threads(start->options), "world", start->options->world, "steps", (json_int_t)start->turn_steps,
        "turns", (json_int_t)start->turns, "sequences", (json_int_t)config->micro_batch, "layers",
        (json_int_t)(llama ? llama->layers : gpt->block_count), "heads",
        (json_int_t)(llama ? llama->heads : gpt->head_count), "length", (json_int_t)start->model->sequence_length,
        "params", params_json(start->model), "lr", config->adam.lr, "betas", config->adam.beta1, config->adam.beta2,
        "eps", config->adam.eps, "weight_decay", config->adam.weight_decay, "clip", config->gradient_clipping,
        "nvme_path", start->options->shared.storage.paths[0], "replicate", start->mesh->replicate, "shard",
        start->mesh->shard);
}

static int send_params(const struct peer_step_start *start, struct peer *peer)
{
    for (int i = 0; i < start->model->param_count; i++) {
        size_t count = start->model->params[i].count;
        float *values = malloc(count * sizeof *values + 1);
        if (!values)
            return err_set(ERR_MEMORY, "no memory for %s", start->model->params[i].name);
        int code = model_initialise(start->model, i, PEER_STEP_SEED, values);
        if (code == ERR_NONE)
            code = peer_send(peer, values, count * sizeof *values);
        free(values);
        TRY(code);
    }
    return ERR_NONE;
}

static int send_tokens(const struct peer_step_start *start, struct peer *peer)
{
    size_t sequences = start->config->micro_batch, length = start->model->sequence_length;
    size_t count = sequences * (length + 1);
    uint16_t *tokens = malloc(count * sizeof *tokens);
    int code = tokens ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a batch");
    for (uint64_t step = 1; step <= start->turns * start->turn_steps && code == ERR_NONE; step++)
        for (int rank = 0; rank < start->options->world && code == ERR_NONE; rank++) {
            code = text_batch(start->text, PEER_STEP_SEED, step, (uint64_t)rank, sequences, length, tokens);
            if (code == ERR_NONE)
                code = peer_send(peer, tokens, count * sizeof *tokens);
        }
    free(tokens);
    return code;
}

int peer_step_send(const struct peer_step_start *start, struct peer *peer)
{
    TRY(peer_send_line(peer, setting_json(start)));
    TRY(send_params(start, peer));
    TRY(send_tokens(start, peer));
    return peer_ready(peer);
}
