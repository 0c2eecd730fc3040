// SPDX-License-Identifier: Apache-2.0
// A model of which only the parameter count is known, for papers that give no more: one layer of one tensor, without
// activations.
#ifndef ZG_OPAQUE_MODEL_H
#define ZG_OPAQUE_MODEL_H

#include "ref/model/model.h"

struct opaque_model {
    struct model model;
    struct model_param param;
    struct model_layer layer;
    int index;
};

// *out points into itself: do not copy it.
void opaque_model_make(uint64_t params, struct opaque_model *out);

#endif
