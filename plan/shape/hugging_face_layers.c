// SPDX-License-Identifier: Apache-2.0
// Which of a model's blocks have which mixer, window and MLP: in one list of words, or by a period that the type or a
// key gives.
#include "plan/shape/hugging_face_internal.h"

#include "base/err.h"

#include <string.h>

// A list with a value for each block; null: there is none.
static int read_list(struct hugging_face_reader *r, const char *key, size_t blocks, const json_t **out)
{
    const json_t *list = hugging_face_has(r, key) ? json_object_get(r->object.value, key) : NULL;
    *out = json_is_array(list) ? list : NULL;
    if (*out && json_array_size(list) != blocks)
        return strict_fail(&r->object, key, "has %zu values, expected one for each of %zu blocks",
                           json_array_size(list), blocks);
    return ERR_NONE;
}

static int read_word(struct hugging_face_reader *r, const char *word, size_t window, struct decoder_block *block)
{
    static const struct {
        const char *word;
        bool has_window, has_state;
    } words[] = {
        {"full_attention", false, false},
        {"attention", false, false},
        {"sliding_attention", true, false},
        {"chunked_attention", true, false},
        {"linear_attention", false, true},
        {"mamba", false, true},
        {"conv", false, true},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].word, word) == 0) {
            block->window = words[i].has_window ? window : 0;
            block->is_chunk = words[i].word[0] == 'c';
            block->has_state = block->has_no_attention = words[i].has_state;
            return ERR_NONE;
        }
    return strict_fail(&r->object, "layer_types", "has \"%.40s\", a kind of block that is not read", word);
}

// A key that says of each block whether it has a window: GPT-Neo's attention_layers and Llama 4's no_rope_layers, where
// 1 is a block with positions and chunks.
static bool is_whole(const struct hugging_face_reader *r, size_t block, size_t period, size_t from)
{
    const json_t *locals = json_object_get(r->object.value, "attention_layers");
    const json_t *ropes = json_object_get(r->object.value, "no_rope_layers");
    const char *local = json_string_value(json_array_get(locals, block));
    if (local)
        return strcmp(local, "global") == 0;
    if (json_is_integer(json_array_get(ropes, block)))
        return json_integer_value(json_array_get(ropes, block)) == 0;
    return block < from || (period > 0 && (block + 1) % period == 0);
}

static int read_window_period(struct hugging_face_reader *r, size_t *period)
{
    const json_t *pattern = json_object_get(r->object.value, "sliding_window_pattern");
    *period = hugging_face_trait_number(r, "period", 0);
    // EXAONE's "LLLG".
    if (hugging_face_has(r, "sliding_window_pattern") && json_is_string(pattern))
        *period = strlen(json_string_value(pattern));
    else
        TRY(hugging_face_size(r, "sliding_window_pattern no_rope_layer_interval", DECODER_BLOCKS_MAX,
                              *period > 0 ? *period : DECODER_BLOCKS_MAX + 1, period));
    return ERR_NONE;
}

int hugging_face_layers(struct hugging_face_reader *r, struct decoder_shape *out)
{
    const json_t *words;
    size_t window = 0, period, from = 0;
    char kind[HUGGING_FACE_TRAIT_BYTES];
    bool has_window = hugging_face_trait(r, "window", kind), used = strcmp(kind, "used") != 0;
    TRY(read_list(r, "layer_types", out->blocks, &words));
    if (!has_window && !words)
        return ERR_NONE;
    if (hugging_face_has(r, "sliding_window") || hugging_face_has(r, "attention_chunk_size") ||
        hugging_face_has(r, "window_size"))
        TRY(hugging_face_size(r, "sliding_window attention_chunk_size window_size", DECODER_SIZE_MAX, 0, &window));
    TRY(hugging_face_flag(r, "use_sliding_window", &used));
    TRY(hugging_face_count(r, "max_window_layers", INT64_MAX, &from));
    hugging_face_has(r, "attention_layers");
    hugging_face_has(r, "attention_types");
    hugging_face_has(r, "no_rope_layers");
    TRY(read_window_period(r, &period));
    for (size_t i = 0; i < out->blocks; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        if (words && !word)
            return strict_fail(&r->object, "layer_types", "has a value that is no word");
        if (word)
            TRY(read_word(r, word, window, &out->block[i]));
        else
            out->block[i].window = used && !is_whole(r, i, period, from) ? window : 0;
        out->block[i].is_chunk |= hugging_face_has(r, "attention_chunk_size");
    }
    return ERR_NONE;
}

static bool is_in(const json_t *list, size_t block)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)block)
            return true;
    return false;
}

// Keys that leave some blocks without experts. All of those in a file hold.
struct choice {
    size_t first, other_first, step, every, start, end, period, offset;
    const json_t *frequencies, *words, *dense, *sparse;
    size_t frequency;
};

static int read_choice(struct hugging_face_reader *r, size_t blocks, struct choice *c)
{
    const int64_t high = DECODER_BLOCKS_MAX;
    const json_t *frequency = json_object_get(r->object.value, "moe_layer_freq"),
                 *end = json_object_get(r->object.value, "moe_layer_end_index");
    TRY(hugging_face_count(r, "first_k_dense_replace", (int64_t)blocks, &c->first));
    TRY(hugging_face_count(r, "num_dense_layers", (int64_t)blocks, &c->other_first));
    TRY(hugging_face_size(r, "decoder_sparse_step interleave_moe_layer_step", high, 1, &c->step));
    TRY(hugging_face_size(r, "moe_layer_interval", high, 1, &c->every));
    TRY(hugging_face_count(r, "moe_layer_start_index", high, &c->start));
    c->end = blocks - 1;
    // -1 is the last block.
    if (hugging_face_has(r, "moe_layer_end_index") && json_integer_value(end) >= 0)
        c->end = (size_t)json_integer_value(end);
    TRY(hugging_face_size(r, "expert_layer_period", high, 1, &c->period));
    TRY(hugging_face_count(r, "expert_layer_offset", high, &c->offset));
    TRY(read_list(r, "mlp_layer_types", blocks, &c->words));
    c->frequency = 1;
    if (json_is_array(frequency))
        TRY(read_list(r, "moe_layer_freq", blocks, &c->frequencies));
    else
        TRY(hugging_face_size(r, "moe_layer_freq", high, 1, &c->frequency));
    c->dense = hugging_face_has(r, "mlp_only_layers") ? json_object_get(r->object.value, "mlp_only_layers") : NULL;
    c->sparse = hugging_face_has(r, "moe_layers") ? json_object_get(r->object.value, "moe_layers") : NULL;
    return ERR_NONE;
}

static bool has_experts(const struct choice *c, size_t block)
{
    const char *word = json_string_value(json_array_get(c->words, block));
    if (word)
        return strcmp(word, "sparse") == 0;
    if (json_array_size(c->sparse) > 0)
        return is_in(c->sparse, block);
    if (c->frequencies && json_integer_value(json_array_get(c->frequencies, block)) == 0)
        return false;
    return block >= c->first && block >= c->other_first && (block + 1) % c->step == 0 && !is_in(c->dense, block) &&
           block >= c->start && block <= c->end && (block + 1) % c->every == 0 && block % c->frequency == 0 &&
           block % c->period == c->offset % c->period;
}

int hugging_face_experts(struct hugging_face_reader *r, struct decoder_shape *out)
{
    static const char *const expert_keys[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                              "moe_num_experts"};
    static const char used_keys[] = "num_experts_per_tok moe_k moe_topk num_experts_per_token";
    static const char hidden_keys[] = "moe_intermediate_size intermediate_size";
    static const char *const shared_keys[] = {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
                                              "num_shared_expert"};
    struct choice choice = {0};
    size_t shared = 0, direct = 0;
    for (size_t i = 0; i < 4 && out->experts == 0; i++)
        TRY(hugging_face_count(r, expert_keys[i], DECODER_EXPERTS_MAX, &out->experts));
    for (size_t i = 0; i < 4 && shared == 0; i++)
        if (hugging_face_has(r, shared_keys[i]) && json_is_array(json_object_get(r->object.value, shared_keys[i])))
            TRY(hugging_face_size(r, shared_keys[i], DECODER_EXPERTS_MAX, 0, &shared));
        else
            TRY(hugging_face_count(r, shared_keys[i], DECODER_EXPERTS_MAX, &shared));
    TRY(hugging_face_count(r, "shared_expert_intermediate_size", DECODER_SIZE_MAX, &direct));
    if (direct == 0)
        TRY(hugging_face_count(r, "shared_intermediate_size", DECODER_SIZE_MAX, &direct));
    if (direct == 0)
        TRY(hugging_face_count(r, "moe_shared_expert_intermediate_size", DECODER_SIZE_MAX, &direct));
    TRY(read_choice(r, out->blocks, &choice));
    // Such a dense model's MLP is the shared one.
    if (out->experts <= 1 && hugging_face_has(r, "shared_intermediate_size"))
        out->hidden = direct;
    if (out->experts <= 1) {
        out->experts = 0;
        return ERR_NONE;
    }
    TRY(hugging_face_size(r, used_keys, (int64_t)out->experts, 0, &out->experts_used));
    TRY(hugging_face_size(r, hidden_keys, DECODER_SIZE_MAX, 0, &out->expert_hidden));
    out->shared_hidden = direct > 0 ? direct : shared * out->expert_hidden;
    for (size_t i = 0; i < out->blocks; i++)
        out->block[i].mlp = has_experts(&choice, i) ? DECODER_MLP_EXPERTS : DECODER_MLP_DENSE;
    return ERR_NONE;
}
