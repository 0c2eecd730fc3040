// SPDX-License-Identifier: Apache-2.0
// A model of which only the parameter count is known, for claims that give no more: equal layers of one tensor each,
// without activations.
#ifndef ZG_OPAQUE_MODEL_H
#define ZG_OPAQUE_MODEL_H

#include "ref/model/model.h"

enum { OPAQUE_MODEL_LAYER_MAX = 1024 };

struct opaque_model {
    struct model model;
    struct model_param params[OPAQUE_MODEL_LAYER_MAX];
    struct model_layer layers[OPAQUE_MODEL_LAYER_MAX];
    int indices[OPAQUE_MODEL_LAYER_MAX];
};

// Divides `params` parameters among `layers` layers, 1 to OPAQUE_MODEL_LAYER_MAX; the first layers get the remainder.
// *out points into itself: do not copy it.
void opaque_model_make(uint64_t params, int layers, struct opaque_model *out);

#endif
