// SPDX-License-Identifier: Apache-2.0
// How a config.json is read: the types of models, and the keys that were read.
#pragma once

#include "plan/shape/hugging_face.h"

struct hugging_face_reader;

// A type's code adds these to a file, which does not say so. Traits are words:
//   norms=N, qk=head|head+bias|all, switch=KEY   norms of a block, 2; of queries and keys, over a head's width, with a
//                                                bias too, or over all heads; the key that switches the latter
//   ln, no-weights, plain, parallel              layer norms with biases; norms without weights; an MLP without a gate;
//                                                attention and MLP side by side
//   biases=LETTERS, bias:KEY=LETTERS             biases that are there, and those that a key switches: q of queries,
//   keys
//                                                and values, o behind attention, m of MLPs, e of experts, h of the
//                                                head, l of latent vectors; without any such key attention_bias and
//                                                mlp_bias
//   window=every|used|period, period=N           blocks with a window in a file without layer_types: every one, if
//                                                use_sliding_window, all but each N-th
//   router, gate, stateful                       a bias of the router; a gate of the shared expert; no attention at all
//   positions, embedding-norm, sinks, values     learned positions; a norm of the embedding; a learned logit of each
//                                                head; two learned values of the activation function (xIELU)
enum { HUGGING_FACE_TRAIT_BYTES = 32 };
struct hugging_face_type {
    const char *name, *traits;  // "a|b": of several types
    const char *defaults;       // "KEY=VALUE ..." where the file has none
    int (*more)(struct hugging_face_reader *reader, struct decoder_shape *out);
    const char *sizes;  // defaults of a text_config alone, where files leave them out
};

struct hugging_face_reader {
    struct strict_object object;
    const struct hugging_face_type *type;
    json_t *used;  // an object with the keys that were read
    char *notes;   // [HUGGING_FACE_NOTES_BYTES], a line each
};

// The type of that name; null: there is none.
const struct hugging_face_type *hugging_face_type_find(const char *name);

// True if the type has the trait; value receives what is behind its '='. In the second form it is a number.
bool hugging_face_trait(const struct hugging_face_reader *reader, const char *trait,
                        char value[HUGGING_FACE_TRAIT_BYTES]);
bool hugging_face_is_trait(const struct hugging_face_reader *reader, const char *trait);
size_t hugging_face_trait_number(const struct hugging_face_reader *reader, const char *trait, size_t without);

// True if the file, or the type's defaults, have a key that is not null. Each of these counts it as read.
bool hugging_face_has(struct hugging_face_reader *reader, const char *key);

// Reads the first of the keys, words of a text, that is there: from 1 to high; `without` if none is or it is "auto",
// or, 0, an error.
int hugging_face_size(struct hugging_face_reader *reader, const char *keys, int64_t high, size_t without, size_t *out);

// Reads one key: from 0 to high; 0 without it.
int hugging_face_count(struct hugging_face_reader *reader, const char *key, int64_t high, size_t *out);

// Leaves *out as it is without the key.
int hugging_face_flag(struct hugging_face_reader *reader, const char *key, bool *out);

// Adds a line to the notes.
void hugging_face_note(struct hugging_face_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Which blocks have which mixer, window and MLP (hugging_face_layers.c); and the experts.
int hugging_face_layers(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_experts(struct hugging_face_reader *reader, struct decoder_shape *out);

// Readers of what is special about a type: the mixers of hybrids (hugging_face_state.c), and others
// (hugging_face_more.c).
int hugging_face_mamba(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_mamba_2(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_delta(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_convolution(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_lightning(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_falcon(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_opt(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_bigcode(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_neox(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_stablelm(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_latents(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_llama_4(struct hugging_face_reader *reader, struct decoder_shape *out);
int hugging_face_hunyuan(struct hugging_face_reader *reader, struct decoder_shape *out);

// Notes of keys that no one read and that are not known to change nothing (hugging_face_keys.c).
void hugging_face_note_keys(struct hugging_face_reader *reader, const struct strict_object *wrapper);
