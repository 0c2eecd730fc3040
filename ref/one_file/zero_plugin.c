// SPDX-License-Identifier: Apache-2.0
// The stages of zero.c before the conformance suite, as a shared object for `zerogauge check --plugin`:
//
//     cc -O2 -ffp-contract=off -shared -fPIC -I conformance/contract zero_plugin.c -o zero.so -lpthread -lm
//
// The suite's model is a linear loss, whose gradients it gives; the rest is zero.c's.
#define ZERO_INCLUDED  // without main
#include "zero.c"

#include "contract.h"

struct judged {
    struct job job;  // first: a rank's job is a struct judged
    const struct zerogauge_case *c;
    float *values[RANKS];  // all tensors end to end: first as forward has used them, and then their gradients
};

static float load(enum dtype dtype, const void *array, size_t k)
{
    union number n = {.bits = dtype == FP32 ? ((const uint32_t *)array)[k] : ((const uint16_t *)array)[k]};
    int exponent = (int)(n.bits >> 10 & 31), fraction = (int)(n.bits & 1023);
    if (dtype == BF16)
        n.bits <<= 16;
    if (dtype != FP16)
        return n.value;
    float size = ldexpf((float)(fraction + (exponent ? 1024 : 0)), (exponent ? exponent : 1) - 25);
    if (exponent == 31)
        size = fraction ? NAN : INFINITY;
    return copysignf(size, n.bits & 0x8000 ? -1 : 1);
}

// x is a number of the format, and finite in fp16.
static void save(enum dtype dtype, void *array, size_t k, float x)
{
    union number n = {.value = x}, size = {.value = fabsf(x)};
    uint32_t fp16 = size.value < 0x1p-14f ? (uint32_t)(size.value * 0x1p24f) : (size.bits - 0x38000000) >> 13;
    if (dtype == FP32)
        ((uint32_t *)array)[k] = n.bits;
    else if (dtype == BF16)
        ((uint16_t *)array)[k] = (uint16_t)(n.bits >> 16);
    else
        ((uint16_t *)array)[k] = (uint16_t)(fp16 | (n.bits >> 16 & 0x8000));
}

static bool refuses(const struct zerogauge_case *c)
{
    bool refused = c->gradient_clipping < 0 || (c->loss_scale && !(c->scale > 0)) ||
                   (c->loss_scale == ZEROGAUGE_SCALE_DYNAMIC && c->scale_window == 0);
    for (int i = 0; i < c->group_count; i++) {
        const struct zerogauge_group *g = &c->groups[i];
        refused |= !(g->beta1 >= 0 && g->beta1 < 1 && g->beta2 >= 0 && g->beta2 < 1);
    }
    return refused;
}

static bool declines(const struct zerogauge_case *c)
{
    bool declined = c->world > RANKS || c->param_count > TENSORS || c->phase || c->delayed_update || c->offload_param ||
                    c->communication_dtype != c->precision || c->accumulation_dtype != c->precision;
    for (int i = 0; i < c->param_count; i++)
        declined |= c->params[i].frozen || c->params[i].tied_to >= 0;
    return declined;
}

static void set_job(struct job *job, const struct zerogauge_case *c)
{
    job->stage = &stages[c->stage];
    job->N_d = (size_t)c->world;
    job->accumulation = (size_t)c->accumulation;
    job->precision = (enum dtype)c->precision;
    job->optimizer_tier = (enum tier)c->offload_optimizer;
    job->max_norm = c->gradient_clipping;
    job->checks_overflow = c->overflow_check;
    job->loss_scale = (struct loss_scale){.dynamic = c->loss_scale == ZEROGAUGE_SCALE_DYNAMIC,
                                          .scale = c->loss_scale ? c->scale : 1,
                                          .min_scale = c->min_scale,
                                          .window = c->scale_window,
                                          .hysteresis = c->scale_hysteresis,
                                          .left = c->scale_hysteresis};
    for (int i = 0; i < c->group_count; i++) {
        const struct zerogauge_group *g = &c->groups[i];
        job->groups[i] = (struct hyperparameters){g->lr,           g->beta1,     g->beta2,          g->eps,
                                                  g->weight_decay, g->decoupled, g->bias_correction};
    }
    job->tensor_count = (size_t)c->param_count;
    for (int i = 0; i < c->param_count; i++)
        job->tensors[i] = (struct tensor){.count = c->params[i].count, .group = (size_t)c->params[i].group};
}

static int plugin_open(const struct zerogauge_case *c, const float *const initial[], void **context)
{
    if (refuses(c)) {
        snprintf(c->message, c->message_bytes, "out of range: a clip threshold, loss scale, window or beta");
        return ZEROGAUGE_REFUSED;
    }
    if (declines(c)) {
        snprintf(c->message, c->message_bytes,
                 "no tied or frozen tensors, resuming, delay, offloaded parameters or second format");
        return ZEROGAUGE_UNSUPPORTED;
    }
    struct judged *x = calloc(1, sizeof *x);
    check(x, "calloc");
    x->c = c;
    set_job(&x->job, c);
    job_open(&x->job);
    for (size_t i = 0; i < x->job.tensor_count; i++)
        for (size_t id = 0; id < x->job.N_d; id++)
            for (size_t owner = 0; owner < x->job.N_d; owner++) {
                struct rank *r = &x->job.ranks[id];
                move_shard(r, WRITE, MASTER, &x->job.tensors[i], owner, (float *)initial[i]);
                move_shard(r, WRITE, PARAM, &x->job.tensors[i], owner, (float *)initial[i]);
            }
    size_t count = 0;
    for (size_t i = 0; i < x->job.tensor_count; i++)
        count += x->job.tensors[i].count;
    for (size_t id = 0; id < x->job.N_d; id++)
        x->values[id] = floats(count);
    *context = x;
    return ZEROGAUGE_OK;
}

static void plugin_forward(struct rank *r)
{
    const struct judged *x = (struct judged *)r->job;
    for (size_t i = 0; i < r->job->tensor_count; i++) {
        const struct tensor *t = &r->job->tensors[i];
        float *full = gather_layer(r, t);
        memcpy(x->values[r->id] + t->start, full, t->count * sizeof *full);
        free(full);
    }
}

static void plugin_backward(struct rank *r)
{
    const struct judged *x = (struct judged *)r->job;
    for (size_t i = r->job->tensor_count; i-- > 0;) {
        const struct tensor *t = &r->job->tensors[i];
        free(gather_layer(r, t));
        if (x->c->params[i].used)
            reduce_layer(r, t, x->values[r->id] + t->start);
    }
}

// All ranks go forward in the call for the first of them, and backward in the call for the last.
static int plugin_gradients(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                            void *const seen[])
{
    struct judged *x = context;
    struct job *job = &x->job;
    size_t id = (size_t)rank;
    if (micro == 0 && id == 0)
        for (size_t i = 0; i < job->N_d; i++)
            begin_step(&job->ranks[i], (size_t)step);
    if (id == 0)
        run(job, plugin_forward);
    float scale = (float)job->ranks[id].loss_scale.scale;
    for (size_t i = 0; i < job->tensor_count; i++) {
        float *values = x->values[id] + job->tensors[i].start;
        for (size_t k = 0; k < job->tensors[i].count; k++) {
            if (seen[i])
                save(job->precision, seen[i], k, values[k]);
            values[k] = gradients[i] ? scale * load(job->precision, gradients[i], k) : 0;
        }
    }
    if (id == job->N_d - 1)
        run(job, plugin_backward);
    return ZEROGAUGE_OK;
}

static int plugin_step(void *context, int32_t step, struct zerogauge_outcome *out)
{
    const struct rank *r = ((struct judged *)context)->job.ranks;
    (void)step;
    run(context, end_step);
    *out = (struct zerogauge_outcome){r->t, r->loss_scale.scale, r->norm, r->skipped, !r->skipped};
    return ZEROGAUGE_OK;
}

// Each rank's own shard.
static int plugin_read(void *context, int32_t state, int32_t param, float *out)
{
    static const enum state states[] = {MASTER, EXP_AVG, EXP_AVG_SQ, GRAD};
    struct job *job = context;
    const struct tensor *t = &job->tensors[param];
    for (size_t id = 0; id < job->N_d; id++)
        move_shard(&job->ranks[id], READ, states[state], t, id, out);
    if (state == ZEROGAUGE_GRAD)
        for (size_t k = 0; k < t->count; k++)
            out[k] /= job->ranks[0].divisor;
    return ZEROGAUGE_OK;
}

static void plugin_close(void *context)
{
    struct judged *x = context;
    for (size_t id = 0; id < x->job.N_d; id++)
        free(x->values[id]);
    job_close(&x->job);
    free(x);
}

const struct zerogauge_implementation *zerogauge_implementation(void)
{
    // clang-format off
    static const struct zerogauge_implementation table = {
        .contract = ZEROGAUGE_CONTRACT, .struct_bytes = sizeof table, .name = "zero.c", .version = "1",
        .open = plugin_open, .gradients = plugin_gradients, .step = plugin_step, .read = plugin_read,
        .close = plugin_close, .gives_seen = 1};
    // clang-format on
    return &table;
}
