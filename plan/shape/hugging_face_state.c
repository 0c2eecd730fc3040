// SPDX-License-Identifier: Apache-2.0
// The mixers of hybrids: state spaces (Mamba, arXiv 2312.00752; Mamba-2, arXiv 2405.21060), linear attention (gated
// delta networks, arXiv 2412.06464; MiniMax-01, arXiv 2501.08313) and short convolutions. A state of S values is
// changed by a product and a sum for each, and read by as many: 4 S operations of a token; the delta rule reads it
// twice.
#include "plan/shape/hugging_face_internal.h"

#include "base/err.h"

#include <string.h>

// A flag with two names.
static int read_flag(struct hugging_face_reader *r, const char *key, const char *other, bool *out)
{
    TRY(hugging_face_flag(r, key, out));
    return hugging_face_flag(r, other, out);
}

static int read_expanded(struct hugging_face_reader *r, const struct decoder_shape *out, size_t *channels)
{
    size_t expand;
    TRY(hugging_face_size(r, "mamba_expand expand", DECODER_SIZE_MAX, 2, &expand));
    *channels = expand * out->width;
    return ERR_NONE;
}

// The blocks that attend are every period-th from the offset on.
static void set_period(struct decoder_shape *out, size_t period, size_t offset)
{
    for (size_t i = 0; i < out->blocks; i++)
        out->block[i].has_state = out->block[i].has_no_attention = i % period != offset;
}

// A list names the blocks that attend.
static int set_attending(struct hugging_face_reader *r, const char *key, struct decoder_shape *out)
{
    const json_t *attends = json_object_get(r->object.value, key);
    set_period(out, out->blocks + 1, out->blocks);
    for (size_t i = 0; i < json_array_size(attends); i++) {
        size_t block = (size_t)json_integer_value(json_array_get(attends, i));
        if (block >= out->blocks)
            return strict_fail(&r->object, key, "has a block beyond the %zu", out->blocks);
        out->block[block].has_state = out->block[block].has_no_attention = false;
    }
    return ERR_NONE;
}

static bool is_hybrid_list(struct hugging_face_reader *r)
{
    return json_is_array(json_object_get(r->object.value, "layer_types"));
}

int hugging_face_mamba(struct hugging_face_reader *r, struct decoder_shape *out)
{
    struct decoder_state *s = &out->state;
    size_t channels, state, kernel, rank, period = 1, offset = 0;
    bool conv_bias = true, biases = false, is_jamba = !hugging_face_is_trait(r, "stateful");
    TRY(read_expanded(r, out, &channels));
    TRY(hugging_face_size(r, "mamba_d_state state_size", DECODER_SIZE_MAX, 16, &state));
    TRY(hugging_face_size(r, "mamba_d_conv conv_kernel", DECODER_SIZE_MAX, 4, &kernel));
    TRY(hugging_face_size(r, "mamba_dt_rank time_step_rank", DECODER_SIZE_MAX, (out->width + 15) / 16, &rank));
    TRY(read_flag(r, "mamba_conv_bias", "use_conv_bias", &conv_bias));
    TRY(read_flag(r, "mamba_proj_bias", "use_bias", &biases));
    *s = (struct decoder_state){.in_rows = 2 * channels,
                                .out_columns = channels,
                                .steps_rows = rank + 2 * state,
                                .steps_columns = rank,
                                .heads = channels};
    s->head_values = channels * (kernel + conv_bias + 2 + state) + (biases ? 2 * channels : 0);
    s->other_values = (biases ? out->width : 0) + (is_jamba ? rank + 2 * state : 0);
    s->operations = (double)channels * (4.0 * (double)state + 2.0 * (double)kernel);
    for (size_t i = 0; i < out->blocks && !is_jamba; i++)
        out->block[i] = (struct decoder_block){true, true, DECODER_MLP_NONE, 0, false};
    if (!is_jamba || is_hybrid_list(r))
        return ERR_NONE;
    TRY(hugging_face_size(r, "attn_layer_period", DECODER_BLOCKS_MAX, 0, &period));
    TRY(hugging_face_count(r, "attn_layer_offset", DECODER_BLOCKS_MAX, &offset));
    set_period(out, period, offset);
    return ERR_NONE;
}

// Nemotron-H's blocks have one mixer or one MLP each: "M" a state, "*" attention, "-" an MLP, "E" experts; or words.
static int read_single_blocks(struct hugging_face_reader *r, struct decoder_shape *out)
{
    static const char *const key = "hybrid_override_pattern", *const list_key = "layers_block_type";
    const char *pattern = hugging_face_has(r, key) ? json_string_value(json_object_get(r->object.value, key)) : NULL;
    const json_t *list = hugging_face_has(r, list_key) ? json_object_get(r->object.value, list_key) : NULL;
    if (pattern ? strlen(pattern) != out->blocks : json_array_size(list) != out->blocks)
        return strict_fail(&r->object, pattern ? key : list_key, "expected a kind for each of the %zu blocks",
                           out->blocks);
    for (size_t i = 0; i < out->blocks; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        char kind = pattern                                  ? pattern[i]
                    : word && strcmp(word, "mamba") == 0     ? 'M'
                    : word && strcmp(word, "attention") == 0 ? '*'
                    : word && strcmp(word, "mlp") == 0       ? '-'
                    : word && strcmp(word, "moe") == 0       ? 'E'
                                                             : '?';
        if (!strchr("M*-E", kind))
            return strict_fail(&r->object, pattern ? key : list_key, "has a kind of block that is not read");
        out->block[i] = (struct decoder_block){.has_no_attention = kind != '*',
                                               .has_state = kind == 'M',
                                               .mlp = kind == '-'   ? DECODER_MLP_DENSE
                                                      : kind == 'E' ? DECODER_MLP_EXPERTS
                                                                    : DECODER_MLP_NONE};
    }
    return ERR_NONE;
}

// Which blocks have a state: all, side by side with attention (Falcon-H1); those that a list of attention leaves.
static int read_states(struct hugging_face_reader *r, struct decoder_shape *out)
{
    if (hugging_face_is_trait(r, "stateful"))
        for (size_t i = 0; i < out->blocks; i++)
            out->block[i] = (struct decoder_block){true, true, DECODER_MLP_NONE, 0, false};
    else if (strcmp(r->type->name, "nemotron_h") == 0)
        return read_single_blocks(r, out);
    else if (strcmp(r->type->name, "falcon_h1") == 0)
        for (size_t i = 0; i < out->blocks; i++)
            out->block[i].has_state = true;
    else if (hugging_face_has(r, "attn_layer_indices") || !is_hybrid_list(r))
        return set_attending(r, "attn_layer_indices", out);
    return ERR_NONE;
}

int hugging_face_mamba_2(struct hugging_face_reader *r, struct decoder_shape *out)
{
    struct decoder_state *s = &out->state;
    size_t heads, head, channels, state, groups, kernel;
    bool conv_bias = true, biases = false, has_norm = strcmp(r->type->name, "falcon_h1") != 0;
    TRY(read_expanded(r, out, &channels));
    TRY(hugging_face_size(r, "mamba_n_heads mamba_num_heads num_heads", DECODER_SIZE_MAX, 0, &heads));
    TRY(hugging_face_size(r, "mamba_d_head mamba_head_dim head_dim", DECODER_SIZE_MAX, channels / heads, &head));
    TRY(hugging_face_size(r, "mamba_d_state ssm_state_size state_size", DECODER_SIZE_MAX, 0, &state));
    TRY(hugging_face_size(r, "mamba_n_groups n_groups", DECODER_SIZE_MAX, 0, &groups));
    TRY(hugging_face_size(r, "mamba_d_conv conv_kernel", DECODER_SIZE_MAX, 4, &kernel));
    TRY(read_flag(r, "mamba_conv_bias", "use_conv_bias", &conv_bias));
    TRY(read_flag(r, "mamba_proj_bias", "use_bias", &biases));
    TRY(hugging_face_flag(r, "mamba_rms_norm", &has_norm));
    hugging_face_has(r, "mamba_d_ssm");
    channels = heads * head;
    size_t mixed = channels + 2 * groups * state;
    *s = (struct decoder_state){.in_rows = channels + mixed + heads, .out_columns = channels, .heads = heads};
    s->head_values = mixed * (kernel + conv_bias) + 3 * heads + (has_norm ? channels : 0) + (biases ? s->in_rows : 0);
    s->other_values = biases ? out->width : 0;
    s->operations = 4.0 * (double)state * (double)channels + 2.0 * (double)kernel * (double)mixed;
    return read_states(r, out);
}

int hugging_face_delta(struct hugging_face_reader *r, struct decoder_shape *out)
{
    size_t key_heads, key, value_heads, value, kernel, period;
    TRY(hugging_face_size(r, "linear_num_key_heads", DECODER_SIZE_MAX, 0, &key_heads));
    TRY(hugging_face_size(r, "linear_key_head_dim", DECODER_SIZE_MAX, 0, &key));
    TRY(hugging_face_size(r, "linear_num_value_heads", DECODER_SIZE_MAX, 0, &value_heads));
    TRY(hugging_face_size(r, "linear_value_head_dim", DECODER_SIZE_MAX, 0, &value));
    TRY(hugging_face_size(r, "linear_conv_kernel_dim", DECODER_SIZE_MAX, 4, &kernel));
    TRY(hugging_face_size(r, "full_attention_interval", DECODER_BLOCKS_MAX, 4, &period));
    size_t keys = key_heads * key, values = value_heads * value, mixed = 2 * keys + values;
    out->gated_output = true;
    out->state = (struct decoder_state){.in_rows = mixed + values + 2 * value_heads,
                                        .out_columns = values,
                                        .heads = key_heads,
                                        .head_values = mixed * kernel + 2 * value_heads,
                                        .other_values = value};
    out->state.operations = 6.0 * (double)key * (double)values + 2.0 * (double)kernel * (double)mixed;
    if (!is_hybrid_list(r))
        set_period(out, period, period - 1);
    return ERR_NONE;
}

// LFM2's feed-forward width is a multiple of two thirds of what the file says.
static int adjust_hidden(struct hugging_face_reader *r, struct decoder_shape *out)
{
    bool adjusts = strcmp(r->type->name, "lfm2") == 0;
    size_t multiple = 256;
    double factor = 1;
    if (hugging_face_has(r, "block_ff_dim"))
        TRY(shape_read_size(&r->object, "block_ff_dim", DECODER_SIZE_MAX, &out->hidden));
    TRY(hugging_face_flag(r, "block_auto_adjust_ff_dim", &adjusts));
    TRY(hugging_face_size(r, "block_multiple_of", DECODER_SIZE_MAX, 256, &multiple));
    if (hugging_face_has(r, "block_ffn_dim_multiplier"))
        TRY(strict_real(&r->object, "block_ffn_dim_multiplier", &factor));
    if (factor <= 0 || factor > 100)
        return strict_fail(&r->object, "block_ffn_dim_multiplier", "is %g, expected above 0 and at most 100", factor);
    if (!adjusts)
        return ERR_NONE;
    out->hidden = (size_t)(factor * (double)(2 * out->hidden / 3));
    out->hidden = (out->hidden + multiple - 1) / multiple * multiple;
    return ERR_NONE;
}

int hugging_face_convolution(struct hugging_face_reader *r, struct decoder_shape *out)
{
    size_t kernel;
    bool bias = false;
    TRY(hugging_face_size(r, "conv_L_cache", DECODER_SIZE_MAX, 3, &kernel));
    TRY(hugging_face_flag(r, "conv_bias", &bias));
    TRY(adjust_hidden(r, out));
    out->state = (struct decoder_state){.in_rows = 3 * out->width,
                                        .out_columns = out->width,
                                        .heads = out->width,
                                        .head_values = out->width * (kernel + (bias ? 4 : 0)),
                                        .other_values = bias ? out->width : 0};
    out->state.operations = 2.0 * (double)(kernel + 1) * (double)out->width;
    if (is_hybrid_list(r) || !hugging_face_has(r, "full_attn_idxs"))
        return ERR_NONE;
    return set_attending(r, "full_attn_idxs", out);
}

int hugging_face_lightning(struct hugging_face_reader *r, struct decoder_shape *out)
{
    const json_t *kinds = json_object_get(r->object.value, "attn_type_list");
    size_t channels = out->heads * out->head_width;
    out->state = (struct decoder_state){.in_rows = 4 * channels,
                                        .out_columns = channels,
                                        .heads = out->heads,
                                        .head_values = channels,
                                        .operations = 4.0 * (double)channels * (double)out->head_width};
    if (is_hybrid_list(r))
        return ERR_NONE;
    set_period(out, 2, 1);
    if (!hugging_face_has(r, "attn_type_list"))
        return ERR_NONE;
    if (json_array_size(kinds) != out->blocks)
        return strict_fail(&r->object, "attn_type_list", "expected a kind for each of the %zu blocks", out->blocks);
    for (size_t i = 0; i < out->blocks; i++)
        out->block[i].has_state = out->block[i].has_no_attention = json_integer_value(json_array_get(kinds, i)) == 0;
    return ERR_NONE;
}
