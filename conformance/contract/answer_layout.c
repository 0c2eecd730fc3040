// SPDX-License-Identifier: Apache-2.0
#include "conformance/contract/answer_layout.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "base/safe_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bounds of a header: far more than a tensor needs, even escaped and with blanks, and room for metadata.
enum { ENTRY_BYTES_MAX = 1024, METADATA_BYTES_MAX = 1 << 16, SCALAR_BYTES_MAX = 8, SHAPE_TEXT_BYTES = 128 };

static void add(struct answer_layout *layout, enum answer_entry_kind kind, int param, int micro, bool required)
{
    static const char *const folders[] = {
        [ENTRY_PARAM] = "param", [ENTRY_EXP_AVG] = "exp_avg", [ENTRY_EXP_AVG_SQ] = "exp_avg_sq", [ENTRY_GRAD] = "grad"};
    static const char *const scalars[] = {
        [ENTRY_T] = "t",       [ENTRY_SKIPPED] = "skipped", [ENTRY_LOSS_SCALE] = "loss_scale",
        [ENTRY_NORM] = "norm", [ENTRY_LOSS] = "loss",       [ENTRY_TOKENS] = "tokens"};
    struct answer_entry *entry = &layout->entries[layout->count++];
    *entry = (struct answer_entry){.kind = kind, .param = param, .micro = micro, .required = required};
    uint64_t bytes = SCALAR_BYTES_MAX;
    if (param < 0) {
        snprintf(entry->name, sizeof entry->name, "%s", scalars[kind]);
    } else if (kind == ENTRY_SEEN) {
        case_seen_name(entry->name, micro, layout->c->params[param].name);
        bytes = case_part_count(layout->c, param) * dtype_bytes(layout->c->precision);
    } else {
        bool momentum = kind == ENTRY_EXP_AVG && case_is_muon(layout->c, param);
        snprintf(entry->name, sizeof entry->name, "%s/%s", momentum ? "momentum" : folders[kind],
                 layout->c->params[param].name);
        bytes = layout->c->params[param].count * sizeof(float);
    }
    layout->header_bytes_max += ENTRY_BYTES_MAX;
    layout->file_bytes_max += ENTRY_BYTES_MAX + bytes;
}

static int begin(const struct check_case *c, size_t room, struct answer_layout *out)
{
    *out = (struct answer_layout){
        .c = c, .header_bytes_max = METADATA_BYTES_MAX, .file_bytes_max = sizeof(uint64_t) + METADATA_BYTES_MAX};
    out->entries = calloc(room, sizeof *out->entries);
    return out->entries ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the list of an answer's tensors");
}

int answer_layout_of_step(const struct check_case *c, struct answer_layout *out)
{
    TRY(begin(c, (size_t)c->param_count * 4 + 6, out));
    add(out, ENTRY_T, -1, 0, true);
    if (c->overflow_check)
        add(out, ENTRY_SKIPPED, -1, 0, true);
    if (c->loss_scale.kind != SCALE_NONE)
        add(out, ENTRY_LOSS_SCALE, -1, 0, true);
    add(out, ENTRY_NORM, -1, 0, false);
    if (c->has_tokens) {
        add(out, ENTRY_LOSS, -1, 0, false);
        add(out, ENTRY_TOKENS, -1, 0, false);
    }
    for (int i = 0; i < c->param_count; i++) {
        if (c->params[i].tied_to >= 0)
            continue;
        add(out, ENTRY_PARAM, i, 0, true);
        if (!case_is_trained(c, i))
            continue;
        bool has_gradient = case_has_gradient(c, i);
        add(out, ENTRY_EXP_AVG, i, 0, has_gradient);
        if (!case_is_muon(c, i))
            add(out, ENTRY_EXP_AVG_SQ, i, 0, has_gradient);
        add(out, ENTRY_GRAD, i, 0, false);
    }
    return ERR_NONE;
}

int answer_layout_of_seen(const struct check_case *c, int step, int rank, struct answer_layout *out)
{
    TRY(begin(c, (size_t)c->param_count * (size_t)c->accumulation + 1, out));
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int i = 0; i < c->param_count; i++)
            if (case_is_seen_in(c, i, step, micro) && case_holds(c, rank, i))
                add(out, ENTRY_SEEN, i, micro, true);
    return ERR_NONE;
}

void answer_layout_close(struct answer_layout *layout)
{
    free(layout->entries);
    *layout = (struct answer_layout){0};
}

// "[3, 5]"
static const char *shape_text(int rank, const uint64_t *shape, char out[SHAPE_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(out, SHAPE_TEXT_BYTES, "[");
    for (int i = 0; i < rank && used < SHAPE_TEXT_BYTES; i++)
        used += (size_t)snprintf(out + used, SHAPE_TEXT_BYTES - used, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (used < SHAPE_TEXT_BYTES)
        snprintf(out + used, SHAPE_TEXT_BYTES - used, "]");
    return out;
}

static int check_type(const struct answer_layout *layout, const struct answer_entry *entry, const char *path,
                      enum safetensors_type type)
{
    enum safetensors_type first = TENSOR_FP32, second = TENSOR_FP32;
    if (entry->kind == ENTRY_T || entry->kind == ENTRY_SKIPPED || entry->kind == ENTRY_TOKENS)
        first = second = TENSOR_I64;
    if (entry->kind == ENTRY_LOSS_SCALE || entry->kind == ENTRY_NORM || entry->kind == ENTRY_LOSS)
        second = TENSOR_FP64;
    if (entry->kind == ENTRY_SEEN)
        first = second = safetensors_type_of(layout->c->precision);
    if (type == first || type == second)
        return ERR_NONE;
    return err_set(ERR_USAGE, "%s: tensor \"%s\" is of dtype %s; expected %s%s%s", path, entry->name,
                   safetensors_type_name(type), safetensors_type_name(first), second == first ? "" : " or ",
                   second == first ? "" : safetensors_type_name(second));
}

int answer_entry_shape(const struct answer_layout *layout, const struct answer_entry *entry,
                       size_t shape[CASE_SHAPE_MAX])
{
    const struct case_param *param = &layout->c->params[entry->param];
    if (entry->kind == ENTRY_SEEN)
        case_part_shape(layout->c, entry->param, shape);
    else
        memcpy(shape, param->shape, sizeof param->shape);
    return param->shape_rank;
}

static int check_shape(const struct answer_layout *layout, const struct answer_entry *entry, const char *path,
                       const struct safetensors_tensor *tensor)
{
    int rank = 0;
    uint64_t shape[CASE_SHAPE_MAX] = {0};
    if (entry->param >= 0) {
        size_t expected[CASE_SHAPE_MAX];
        rank = answer_entry_shape(layout, entry, expected);
        for (int i = 0; i < rank; i++)
            shape[i] = expected[i];
    }
    if (tensor->shape_rank == rank && memcmp(tensor->shape, shape, (size_t)rank * sizeof shape[0]) == 0)
        return ERR_NONE;
    char actual[SHAPE_TEXT_BYTES], expected[SHAPE_TEXT_BYTES];
    return err_set(ERR_USAGE, "%s: tensor \"%s\" is of shape %s; expected %s", path, entry->name,
                   shape_text(tensor->shape_rank, tensor->shape, actual), shape_text(rank, shape, expected));
}

// Refuses a tensor that is none of the answer's, with the reason where it is of a parameter of the case.
static int refuse_surplus(const struct check_case *c, const char *path, const char *name)
{
    char shown[TEXT_MESSAGE_BYTES];
    text_message(shown, name, 100);
    const char *of = strchr(name, '/');
    bool is_param = of && strncmp(name, "param/", 6) == 0;
    for (int i = 0; of && i < c->param_count; i++) {
        if (strcmp(of + 1, c->params[i].name) != 0)
            continue;
        if (c->params[i].tied_to >= 0)
            return err_set(ERR_USAGE, "%s: tensor \"%s\": %s is tied: its states have the name of %s", path, shown,
                           c->params[i].name, c->params[c->params[i].tied_to].name);
        if (c->params[i].frozen && !is_param)
            return err_set(ERR_USAGE, "%s: tensor \"%s\": %s is frozen: it has no moments and no gradient", path, shown,
                           c->params[i].name);
    }
    return err_set(ERR_USAGE, "%s: tensor \"%s\" does not belong there: the case has no such tensor", path, shown);
}

static int check_surplus(const struct answer_layout *layout, const struct safetensors *file)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        size_t k = 0;
        while (k < layout->count && strcmp(layout->entries[k].name, file->tensors[i].name) != 0)
            k++;
        if (k == layout->count)
            return refuse_surplus(layout->c, file->path, file->tensors[i].name);
    }
    return ERR_NONE;
}

int answer_layout_match(const struct answer_layout *layout, const struct safetensors *file,
                        const struct safetensors_tensor *found[])
{
    // A surplus is looked for first: where a tensor is missing there is often one of a wrong name, which says more.
    TRY(check_surplus(layout, file));
    for (size_t i = 0; i < layout->count; i++) {
        const struct answer_entry *entry = &layout->entries[i];
        found[i] = safetensors_find(file, entry->name);
        if (!found[i] && entry->required)
            return err_set(ERR_USAGE, "%s: tensor \"%s\" is missing", file->path, entry->name);
        if (!found[i])
            continue;
        TRY(check_type(layout, entry, file->path, found[i]->type));
        TRY(check_shape(layout, entry, file->path, found[i]));
    }
    return ERR_NONE;
}
