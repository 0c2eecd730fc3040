// SPDX-License-Identifier: Apache-2.0
// A model whose hidden matrices are whole: an optimizer updates each as one (model_param.whole). They are the trained
// parameters of two dimensions that neither the first nor the last layer uses: no embedding and no head. The model
// equals the one that it is made of in everything else.
#pragma once

#include "ref/model/model.h"

struct model_whole {
    struct model model;
    struct model_param *params;  // owned
};

// ERR_USAGE: the model has no such matrix. The model that it is made of must outlive it.
int model_whole_open(const struct model *from, struct model_whole **out);
void model_whole_close(struct model_whole *whole);  // null-safe
