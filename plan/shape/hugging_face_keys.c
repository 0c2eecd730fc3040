// SPDX-License-Identifier: Apache-2.0
// Keys that change neither the shape nor the work of training: names of tokens and files, initial values, positions
// without parameters, generation, scales of activations, losses' coefficients, other programs' settings. Any other key
// that was not read is named in a note.
#include "plan/shape/hugging_face_internal.h"

#include <stdio.h>
#include <string.h>

// A word that ends in '*' denotes all keys that begin with it; one that begins so, all that end with it.
static const char quiet[] =
    "_* *_token_id *_token_ids *_token_index *_eps *_epsilon *_map *_std *_multiplier *_multipliers *_range "
    "*_gain *_coef *_coeff *_implementation *_id *_ids architectures auto_map model_type transformers_version "
    "torch_dtype dtype use_cache rope_* rotary_* partial_rotary_factor* use_rope alibi no_bias expansion_ratio "
    "bos_token* eos_token* pad_token* activation* hidden_act* hidden_activation mlp_hidden_act mamba_hidden_act "
    "afn initializer_* init_* logit_* logits_* final_logit_softcapping attn_logit_softcapping "
    "query_pre_attn_scalar attention_multiplier residual_multiplier embedding_multiplier logits_scaling "
    "pretraining_tp scoring_func topk_* n_group norm_topk_prob routed_scaling_factor router_* "
    "output_router_logits aux_loss_alpha seq_aux ep_size norm_eps layer_norm_eps* rms_norm* norm_type "
    "attn_config task_specific_params summary_* scale_attn* scale_attention* reorder_and_upcast_attn "
    "is_encoder_decoder is_decoder is_causal add_cross_attention cross_attention_hidden_size "
    "chunk_size_feed_forward return_dict output_hidden_states output_attentions use_return_dict problem_type "
    "finetuning_task id2label label2id name_or_path tokenizer_class prefix sep_token bias_dropout_fusion "
    "softmax_* attention_softmax_in_fp32 apply_residual_connection_post_layernorm slow_but_exact "
    "masked_softmax_fusion skip_bias_add* unk_token offset_alibi use_flash_attn* flash_attn* clip_qkv "
    "swiglu_limit experts_per_token initial_context_length cache_implementation use_bidirectional_attention "
    "tf_legacy_loss use_bfloat16 torchscript pruned_heads min_length max_length do_sample temperature top_k "
    "top_p num_beams time_step_* mamba_chunk_size chunk_size rescale_prenorm_residual residual_in_fp32 "
    "use_mamba_kernels use_mambapy mamba_dt_* mamba_norm_before_gate hidden_dropout_prob "
    "position_embedding_type position_embedding nope_* use_nope attn_temperature_tuning attn_scale floor_scale "
    "for_llm_compressor num_key_value_groups linear_*alpha* linear_*beta* mlp_alpha_factor mlp_beta_factor "
    "layernorm_* unsloth_* sliding_window_size head_type vision_config audio_config text_config image_* video_* "
    "audio_* vision_* mm_* projector_* multimodal_* spatial_merge_size boi_* eoi_* use_expert_bias "
    "use_block_cfg moe_layer_num_skipped moe_drop_tokens moe_random_routing_dropped_token moe_use_* "
    "moe_capacity moe_multimodal_* moe_group_experts moe_aux_loss_* lm_head_* parameters source ";

static bool matches(const char *pattern, size_t length, const char *key)
{
    size_t key_length = strlen(key);
    if (pattern[0] == '*')
        return key_length >= length - 1 && strncmp(key + key_length - (length - 1), pattern + 1, length - 1) == 0;
    if (pattern[length - 1] == '*')
        return strncmp(pattern, key, length - 1) == 0;
    return key_length == length && strncmp(pattern, key, length) == 0;
}

static bool changes_nothing(const char *key, const json_t *value)
{
    if (json_is_null(value) || json_is_false(value))
        return true;
    for (const char *word = quiet; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        if (matches(word, length, key))
            return true;
        word += length;
    }
    return false;
}

void hugging_face_note_keys(struct hugging_face_reader *reader, const struct strict_object *wrapper)
{
    char names[512] = "";
    size_t used = 0, count = 0;
    void *at = json_object_iter((json_t *)(uintptr_t)reader->object.value);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)reader->object.value, at)) {
        const char *key = json_object_iter_key(at);
        if (json_object_get(reader->used, key) || changes_nothing(key, json_object_iter_value(at)))
            continue;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.60s", used > 0 ? ", " : "", key);
        count++;
    }
    if (count > 0)
        hugging_face_note(reader, "%zu key%s not known here, and without effect: %s", count,
                          count > 1 ? "s are" : " is", names);
    if (wrapper && json_object_get(wrapper->value, "quantization_config"))
        hugging_face_note(reader,
                          "quantization_config is of the file's weights: a plan has the configuration's formats");
}
