// SPDX-License-Identifier: Apache-2.0
// A model of which nothing is known but how many parameters it has, for statements that name no more: equal layers, one
// matrix each, without activations.
#ifndef ZG_STAND_IN_H
#define ZG_STAND_IN_H

#include "ref/model/model.h"

enum { OPAQUE_MODEL_LAYER_MAX = 1024 };

struct opaque_model {
    struct model model;
    struct model_param params[OPAQUE_MODEL_LAYER_MAX];
    struct model_layer layers[OPAQUE_MODEL_LAYER_MAX];
    int indices[OPAQUE_MODEL_LAYER_MAX];
};

// params parameters in `layers` (1 to OPAQUE_MODEL_LAYER_MAX) layers, the first ones larger by one where they do not
// divide. out must not move afterwards.
void opaque_model_make(uint64_t params, int layers, struct opaque_model *out);

#endif
