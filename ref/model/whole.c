// SPDX-License-Identifier: Apache-2.0
#include "ref/model/whole.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int model_whole_open(const struct model *from, struct model_whole **out)
{
    size_t bytes = (size_t)from->param_count * sizeof *from->params;
    struct model_whole *whole = *out = calloc(1, sizeof *whole);
    bool any = false;
    if (!whole || !(whole->params = malloc(bytes + 1)))
        return err_set(ERR_MEMORY, "no memory for the parameters of %s", from->name);
    memcpy(whole->params, from->params, bytes);
    for (int i = 0; i < from->param_count; i++) {
        struct model_param *p = &whole->params[i];
        p->whole = p->shape_rank == 2 && p->count > 0 && !p->frozen && p->used && p->layer_count == 1 &&
                   p->first_layer > 0 && p->first_layer < from->layer_count - 1;
        any |= p->whole;
    }
    whole->model = *from;
    whole->model.params = whole->params;
    return any ? ERR_NONE : err_set(ERR_USAGE, "the model %s has no hidden matrix that Muon could update", from->name);
}

void model_whole_close(struct model_whole *whole)
{
    if (whole)
        free(whole->params);
    free(whole);
}
