// SPDX-License-Identifier: Apache-2.0
// How a GPT is cut into parts.
#include "ref/model/gpt_pass.h"

#include "base/err.h"

int gpt_place(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count)
{
    *first_layer = 0;
    *layer_count = whole->layer_count;
    if (place->tensor_parts > 1)
        return err_set(ERR_USAGE, "the model %s cannot be cut over tensor parallelism", whole->name);
    if (place->pipeline_parts > 1)
        return err_set(ERR_USAGE, "the model %s cannot be cut over pipeline parallelism", whole->name);
    return ERR_NONE;
}
