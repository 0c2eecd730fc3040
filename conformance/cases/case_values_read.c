// SPDX-License-Identifier: Apache-2.0
// Reads the numbers of a case from its folder, which is untrusted.
#include "base/err.h"
#include "base/file.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_values.h"
#include "ref/checkpoint/safetensors.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX ((uint64_t)1 << 28)  // of a case in all
enum { HEADER_BYTES_MAX = 1 << 24 };

static int check_size(const struct check_case *c, const char *folder)
{
    uint64_t slots = (uint64_t)c->steps * (uint64_t)c->accumulation * (uint64_t)c->world, numbers = 0;
    for (int i = 0; i < c->param_count; i++)
        numbers += c->params[i].count * (1 + slots);
    if (numbers <= NUMBERS_MAX)
        return ERR_NONE;
    return err_set(ERR_USAGE, "%s/case.json: parameters and gradients have %llu numbers in all, expected at most %llu",
                   folder, (unsigned long long)numbers, (unsigned long long)NUMBERS_MAX);
}

static bool same_shape(const struct safetensors_tensor *tensor, int shape_rank, const size_t *shape)
{
    bool same = tensor->shape_rank == shape_rank;
    for (int i = 0; same && i < shape_rank; i++)
        same = tensor->shape[i] == shape[i];
    return same;
}

static int read_tensor(const struct safetensors *file, const char *name, int shape_rank, const size_t *shape,
                       enum dtype dtype, float *out)
{
    const struct safetensors_tensor *tensor = safetensors_find(file, name);
    size_t count = 1;
    for (int i = 0; i < shape_rank; i++)
        count *= shape[i];
    if (!tensor)
        return err_set(ERR_USAGE, "%s: has no tensor \"%s\"", file->path, name);
    if (tensor->type != safetensors_type_of(dtype) || !same_shape(tensor, shape_rank, shape))
        return err_set(ERR_USAGE, "%s: tensor \"%s\" has another type or shape than case.json says (%s)", file->path,
                       name, safetensors_type_name(safetensors_type_of(dtype)));
    return safetensors_read_fp32(file, tensor, 0, count, out);
}

static float rounded(enum dtype dtype, float x)
{
    return dtype == DTYPE_FP32 ? x : dtype == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x)) : fp16_to_f32(f32_to_fp16(x));
}

// Initial parameters are finite, and the model's dtype can represent them.
static int check_initial(const struct safetensors *file, const struct case_param *param, enum dtype precision,
                         const float *values)
{
    for (size_t i = 0; i < param->count; i++) {
        if (!isfinite(values[i]) || rounded(precision, values[i]) != values[i])
            return err_set(ERR_USAGE, "%s: element %zu of \"%s\" is %.9g, expected a finite number that %s represents",
                           file->path, i, param->name, (double)values[i], dtype_name(precision));
    }
    return ERR_NONE;
}

static int read_initial(const struct check_case *c, const struct safetensors *file, struct case_values *values)
{
    for (int i = 0; i < c->param_count; i++) {
        float *out = case_values_initial(values, i);
        if (!out)
            continue;
        TRY(read_tensor(file, c->params[i].name, c->params[i].shape_rank, c->params[i].shape, DTYPE_FP32, out));
        TRY(check_initial(file, &c->params[i], c->precision, out));
    }
    return ERR_NONE;
}

// Puts a rank's part of a gradient into the whole one of its micro-batch: the inverse of case_part_gradient. first,
// end: the data ranks that the part is of.
static int take_part(const struct check_case *c, const char *path, int rank, int first, int end, int use,
                     const float *part, float *whole)
{
    struct mesh mesh = case_mesh(c);
    int tensor_rank = mesh_index_in(&mesh, MESH_TENSOR, rank), sequence = case_sequence_ranks(c);
    bool partial = c->params[use].placement.part == PART_PARTIAL;
    bool adds = first % sequence > 0 || (partial && tensor_rank > 0);
    bool last = end % sequence == 0 && (!partial || tensor_rank == mesh.tensor - 1);
    for (size_t i = 0; i < case_part_count(c, use); i++) {
        size_t element = case_whole_element(c, tensor_rank, use, i);
        float *to = &whole[element];
        *to = adds ? *to + part[i] : part[i];
        if (last && !isnan(*to) && rounded(c->precision, *to) != *to)
            return err_set(ERR_USAGE,
                           "%s: the shares of element %zu of \"%s\" have the sum %.9g, which %s does not "
                           "represent",
                           path, element, c->params[use].name, (double)*to, dtype_name(c->precision));
    }
    return ERR_NONE;
}

static int read_rank(const struct check_case *c, const struct safetensors *file, int micro, int rank, int use,
                     float *part)
{
    char name[CASE_TENSOR_BYTES];
    size_t shape[CASE_SHAPE_MAX];
    case_gradient_name(name, micro, rank, c->params[use].name);
    case_part_shape(c, use, shape);
    return read_tensor(file, name, c->params[use].shape_rank, shape, c->precision, part);
}

// A part that is whole on all tensor ranks is the same on them, and taken from the first. An expert's gradient is of
// its whole expert group: the group's first micro-batch gets it, the others have zeros.
static int read_part(const struct check_case *c, const struct safetensors *file, int step, int micro, int rank, int use,
                     struct case_values *values)
{
    struct mesh mesh = case_mesh(c);
    const struct case_placement *placement = &c->params[use].placement;
    int group = placement->is_expert ? mesh.expert : 1, tensor_rank = mesh_index_in(&mesh, MESH_TENSOR, rank);
    int first = mesh_index_in(&mesh, MESH_DATA, rank) / group * group;
    size_t count = case_part_count(c, use), same = 0;
    float *whole = case_values_gradient(values, step, micro, first / case_sequence_ranks(c), use);
    if (!whole || !case_is_used_in(c, use, step, micro) || !case_holds(c, rank, use))
        return ERR_NONE;
    float *part = malloc((2 * count + 1) * sizeof *part);
    if (!part)
        return err_set(ERR_MEMORY, "no memory for a gradient of %s", c->params[use].name);
    float *other = part + count;
    bool is_copy = placement->part == PART_WHOLE && tensor_rank > 0;
    int rc = read_rank(c, file, micro, rank, use, part);
    if (rc == ERR_NONE && is_copy)
        rc = read_rank(c, file, micro, rank - tensor_rank, use, other);
    else if (rc == ERR_NONE)
        rc = take_part(c, file->path, rank, first, first + group, use, part, whole);
    while (rc == ERR_NONE && is_copy && same < count && memcmp(&part[same], &other[same], sizeof *part) == 0)
        same++;
    if (rc == ERR_NONE && is_copy && same < count)
        rc = err_set(ERR_USAGE, "%s: rank %d has another element %zu of \"%s\" than its first tensor rank", file->path,
                     rank, same, c->params[use].name);
    free(part);
    return rc;
}

static int read_gradients(const struct check_case *c, const struct safetensors *file, int step,
                          struct case_values *values)
{
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int i = 0; i < c->param_count; i++)
                TRY(read_part(c, file, step, micro, rank, i, values));
    return ERR_NONE;
}

// step 0: the initial parameters.
static int read_file(const struct check_case *c, const char *folder, int step, struct case_values *values)
{
    char name[40] = "init.safetensors", path[PATH_MAX];
    struct safetensors file;
    if (step > 0)
        snprintf(name, sizeof name, "grads-%d.safetensors", step);
    TRY(file_join(folder, name, path));
    TRY(safetensors_open_at(AT_FDCWD, path, path, HEADER_BYTES_MAX, &file));
    int rc = step > 0 ? read_gradients(c, &file, step, values) : read_initial(c, &file, values);
    safetensors_close(&file);
    return rc;
}

int case_values_read(const struct check_case *c, const char *folder, struct case_values **out)
{
    *out = NULL;
    TRY(check_size(c, folder));
    TRY(case_values_blank(c, out));
    int rc = read_file(c, folder, 0, *out);
    for (int step = case_first_step(c); rc == ERR_NONE && step <= case_last_step(c); step++)
        rc = read_file(c, folder, step, *out);
    if (rc != ERR_NONE) {
        case_values_close(*out);
        *out = NULL;
    }
    return rc;
}

// NaN is the largest of all.
static bool is_larger(float a, float b)
{
    return isnan(a) || fabsf(a) > fabsf(b);
}

static void precede(const struct check_case *save, struct case_values *saved, const struct check_case *resume,
                    struct case_values *resumed, int step, int micro, int param)
{
    size_t count = save->params[param].count;
    int ranks = case_batches(save);
    bool same = ranks == case_batches(resume);
    for (int rank = 0; rank < ranks; rank++) {
        const float *from = case_values_gradient(saved, step, micro, rank, param);
        float *to = case_values_gradient(resumed, step, micro, same ? rank : 0, param);
        for (size_t i = 0; from && to && i < count; i++)
            if (same || rank == 0 || is_larger(from[i], to[i]))
                to[i] = from[i];
    }
    for (int rank = 1; rank < case_batches(resume) && !same; rank++) {
        float *rest = case_values_gradient(resumed, step, micro, rank, param);
        if (rest)
            memset(rest, 0, count * sizeof *rest);
    }
}

void case_values_precede(const struct check_case *save, struct case_values *saved, const struct check_case *resume,
                         struct case_values *resumed)
{
    for (int step = 1; step <= resume->checkpoint_step; step++)
        for (int micro = 0; micro < save->accumulation && micro < resume->accumulation; micro++)
            for (int i = 0; i < save->param_count && i < resume->param_count; i++)
                precede(save, saved, resume, resumed, step, micro, i);
}
