// SPDX-License-Identifier: Apache-2.0
// Writes a case's folder: case.json and the tensors. It need not survive a loss of power: nothing is synced.
#include "conformance/cases/case_mesh.h"

#include "base/err.h"
#include "base/file.h"
#include "ref/checkpoint/safetensors.h"
#include "conformance/cases/case_folders.h"
#include "base/json.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_text(const struct check_case *c, const char *folder, bool tells)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    TRY(file_join(folder, "case.json", path));
    TRY(case_text_of(c, tells, &text, &bytes));
    struct file_output file;
    int rc = file_output_open(path, FILE_NEW, &file);
    if (rc == ERR_NONE) {
        fwrite(text, 1, bytes, file.out);
        rc = file_output_close(&file, ERR_NONE);
    }
    free(text);
    return rc;
}

// The tensors of one file: where their numbers are, in fp32, and what they are called.
struct tensors {
    struct safetensors_tensor *list;
    char (*names)[CASE_TENSOR_BYTES];
    const float **numbers;
    float **parts;  // those of the numbers that are owned; NULL for the others
    size_t count;
};

static int open_tensors(struct tensors *tensors, size_t room)
{
    *tensors = (struct tensors){.list = calloc(room + 1, sizeof *tensors->list),
                                .names = calloc(room + 1, sizeof *tensors->names),
                                .numbers = calloc(room + 1, sizeof *tensors->numbers),
                                .parts = calloc(room + 1, sizeof *tensors->parts)};
    if (tensors->list && tensors->names && tensors->numbers && tensors->parts)
        return ERR_NONE;
    return err_set(ERR_MEMORY, "no memory for the names of %zu tensors", room);
}

static void close_tensors(struct tensors *tensors)
{
    for (size_t i = 0; tensors->parts && i < tensors->count; i++)
        free(tensors->parts[i]);
    free(tensors->parts);
    free(tensors->list);
    free(tensors->names);
    free(tensors->numbers);
}

// The name has been written to names[count].
static void add_tensor(struct tensors *tensors, enum dtype dtype, int shape_rank, const size_t shape[],
                       const float *numbers)
{
    struct safetensors_tensor *tensor = &tensors->list[tensors->count];
    *tensor = (struct safetensors_tensor){
        .name = tensors->names[tensors->count], .type = safetensors_type_of(dtype), .shape_rank = shape_rank};
    for (int i = 0; i < shape_rank; i++)
        tensor->shape[i] = shape[i];
    tensors->numbers[tensors->count++] = numbers;
}

static int write_numbers(struct safetensors_writer *writer, enum dtype dtype, const struct tensors *tensors)
{
    for (size_t i = 0; i < tensors->count; i++) {
        size_t count = tensors->list[i].count, bytes = count * dtype_bytes(dtype);
        void *narrow = malloc(bytes + 1);
        if (!narrow)
            return err_set(ERR_MEMORY, "no memory for %zu bytes of a tensor", bytes);
        dtype_narrow(dtype, tensors->numbers[i], narrow, count);
        int rc = safetensors_write(writer, narrow, bytes);
        free(narrow);
        TRY(rc);
    }
    return ERR_NONE;
}

static int write_tensors(const char *folder, const char *name, enum dtype dtype, const struct tensors *tensors)
{
    char path[PATH_MAX];
    struct safetensors_writer *writer;
    TRY(file_join(folder, name, path));
    TRY(safetensors_create(path, tensors->list, tensors->count, NULL, &writer));
    int rc = write_numbers(writer, dtype, tensors);
    if (rc != ERR_NONE) {
        safetensors_abandon(writer);
        return rc;
    }
    safetensors_leave_volatile(writer);
    return safetensors_finish(writer, NULL, NULL);
}

static int write_initial(const struct check_case *c, const struct case_values *values, const char *folder)
{
    struct tensors tensors;
    int rc = open_tensors(&tensors, (size_t)c->param_count);
    for (int i = 0; rc == ERR_NONE && i < c->param_count; i++) {
        if (c->params[i].tied_to >= 0)
            continue;
        snprintf(tensors.names[tensors.count], CASE_TENSOR_BYTES, "%s", c->params[i].name);
        add_tensor(&tensors, DTYPE_FP32, c->params[i].shape_rank, c->params[i].shape, case_initial(values, i));
    }
    if (rc == ERR_NONE)
        rc = write_tensors(folder, "init.safetensors", DTYPE_FP32, &tensors);
    close_tensors(&tensors);
    return rc;
}

// The gradient of a use on a rank, if the rank has one; on a mesh, its part of it.
static int add_gradient(const struct check_case *c, const struct case_values *values, struct tensors *tensors, int step,
                        int micro, int rank, int use)
{
    size_t shape[CASE_SHAPE_MAX];
    if (!case_is_used_in(c, use, step, micro) || !case_holds(c, rank, use))
        return ERR_NONE;
    float *part = NULL;
    if (case_has_mesh(c)) {
        part = tensors->parts[tensors->count] = malloc((case_part_count(c, use) + 1) * sizeof *part);
        if (!part)
            return err_set(ERR_MEMORY, "no memory for a gradient of %s", c->params[use].name);
        case_part_gradient(c, values, step, micro, rank, use, part);
    }
    case_gradient_name(tensors->names[tensors->count], micro, rank, c->params[use].name);
    case_part_shape(c, use, shape);
    add_tensor(tensors, c->precision, c->params[use].shape_rank, shape,
               part ? part : case_gradient(values, step, micro, rank, use));
    return ERR_NONE;
}

static int write_gradients(const struct check_case *c, const struct case_values *values, const char *folder, int step)
{
    char name[CASE_NAME_BYTES];
    struct tensors tensors;
    int rc = open_tensors(&tensors, (size_t)(c->accumulation * c->world * c->param_count));
    for (int micro = 0; rc == ERR_NONE && micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int i = 0; rc == ERR_NONE && i < c->param_count; i++)
                rc = add_gradient(c, values, &tensors, step, micro, rank, i);
    snprintf(name, sizeof name, "grads-%d.safetensors", step);
    if (rc == ERR_NONE)
        rc = write_tensors(folder, name, c->precision, &tensors);
    close_tensors(&tensors);
    return rc;
}

static int write_all(const struct check_case *c, const struct case_values *values, const char *folder, bool tells)
{
    char path[PATH_MAX];
    TRY(file_join(folder, c->name, path));
    if (mkdir(path, 0777) != 0)
        return err_set(ERR_IO, "%s: cannot be created: %s", path, strerror(errno));
    TRY(write_text(c, path, tells));
    TRY(write_initial(c, values, path));
    for (int step = case_first_step(c); step <= case_last_step(c); step++)
        TRY(write_gradients(c, values, path, step));
    return ERR_NONE;
}

int case_write(const struct check_case *c, const struct case_values *values, const char *folder)
{
    return write_all(c, values, folder, true);
}

int case_write_untold(const struct check_case *c, const struct case_values *values, const char *folder)
{
    return write_all(c, values, folder, false);
}

enum { ORDER_BYTES_MAX = 1 << 24 };

int case_order_read(const char *cases, json_t **out)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    TRY(file_join(cases, "order.json", path));
    TRY(file_read_text(path, ORDER_BYTES_MAX, &text, &bytes));
    int code = json_parse(path, 1, text, bytes, out);
    free(text);
    if (code != ERR_NONE)
        return code;
    bool names = json_is_array(*out);
    for (size_t i = 0; names && i < json_array_size(*out); i++) {
        const char *name = json_string_value(json_array_get(*out, i));
        names = name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < CASE_NAME_BYTES;
    }
    if (names)
        return ERR_NONE;
    json_decref(*out);
    *out = NULL;
    return err_set(ERR_USAGE, "%s: expected a list of the names of folders next to it", path);
}

int case_order_of_world(const char *cases, int world, json_t **out)
{
    char folder[PATH_MAX];
    TRY(case_order_read(cases, out));
    for (size_t i = json_array_size(*out); i > 0; i--) {
        const char *name = json_string_value(json_array_get(*out, i - 1));
        struct check_case c;
        if (file_join(cases, name, folder) == ERR_NONE && case_read(folder, &c) == ERR_NONE && c.world != world)
            json_array_remove(*out, i - 1);
    }
    if (json_array_size(*out) > 0)
        return ERR_NONE;
    json_decref(*out);
    *out = NULL;
    return err_set(ERR_USAGE, "%s/order.json: no case has world %d", cases, world);
}

int case_order_write(const char *cases, const json_t *names)
{
    char path[PATH_MAX];
    TRY(file_join(cases, "order.json", path));
    assert(json_is_array(names));
    return json_write(path, FILE_REPLACED, names, JSON_INDENT(1));
}

int case_state_folder(const struct check_case *c, const char *state, char out[PATH_MAX])
{
    static const char save[] = ".save", resume[] = ".resume";
    const char *ending = c->phase == PHASE_SAVE ? save : resume, *name = c->name;
    const char *at = NULL;
    for (const char *next = strstr(name, ending); next; next = strstr(next + 1, ending))
        at = next;
    char base[CASE_NAME_BYTES];
    snprintf(base, sizeof base, "%.*s%s", at ? (int)(at - name) : (int)strlen(name), name,
             at ? at + strlen(ending) : "");
    if (!state)
        return err_set(ERR_USAGE, "a case that resumes needs the argument STATE, the folder of its checkpoint");
    TRY(file_join(state, base, out));
    if (!at || c->phase == PHASE_SAVE || access(out, F_OK) == 0)
        return ERR_NONE;
    base[at - name] = '\0';
    return file_join(state, base, out);
}
