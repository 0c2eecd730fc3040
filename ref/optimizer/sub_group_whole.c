// SPDX-License-Identifier: Apache-2.0
// The update of a bucket that is one whole tensor.
#include "ref/optimizer/whole.h"

#include "base/err.h"
#include "ref/optimizer/optimizer_internal.h"

#include <assert.h>

size_t optimizer_scratch_bytes(const struct optimizer *o, enum ledger_tier tier)
{
    size_t most = 0;
    for (int i = 0; i < o->layout->trainable_count; i++) {
        const struct bucket *bucket = &o->layout->buckets[i];
        if (!bucket->whole || optimizer_tier(&o->placements[i]) != tier)
            continue;
        size_t floats = o->whole->scratch_floats(&o->model->params[bucket->params[0]]);
        most = floats > most ? floats : most;
    }
    return most * sizeof(float);
}

int optimizer_run_whole(const struct sub_group *g)
{
    const struct optimizer *o = g->optimizer;
    const struct model_param *param = &o->model->params[o->layout->buckets[g->bucket].params[0]];
    assert(g->from == 0 && g->count == param->count);
    o->whole->run(&(struct whole_step){.config = o->config,
                                       .param = param,
                                       .step = g->step,
                                       .t = g->t,
                                       .grad = g->gradient,
                                       .grad_dtype = o->config->accumulation_dtype,
                                       .grad_divisor = g->divisor,
                                       .grad_coefficient = g->coefficient,
                                       .master = g->master,
                                       .momentum = g->exp_avg,
                                       .model_params = g->model_params,
                                       .model_dtype = o->config->precision,
                                       .scratch = g->scratch});
    return ERR_NONE;
}
