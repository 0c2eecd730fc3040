// SPDX-License-Identifier: Apache-2.0
// Writes a case's folder: case.json by hand, so that its bytes are the same wherever it is made, and the tensors. It
// need not survive a loss of power: nothing is synced.
#include "conformance/cases/case.h"
#include "base/err.h"
#include "base/file.h"
#include "ref/checkpoint/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const tier_words[] = {"none", "cpu", "nvme"};

static const char *yes(bool value)
{
    return value ? "true" : "false";
}

// The shortest digits that read back to the same double. "-0" would be read as the integer 0.
static void put_real(FILE *out, double value)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(value == 0 && signbit(value) ? "-0.0" : text, out);
}

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_param(FILE *out, const struct check_case *c, int index)
{
    const struct case_param *param = &c->params[index];
    fprintf(out, "  {\"name\": \"%s\", \"shape\": [", param->name);
    for (int i = 0; i < param->shape_rank; i++)
        fprintf(out, "%s%zu", i ? ", " : "", param->shape[i]);
    fprintf(out, "], \"group\": %d, \"frozen\": %s, \"used\": %s, \"tied_to\": ", param->group, yes(param->frozen),
            yes(param->used));
    if (param->tied_to >= 0)
        fprintf(out, "\"%s\"", c->params[param->tied_to].name);
    else
        fputs("null", out);
    fprintf(out, "}%s\n", index + 1 < c->param_count ? "," : "");
}

static void put_group(FILE *out, const struct check_case *c, int index)
{
    const struct case_group *group = &c->groups[index];
    fprintf(out, "  {\"optimizer\": \"%s\", \"lr\": %s", group->decoupled ? "AdamW" : "Adam",
            group->lr_by_step ? "[" : "");
    for (int i = 0; i < (group->lr_by_step ? c->steps : 1); i++) {
        fputs(i ? ", " : "", out);
        put_real(out, group->lr[i]);
    }
    fprintf(out, "%s, \"betas\": [", group->lr_by_step ? "]" : "");
    put_real(out, group->beta1);
    fputs(", ", out);
    put_real(out, group->beta2);
    fputs("], \"eps\": ", out);
    put_real(out, group->eps);
    fputs(", \"weight_decay\": ", out);
    put_real(out, group->weight_decay);
    fprintf(out, ", \"bias_correction\": %s}%s\n", yes(group->bias_correction), index + 1 < c->group_count ? "," : "");
}

static void put_loss_scale(FILE *out, const struct case_loss_scale *scale)
{
    if (scale->kind == SCALE_NONE) {
        fputs(" \"loss_scale\": {\"kind\": \"none\"},\n", out);
        return;
    }
    bool dynamic = scale->kind == SCALE_DYNAMIC;
    fprintf(out, " \"loss_scale\": {\"kind\": \"%s\", \"%s\": ", dynamic ? "dynamic" : "static",
            dynamic ? "initial_scale" : "scale");
    put_real(out, scale->scale);
    if (dynamic) {
        fprintf(out, ", \"window\": %" PRIu64 ", \"hysteresis\": %" PRIu64 ", \"min_scale\": ", scale->window,
                scale->hysteresis);
        put_real(out, scale->min_scale);
    }
    fputs("},\n", out);
}

static void put_identity(FILE *out, const struct check_case *c, bool tells)
{
    fprintf(out, "{\n \"contract\": %d,\n \"name\": \"%s\",\n \"note\": ", CASE_CONTRACT, c->name);
    put_string(out, c->note);
    fputs(tells ? ",\n \"requirements\": [" : "", out);
    for (int i = 0; tells && i < c->requirement_count; i++)
        fprintf(out, "%s\"%s\"", i ? ", " : "", c->requirements[i]);
    fprintf(out, "%s,\n \"world\": %d,\n \"steps\": %d,\n \"accumulation\": %d,\n \"stage\": %d,\n", tells ? "]" : "",
            c->world, c->steps, c->accumulation, c->stage);
    fprintf(out, " \"precision\": \"%s\",\n \"communication_dtype\": \"%s\",\n \"accumulation_dtype\": \"%s\",\n",
            dtype_name(c->precision), dtype_name(c->communication_dtype), dtype_name(c->accumulation_dtype));
}

static void put_hints(FILE *out, const struct check_case *c)
{
    fprintf(out, " \"buckets\": {\"reduce\": %zu, \"allgather\": %zu, \"prefetch\": %zu, \"sub_group\": %zu},\n",
            c->reduce_bucket, c->allgather_bucket, c->prefetch_bucket, c->sub_group);
    fprintf(out, " \"hints\": {\"overlap\": %s, \"contiguous_gradients\": %s, \"reduce_scatter\": %s},\n",
            yes(c->overlap), yes(c->contiguous_gradients), yes(c->reduce_scatter));
    fprintf(out, " \"offload\": {\"optimizer\": \"%s\", \"param\": \"%s\"},\n", tier_words[c->offload_optimizer],
            tier_words[c->offload_param]);
    fprintf(out, " \"delayed_update\": %d,\n", c->delayed_update);
    if (c->phase == PHASE_WHOLE)
        fputs(" \"checkpoint\": null", out);
    else
        fprintf(out, " \"checkpoint\": {\"phase\": \"%s\", \"step\": %d, \"weights_only\": %s}",
                c->phase == PHASE_SAVE ? "save" : "resume", c->checkpoint_step, yes(c->weights_only));
}

// tells: with the keys that tell the right answer.
static void put_case(FILE *out, const struct check_case *c, bool tells)
{
    put_identity(out, c, tells);
    fputs(" \"params\": [\n", out);
    for (int i = 0; i < c->param_count; i++)
        put_param(out, c, i);
    fputs(" ],\n \"groups\": [\n", out);
    for (int i = 0; i < c->group_count; i++)
        put_group(out, c, i);
    fputs(" ],\n \"gradient_clipping\": ", out);
    put_real(out, c->gradient_clipping);
    fputs(",\n", out);
    put_loss_scale(out, &c->loss_scale);
    fprintf(out, " \"overflow_check\": %s,\n", yes(c->overflow_check));
    put_hints(out, c);
    if (tells)
        fprintf(out, ",\n \"exact\": %s,\n \"expect\": \"%s\"", yes(c->exact),
                c->expects_refusal ? "refusal" : "answer");
    fputs("\n}\n", out);
}

static int make_text(const struct check_case *c, bool tells, char **text, size_t *bytes)
{
    *text = NULL;
    FILE *out = open_memstream(text, bytes);
    if (!out)
        return err_set(ERR_MEMORY, "no memory for the text of case %s", c->name);
    put_case(out, c, tells);
    if (fclose(out) != 0) {
        free(*text);
        return err_set(ERR_MEMORY, "no memory for the text of case %s", c->name);
    }
    return ERR_NONE;
}

int case_text(const struct check_case *c, char **text, size_t *bytes)
{
    return make_text(c, true, text, bytes);
}

static int write_text(const struct check_case *c, const char *folder, bool tells)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    TRY(file_join(folder, "case.json", path));
    TRY(make_text(c, tells, &text, &bytes));
    FILE *out = fopen(path, "wbx");
    bool failed = !out || fwrite(text, 1, bytes, out) != bytes;
    failed |= out && fclose(out) != 0;
    free(text);
    return failed ? err_set(ERR_IO, "%s: cannot be written: %s", path, strerror(errno)) : ERR_NONE;
}

// The tensors of one file: where their numbers are, in fp32, and what they are called.
struct tensors {
    struct safetensors_tensor *list;
    char (*names)[CASE_TENSOR_BYTES];
    const float **numbers;
    size_t count;
};

static int open_tensors(struct tensors *tensors, size_t room)
{
    *tensors = (struct tensors){.list = calloc(room + 1, sizeof *tensors->list),
                                .names = calloc(room + 1, sizeof *tensors->names),
                                .numbers = calloc(room + 1, sizeof *tensors->numbers)};
    if (tensors->list && tensors->names && tensors->numbers)
        return ERR_NONE;
    return err_set(ERR_MEMORY, "no memory for the names of %zu tensors", room);
}

static void close_tensors(struct tensors *tensors)
{
    free(tensors->list);
    free(tensors->names);
    free(tensors->numbers);
}

// The name has been written to names[count].
static void add_tensor(struct tensors *tensors, enum dtype dtype, const struct case_param *param, const float *numbers)
{
    struct safetensors_tensor *tensor = &tensors->list[tensors->count];
    *tensor = (struct safetensors_tensor){
        .name = tensors->names[tensors->count], .type = safetensors_type_of(dtype), .shape_rank = param->shape_rank};
    for (int i = 0; i < param->shape_rank; i++)
        tensor->shape[i] = param->shape[i];
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
        add_tensor(&tensors, DTYPE_FP32, &c->params[i], case_initial(values, i));
    }
    if (rc == ERR_NONE)
        rc = write_tensors(folder, "init.safetensors", DTYPE_FP32, &tensors);
    close_tensors(&tensors);
    return rc;
}

static int write_gradients(const struct check_case *c, const struct case_values *values, const char *folder, int step)
{
    char name[CASE_NAME_BYTES];
    struct tensors tensors;
    int rc = open_tensors(&tensors, (size_t)(c->accumulation * c->world * c->param_count));
    for (int micro = 0; rc == ERR_NONE && micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int i = 0; i < c->param_count; i++) {
                const float *gradient = case_gradient(values, step, micro, rank, i);
                if (!gradient)
                    continue;
                case_gradient_name(tensors.names[tensors.count], micro, rank, c->params[i].name);
                add_tensor(&tensors, c->precision, &c->params[i], gradient);
            }
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
