// SPDX-License-Identifier: Apache-2.0
// What single types do unlike all others.
#include "plan/shape/hugging_face_internal.h"

#include "base/err.h"

int hugging_face_bigcode(struct hugging_face_reader *r, struct decoder_shape *out)
{
    bool multi_query = true;
    int code = hugging_face_flag(r, "multi_query", &multi_query);
    out->key_heads = multi_query ? 1 : out->heads;
    return code;
}

int hugging_face_falcon(struct hugging_face_reader *r, struct decoder_shape *out)
{
    bool is_new = false, is_parallel = true;
    size_t norms = 2;
    TRY(hugging_face_flag(r, "new_decoder_architecture", &is_new));
    TRY(hugging_face_flag(r, "parallel_attn", &is_parallel));
    if (is_new)
        TRY(hugging_face_size(r, "num_ln_in_parallel_attn", 2, 2, &norms));
    else
        TRY(hugging_face_bigcode(r, out));
    out->block_norms = is_new ? norms : is_parallel ? 1 : 2;
    out->is_parallel = is_new || is_parallel;
    return ERR_NONE;
}

int hugging_face_opt(struct hugging_face_reader *r, struct decoder_shape *out)
{
    bool norm_before = true, removed = false;
    TRY(hugging_face_size(r, "word_embed_proj_dim", DECODER_SIZE_MAX, out->width, &out->embedding_width));
    TRY(hugging_face_flag(r, "do_layer_norm_before", &norm_before));
    TRY(hugging_face_flag(r, "_remove_final_layer_norm", &removed));
    out->no_final_norm = !norm_before || removed;
    out->positions = out->sequence_length + 2;
    return ERR_NONE;
}

// Two layer norms stay where attention and MLP are computed side by side.
int hugging_face_neox(struct hugging_face_reader *r, struct decoder_shape *out)
{
    out->is_parallel = true;
    return hugging_face_flag(r, "use_parallel_residual", &out->is_parallel);
}

int hugging_face_stablelm(struct hugging_face_reader *r, struct decoder_shape *out)
{
    int code = hugging_face_flag(r, "use_parallel_residual", &out->is_parallel);
    out->block_norms = out->is_parallel ? 1 : 2;
    return code;
}

int hugging_face_latents(struct hugging_face_reader *r, struct decoder_shape *out)
{
    TRY(hugging_face_size(r, "kv_lora_rank", DECODER_SIZE_MAX, 0, &out->key_latent));
    if (hugging_face_has(r, "q_lora_rank"))
        TRY(shape_read_size(&r->object, "q_lora_rank", DECODER_SIZE_MAX, &out->query_latent));
    TRY(hugging_face_size(r, "qk_nope_head_dim", DECODER_SIZE_MAX, 0, &out->head_width));
    TRY(hugging_face_size(r, "qk_rope_head_dim", DECODER_SIZE_MAX, 0, &out->rope_width));
    return hugging_face_size(r, "v_head_dim", DECODER_SIZE_MAX, 0, &out->value_width);
}

int hugging_face_llama_4(struct hugging_face_reader *r, struct decoder_shape *out)
{
    // intermediate_size is an expert's, and that of the shared one.
    out->expert_hidden = out->shared_hidden = out->hidden;
    return hugging_face_size(r, "intermediate_size_mlp", DECODER_SIZE_MAX, 0, &out->hidden);
}

// The key moe_intermediate_size is read by no one.
int hugging_face_hunyuan(struct hugging_face_reader *r, struct decoder_shape *out)
{
    size_t shared = out->shared_hidden / (out->expert_hidden > 0 ? out->expert_hidden : 1);
    (void)r;
    out->expert_hidden = out->experts > 0 ? out->hidden : 0;
    out->shared_hidden = shared * out->expert_hidden;
    return ERR_NONE;
}
