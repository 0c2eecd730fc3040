// SPDX-License-Identifier: Apache-2.0
// Shapes from a Hugging Face config.json, for the types that hugging_face_types.c has; of a model of text and images
// (one with a `text_config`) the text model alone.
#pragma once

#include "base/strict_json.h"
#include "plan/shape/decoder.h"

#include <stdbool.h>

// True for a file of this kind, by its key model_type.
bool hugging_face_is(const struct strict_object *object);

// Biases and norms follow from the type or from the file. `notes` receives a line for each thing that a plan leaves out
// or takes from elsewhere, and for keys that are not known. ERR_USAGE names a key that is missing or out of range, or a
// type that is not read.
enum { HUGGING_FACE_NOTES_BYTES = 1536 };
int hugging_face_read(const struct strict_object *object, struct decoder_shape *out,
                      char notes[HUGGING_FACE_NOTES_BYTES]);

// Reads a number from 1 to high.
int shape_read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out);

// As plan_model_dtype.
const char *hugging_face_dtype(const struct strict_object *object);
