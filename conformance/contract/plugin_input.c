// SPDX-License-Identifier: Apache-2.0
// What goes into a plug-in: a case's initial parameters and gradients, from its files.
#include "conformance/contract/plugin_internal.h"

#include "base/err.h"
#include "base/file.h"
#include "ref/checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One more: an empty tensor is there, too.
static int make_array(size_t count, size_t element_bytes, void *out)
{
    void *array = calloc(count + 1, element_bytes);
    if (!array)
        return err_set(ERR_MEMORY, "no memory for %zu elements", count);
    memcpy(out, &array, sizeof array);
    return ERR_NONE;
}

int plugin_arrays_open(struct plugin_run *run)
{
    const struct check_case *c = &run->c;
    size_t element_bytes = dtype_bytes(c->precision);
    for (int i = 0; i < c->param_count; i++) {
        size_t count = c->params[i].count;
        if (case_owner(c, i) == i) {
            TRY(make_array(count, sizeof(float), &run->initial[i]));
            TRY(make_array(count, sizeof(float), &run->now.param[i]));
        }
        if (case_is_trained(c, i)) {
            TRY(make_array(count, sizeof(float), &run->now.exp_avg[i]));
            TRY(make_array(count, sizeof(float), &run->now.exp_avg_sq[i]));
            TRY(make_array(count, sizeof(float), &run->now.grad[i]));
        }
        if (case_is_used(&run->c, i))
            TRY(make_array(count, element_bytes, &run->gradients[i]));
        for (int rank = 0; rank < c->world && c->params[i].used; rank++)
            for (int micro = 0; micro < c->accumulation; micro++)
                TRY(make_array(count, element_bytes, &run->seen[rank][micro][i]));
    }
    return ERR_NONE;
}

void plugin_arrays_close(struct plugin_run *run)
{
    for (int i = 0; i < CASE_PARAM_MAX; i++) {
        free(run->initial[i]);
        free(run->gradients[i]);
        for (int rank = 0; rank < CASE_WORLD_MAX; rank++)
            for (int micro = 0; micro < CASE_ACCUMULATION_MAX; micro++)
                free(run->seen[rank][micro][i]);
    }
    answer_step_close(&run->now);
}

static int read_tensor(const struct safetensors *file, const char *name, enum dtype dtype, size_t count, void *out)
{
    const struct safetensors_tensor *tensor = safetensors_find(file, name);
    if (!tensor || tensor->type != safetensors_type_of(dtype) || tensor->count != count)
        return err_set(ERR_USAGE, "%s: tensor \"%s\" is missing or not as the case says", file->path, name);
    return safetensors_read(file, tensor, 0, count, out);
}

static int open_tensors(const struct plugin_run *run, const char *name, struct safetensors *out)
{
    char path[PATH_MAX];
    TRY(file_join(run->folder, name, path));
    return safetensors_open(path, out);
}

int plugin_read_initial(struct plugin_run *run)
{
    struct safetensors file;
    TRY(open_tensors(run, "init.safetensors", &file));
    int rc = ERR_NONE;
    for (int i = 0; i < run->c.param_count && rc == ERR_NONE; i++)
        if (run->initial[i])
            rc = read_tensor(&file, run->c.params[i].name, DTYPE_FP32, run->c.params[i].count, run->initial[i]);
    safetensors_close(&file);
    return rc;
}

static int hand_over(struct plugin_run *run, const struct safetensors *file, int step, int micro, int rank)
{
    const struct check_case *c = &run->c;
    char name[CASE_TENSOR_BYTES];
    const void *gradients[CASE_PARAM_MAX] = {NULL};
    void *seen[CASE_PARAM_MAX] = {NULL};
    for (int i = 0; i < c->param_count; i++) {
        // NaN: what is not filled in shows.
        if (c->params[i].used)
            memset(run->seen[rank][micro][i], 0xff, c->params[i].count * dtype_bytes(c->precision));
        gradients[i] = case_is_used_in(c, i, step, micro) ? run->gradients[i] : NULL;
        seen[i] = case_is_seen_in(c, i, step, micro) ? run->seen[rank][micro][i] : NULL;
        if (!gradients[i])
            continue;
        case_gradient_name(name, micro, rank, c->params[i].name);
        TRY(read_tensor(file, name, c->precision, c->params[i].count, run->gradients[i]));
    }
    return plugin_result(run, "gradients", run->table->gradients(run->context, step, micro, rank, gradients, seen));
}

int plugin_feed(struct plugin_run *run, int step)
{
    char name[40];
    struct safetensors file;
    int rc = ERR_NONE;
    snprintf(name, sizeof name, "grads-%d.safetensors", step);
    TRY(open_tensors(run, name, &file));
    for (int micro = 0; micro < run->c.accumulation && rc == ERR_NONE; micro++)
        for (int rank = 0; rank < run->c.world && rc == ERR_NONE; rank++)
            rc = hand_over(run, &file, step, micro, rank);
    safetensors_close(&file);
    return rc;
}
