// SPDX-License-Identifier: Apache-2.0
// A model of which nothing is known but how many parameters it has, for statements that name no more: equal layers, one
// matrix each, without activations.
#ifndef ZG_STAND_IN_H
#define ZG_STAND_IN_H

#include "ref/model/model.h"

enum { STAND_IN_LAYER_MAX = 1024 };

struct stand_in {
    struct model model;
    struct model_param params[STAND_IN_LAYER_MAX];
    struct model_unit units[STAND_IN_LAYER_MAX];
    int indices[STAND_IN_LAYER_MAX];
};

// params parameters in `layers` (1 to STAND_IN_LAYER_MAX) layers, the first ones larger by one where they do not
// divide. out must not move afterwards.
void stand_in_make(uint64_t params, int layers, struct stand_in *out);

#endif
