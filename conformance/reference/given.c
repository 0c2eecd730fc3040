// SPDX-License-Identifier: Apache-2.0
#include "conformance/reference/given.h"

#include "base/err.h"
#include "base/file.h"
#include "ref/checkpoint/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1024, UNIT_PARAM_MAX = 3 };

// The gradients of one step: the file's data, and where each tensor begins in it.
struct given_step {
    char *data;
    const char **tensors;  // [micro][rank][param of the case]; NULL where it has none
};

struct given {
    struct model model;
    struct given_setting setting;
    int param_of[CASE_PARAM_MAX];
    struct model_param params[CASE_PARAM_MAX];
    struct model_unit units[CASE_PARAM_MAX];
    int unit_params[CASE_PARAM_MAX];  // the model's parameter of each use; units point in here
    int uses[CASE_PARAM_MAX];         // the case's
    float *initial[CASE_PARAM_MAX];   // by the model's parameter
    struct given_step steps[CASE_STEP_MAX + 1];  // by the case's step
    void **seen;  // [rank][micro][param of the case]
};

const struct model *given_model(const struct given *given)
{
    return &given->model;
}

int given_param(const struct given *given, int param)
{
    return given->param_of[param];
}

static size_t place_of(const struct check_case *c, int rank, int micro)
{
    return ((size_t)rank * (size_t)c->accumulation + (size_t)micro) * (size_t)c->param_count;
}

const void *const *given_seen(const struct given *given, int rank, int micro)
{
    return (const void *const *)given->seen + place_of(given->setting.c, rank, micro);
}

static const char *gradient_of(const struct given *given, const struct model_batch *batch, int use)
{
    const struct given_step *step = &given->steps[batch->step + (uint64_t)given->setting.before_steps];
    return step->tensors[place_of(given->setting.c, batch->rank, batch->micro) + (size_t)use];
}

// A run's memory: g of a chunk, and p or rounded gradients of it.
static size_t given_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    (void)model, (void)sequence_count, (void)dtype, (void)checkpointing;
    return 2 * CHUNK * sizeof(float);
}

// Nothing passes from unit to unit.
static size_t given_checkpoint_bytes(const struct model *model, int unit, size_t sequence_count)
{
    (void)model, (void)unit, (void)sequence_count;
    return 0;
}

// The sum over a parameter's use; a product that is no finite number is left out.
static double dot(struct model_run *run, const char *gradient, const char *param, size_t count)
{
    float *g = run->memory, *p = g + CHUNK;
    size_t element_bytes = dtype_bytes(run->dtype);
    double sum = 0.0;
    for (size_t first = 0, piece; gradient && first < count; first += piece) {
        piece = count - first < CHUNK ? count - first : CHUNK;
        dtype_widen(run->dtype, gradient + first * element_bytes, g, piece);
        dtype_widen(run->dtype, param + first * element_bytes, p, piece);
        for (size_t i = 0; i < piece; i++) {
            double product = (double)p[i] * (double)g[i];
            sum += isfinite(product) ? product : 0.0;
        }
    }
    return sum;
}

static int given_forward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                         void *checkpoint)
{
    (void)checkpoint;
    const struct given *given = run->model->shape;
    const struct model_unit *u = &run->model->units[unit];
    const int *uses = given->uses + (u->params - given->unit_params);
    if (unit == 0)
        run->loss = 0.0;
    for (int i = 0; i < u->param_count; i++) {
        size_t count = run->model->params[u->params[i]].count;
        run->loss += dot(run, gradient_of(given, batch, uses[i]), params[u->params[i]], count);
        if (given->seen)
            memcpy(given->seen[place_of(given->setting.c, batch->rank, batch->micro) + (size_t)uses[i]],
                   params[u->params[i]], count * dtype_bytes(run->dtype));
    }
    return ERR_NONE;
}

// out = or += loss_scale x gradient, rounded to the precision. A use without gradient has zeros.
static void hand_over(struct model_run *run, const char *gradient, float loss_scale, const struct model_gradient *to,
                      size_t count)
{
    float *g = run->memory, *rounded = g + CHUNK;
    size_t element_bytes = dtype_bytes(run->dtype);
    for (size_t first = 0, piece; first < count; first += piece) {
        piece = count - first < CHUNK ? count - first : CHUNK;
        void *out = (char *)to->data + first * element_bytes;
        if (gradient)
            dtype_widen(run->dtype, gradient + first * element_bytes, g, piece);
        else
            memset(g, 0, piece * sizeof *g);
        for (size_t i = 0; i < piece; i++)
            g[i] *= loss_scale;
        // Each use's gradient is rounded by itself, before two of them are added.
        dtype_narrow(run->dtype, g, to->accumulate ? rounded : out, piece);
        if (to->accumulate)
            dtype_accumulate(run->dtype, out, run->dtype, rounded, piece);
    }
}

static int given_backward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                          const struct model_gradient gradients[], float loss_scale, const void *checkpoint)
{
    (void)params, (void)checkpoint;
    const struct given *given = run->model->shape;
    const struct model_unit *u = &run->model->units[unit];
    const int *uses = given->uses + (u->params - given->unit_params);
    for (int i = 0; i < u->param_count; i++) {
        const struct model_gradient *to = &gradients[u->params[i]];
        if (to->data)
            hand_over(run, gradient_of(given, batch, uses[i]), loss_scale, to, run->model->params[u->params[i]].count);
    }
    return ERR_NONE;
}

// Gradients are given, nothing is computed.
static double given_unit_flops(const struct model *model, int unit, size_t sequence_count)
{
    (void)model, (void)unit, (void)sequence_count;
    return 0;
}

static void given_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    (void)seed;
    const struct given *given = model->shape;
    memcpy(out, given->initial[param], model->params[param].count * sizeof *out);
}

static const struct model_operations given_operations = {
    .initialise = given_initialise,
    .unit_flops = given_unit_flops,
    .run_bytes = given_run_bytes,
    .checkpoint_bytes = given_checkpoint_bytes,
    .forward = given_forward,
    .backward = given_backward,
};

static bool uses_param(const struct model_unit *unit, int param)
{
    for (int i = 0; i < unit->param_count; i++)
        if (unit->params[i] == param)
            return true;
    return false;
}

// The parameters that are not tied, in order.
static int open_params(struct given *given)
{
    const struct check_case *c = given->setting.c;
    struct model *model = &given->model;
    for (int i = 0; i < c->param_count; i++) {
        const struct case_param *from = &c->params[i];
        if (case_owner(c, i) != i)
            continue;
        int index = given->param_of[i] = model->param_count++;
        struct model_param *to = &given->params[index];
        *to = (struct model_param){.shape_rank = from->shape_rank, .count = from->count, .group = from->group,
                                   .frozen = from->frozen, .used = from->used};
        snprintf(to->name, sizeof to->name, "%s", from->name);
        memcpy(to->shape, from->shape, sizeof to->shape);
        if (!(given->initial[index] = calloc(from->count + 1, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory for the %zu elements of %s", from->count, from->name);
    }
    return ERR_NONE;
}

// Units of 1, 2, 3, 1, 2, ... uses; no unit uses a parameter twice.
static void open_units(struct given *given)
{
    const struct check_case *c = given->setting.c;
    struct model *model = &given->model;
    struct model_unit *unit = NULL;
    for (int i = 0; i < c->param_count; i++) {
        int index = given->param_of[i] = given->param_of[case_owner(c, i)];
        int room = unit ? 1 + (model->unit_count - 1) % UNIT_PARAM_MAX : 0;
        if (!unit || unit->param_count == room || uses_param(unit, index)) {
            unit = &given->units[model->unit_count++];
            *unit = (struct model_unit){.name = c->params[i].name, .params = &given->unit_params[i]};
        }
        given->unit_params[i] = index;
        given->uses[i] = i;
        unit->param_count++;
        struct model_param *param = &given->params[index];
        if (param->unit_count++ == 0)
            param->first_unit = model->unit_count - 1;
        param->used |= c->params[i].used;
    }
}

static int find_tensor(const struct safetensors *file, const char *name, size_t count, enum dtype dtype,
                       const struct safetensors_tensor **out)
{
    *out = safetensors_find(file, name);
    if (!*out)
        return err_set(ERR_USAGE, "%s: has no tensor \"%s\"", file->path, name);
    if ((*out)->type != safetensors_type_of(dtype) || (*out)->count != count)
        return err_set(ERR_USAGE, "%s: tensor \"%s\" has %llu elements of type %s, expected %zu of type %s", file->path,
                       name, (unsigned long long)(*out)->count, safetensors_type_name((*out)->type), count,
                       safetensors_type_name(safetensors_type_of(dtype)));
    return ERR_NONE;
}

static int read_initial(struct given *given, const struct safetensors *file)
{
    const struct check_case *c = given->setting.c;
    for (int i = 0; i < c->param_count; i++) {
        const struct safetensors_tensor *tensor;
        size_t count = c->params[i].count;
        if (case_owner(c, i) != i)
            continue;
        TRY(find_tensor(file, c->params[i].name, count, DTYPE_FP32, &tensor));
        TRY(safetensors_read(file, tensor, 0, count, given->initial[given->param_of[i]]));
    }
    return ERR_NONE;
}

static int read_step(struct given *given, const struct safetensors *file, struct given_step *step)
{
    const struct check_case *c = given->setting.c;
    step->data = malloc(file->data_bytes + 1);
    step->tensors = calloc(place_of(c, c->world, 0), sizeof *step->tensors);
    if (!step->data || !step->tensors)
        return err_set(ERR_MEMORY, "%s: no memory for %llu bytes", file->path, (unsigned long long)file->data_bytes);
    TRY(file_read_at(file->fd, file->path, file->data_begin, step->data, file->data_bytes));
    for (int rank = 0; rank < c->world; rank++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int i = 0; i < c->param_count; i++) {
                char name[CASE_TENSOR_BYTES];
                const struct safetensors_tensor *tensor;
                if (!c->params[i].used || c->params[case_owner(c, i)].frozen)
                    continue;
                case_gradient_name(name, micro, rank, c->params[i].name);
                TRY(find_tensor(file, name, c->params[i].count, c->precision, &tensor));
                step->tensors[place_of(c, rank, micro) + (size_t)i] = step->data + tensor->begin;
            }
    return ERR_NONE;
}

// step 0: the initial parameters.
static int read_file(struct given *given, int step)
{
    char name[32] = "init.safetensors", path[PATH_MAX];
    struct safetensors file;
    if (step > 0)
        snprintf(name, sizeof name, "grads-%d.safetensors", step);
    TRY(file_join(given->setting.folder, name, path));
    TRY(safetensors_open(path, &file));
    int rc = step > 0 ? read_step(given, &file, &given->steps[step]) : read_initial(given, &file);
    safetensors_close(&file);
    return rc;
}

static int open_seen(struct given *given)
{
    const struct check_case *c = given->setting.c;
    size_t places = place_of(c, c->world, 0);
    if (!(given->seen = calloc(places + 1, sizeof *given->seen)))
        return err_set(ERR_MEMORY, "no memory for what forward sees");
    for (size_t i = 0; i < places; i++)
        if (!(given->seen[i] = calloc(c->params[i % (size_t)c->param_count].count + 1, dtype_bytes(c->precision))))
            return err_set(ERR_MEMORY, "no memory for what forward sees");
    return ERR_NONE;
}

static int open_given(struct given *given)
{
    const struct check_case *c = given->setting.c;
    TRY(open_params(given));
    open_units(given);
    if (c->phase != PHASE_RESUME)
        TRY(read_file(given, 0));
    for (int step = case_first_step(c); step <= case_last_step(c); step++)
        TRY(read_file(given, step));
    return given->setting.keeps_seen ? open_seen(given) : ERR_NONE;
}

int given_open(const struct given_setting *setting, struct given **out)
{
    struct given *given = *out = calloc(1, sizeof *given);
    if (!given)
        return err_set(ERR_MEMORY, "no memory for the model of a case");
    given->setting = *setting;
    given->model = (struct model){
        .name = "given",
        .params = given->params,
        .units = given->units,
        .group_count = setting->c->group_count,
        .sequence_length = 1,
        .operations = &given_operations,
        .shape = given,
    };
    int rc = open_given(given);
    if (rc != ERR_NONE) {
        given_close(given);
        *out = NULL;
    }
    return rc;
}

void given_close(struct given *given)
{
    if (!given)
        return;
    for (size_t i = 0; given->seen && i < place_of(given->setting.c, given->setting.c->world, 0); i++)
        free(given->seen[i]);
    free(given->seen);
    for (int i = 0; i < CASE_PARAM_MAX; i++)
        free(given->initial[i]);
    for (int step = 0; step <= CASE_STEP_MAX; step++) {
        free(given->steps[step].data);
        free(given->steps[step].tensors);
    }
    free(given);
}
