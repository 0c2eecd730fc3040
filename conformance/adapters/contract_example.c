// SPDX-License-Identifier: Apache-2.0
// A complete plug-in to start from: data parallelism without sharding, in fp32, with PyTorch's Adam and AdamW on a CPU.
// It declines cases that need more. Build it as a shared object and have it judged:
//
//     cc -shared -fPIC -ffp-contract=off -I conformance/contract -o example.so
//         conformance/adapters/contract_example.c -lm
//     zerogauge check --plugin ./example.so --out results
//
// Keep these functions and call your library in them. struct zerogauge_case describes the case; contract.h defines the
// arguments of each call.
#include "contract.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tensor {
    float *states[4];  // by zerogauge_state, [count] each; the gradient is the last step's mean
    float *sums;       // [world][count]: each rank's gradients, added over micro-steps
};

struct example {
    const struct zerogauge_case *c;
    uint64_t t;
    struct tensor tensors[];  // [param_count]
};

static int example_open(const struct zerogauge_case *c, const float *const initial[], void **context)
{
    // Refuse what is invalid. Nothing in the case says that it is: some cases ask for nonsense.
    bool refused = c->gradient_clipping < 0;
    for (int i = 0; i < c->group_count; i++)
        refused |=
            !(c->groups[i].beta1 >= 0 && c->groups[i].beta1 < 1 && c->groups[i].beta2 >= 0 && c->groups[i].beta2 < 1);
    if (refused) {
        snprintf(c->message, c->message_bytes, "a clip threshold below 0, or betas outside [0, 1)");
        return ZEROGAUGE_REFUSED;
    }
    // Decline what your library lacks: the case then counts as UNSUPPORTED, with this message, and not as a failure.
    if (c->stage || c->precision || c->communication_dtype || c->accumulation_dtype || c->loss_scale ||
        c->overflow_check || c->gradient_clipping > 0 || c->delayed_update || c->offload_optimizer ||
        c->offload_param || c->phase) {
        snprintf(c->message, c->message_bytes, "the example supports plain data parallelism in fp32 only");
        return ZEROGAUGE_UNSUPPORTED;
    }
    struct example *e = calloc(1, sizeof *e + (size_t)c->param_count * sizeof e->tensors[0]);
    e->c = c;
    for (int i = 0; i < c->param_count; i++) {
        size_t n = c->params[i].count;
        float *x = calloc((4 + (size_t)c->world) * n + 1, sizeof *x);
        e->tensors[i] = (struct tensor){{x, x + n, x + 2 * n, x + 3 * n}, x + 4 * n};
        if (initial[i])  // null: tied
            memcpy(x, initial[i], n * sizeof *x);
    }
    *context = e;
    return ZEROGAUGE_OK;
}

// The loss is the sum of parameter x gradient, so backward only adds the given gradients. With an autograd library,
// build that loss here and call its backward.
static int example_gradients(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                             void *const seen[])
{
    struct example *e = context;
    (void)step, (void)micro;
    for (int i = 0; i < e->c->param_count; i++) {
        const struct zerogauge_param *param = &e->c->params[i];
        struct tensor *x = &e->tensors[param->tied_to < 0 ? i : param->tied_to];
        const float *g = gradients[i];
        for (size_t k = 0; g && k < param->count; k++)
            x->sums[(size_t)rank * param->count + k] += g[k];
        if (seen[i])  // the parameter that forward used; all ranks share one copy here
            memcpy(seen[i], x->states[ZEROGAUGE_PARAM], param->count * sizeof *g);
    }
    return ZEROGAUGE_OK;
}

// Updates one element: the mean over ranks and micro-steps (ranks added in order, one division), then Adam.
static void update(const struct zerogauge_case *c, const struct zerogauge_group *group, const struct tensor *x,
                   size_t n, size_t k, double lr, double t)
{
    float g = x->sums[k], *p = x->states[0] + k, *m = x->states[1] + k, *v = x->states[2] + k;
    float take1 = (float)(1 - group->beta1), take2 = (float)(1 - group->beta2);
    double correction1 = group->bias_correction ? 1 - pow(group->beta1, t) : 1;
    double correction2 = group->bias_correction ? 1 - pow(group->beta2, t) : 1;
    for (int rank = 1; rank < c->world; rank++)
        g += x->sums[(size_t)rank * n + k];
    x->states[ZEROGAUGE_GRAD][k] = g /= (float)(c->world * c->accumulation);
    if (group->weight_decay != 0 && group->decoupled)
        *p *= (float)(1 - lr * group->weight_decay);
    else if (group->weight_decay != 0)
        g = fmaf(*p, (float)group->weight_decay, g);
    *m = take1 < 0.5f ? fmaf(take1, g - *m, *m) : fmaf(take1 - 1, g - *m, g);
    *v = fmaf(take2 * g, g, *v * (float)group->beta2);
    *p += (float)-(lr / correction1) * *m / (sqrtf(*v) / (float)sqrt(correction2) + (float)group->eps);
}

static int example_step(void *context, int32_t step, struct zerogauge_outcome *out)
{
    struct example *e = context;
    out->t = ++e->t;
    for (int i = 0; i < e->c->param_count; i++) {
        const struct zerogauge_param *param = &e->c->params[i];
        const struct zerogauge_group *group = &e->c->groups[param->group];
        for (size_t k = 0; !param->frozen && param->tied_to < 0 && k < param->count; k++)
            update(e->c, group, &e->tensors[i], param->count, k, group->lr[step - 1], (double)e->t);
        memset(e->tensors[i].sums, 0, (size_t)e->c->world * param->count * sizeof(float));
    }
    return ZEROGAUGE_OK;
}

static int example_read(void *context, int32_t state, int32_t param, float *out)
{
    const struct example *e = context;
    memcpy(out, e->tensors[param].states[state], e->c->params[param].count * sizeof *out);
    return ZEROGAUGE_OK;
}

static void example_close(void *context)
{
    struct example *e = context;
    for (int i = 0; i < e->c->param_count; i++)
        free(e->tensors[i].states[0]);
    free(e);
}

// Optional calls are null where omitted: this plug-in has no checkpoints and reports no memory or traffic.
const struct zerogauge_implementation *zerogauge_implementation(void)
{
    static const struct zerogauge_implementation table = {.contract = ZEROGAUGE_CONTRACT,
                                                          .struct_bytes = sizeof table,
                                                          .name = "example",
                                                          .version = "1",
                                                          .open = example_open,
                                                          .gradients = example_gradients,
                                                          .step = example_step,
                                                          .read = example_read,
                                                          .close = example_close,
                                                          .gives_seen = 1};
    return &table;
}
