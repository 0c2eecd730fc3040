// SPDX-License-Identifier: Apache-2.0
// A safetensors file of an answer: its header, and the scalars of a step's file, against the case.
#include "conformance/contract/answer_check.h"

#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Far above any honest t, so that an implementation that counts t once a tensor is judged, and is not merely malformed.
enum { T_MAX = 1 << 20 };

// Reads a scalar in the file's format.
static int read_one(const struct answer_file *file, const struct safetensors_tensor *tensor, void *out)
{
    if (!file->bytes)
        return safetensors_read(&file->file, tensor, 0, 1, out);
    memcpy(out, file->bytes + file->file.data_begin + tensor->begin, safetensors_type_bytes(tensor->type));
    return ERR_NONE;
}

static int read_real(const struct answer_file *file, const struct safetensors_tensor *tensor, double *out)
{
    float value;
    if (tensor->type == TENSOR_FP64)
        return read_one(file, tensor, out);
    TRY(read_one(file, tensor, &value));
    *out = (double)value;
    return ERR_NONE;
}

static int read_scalar(struct answer_file *file, const struct answer_entry *entry,
                       const struct safetensors_tensor *tensor)
{
    const char *path = file->file.path;
    struct answer_step *scalars = &file->scalars;
    int64_t whole;
    switch (entry->kind) {
    case ENTRY_T:
        TRY(read_one(file, tensor, &whole));
        if (whole < 0 || whole > T_MAX)
            return err_set(ERR_USAGE, "%s: \"t\" is %" PRId64 "; expected the number of updates so far", path, whole);
        scalars->t = (uint64_t)whole;
        return ERR_NONE;
    case ENTRY_SKIPPED:
        TRY(read_one(file, tensor, &whole));
        if (whole != 0 && whole != 1)
            return err_set(ERR_USAGE, "%s: \"skipped\" is %" PRId64 "; expected 0 or 1", path, whole);
        scalars->skipped = whole == 1;
        return ERR_NONE;
    case ENTRY_LOSS_SCALE:
        scalars->has_loss_scale = true;
        TRY(read_real(file, tensor, &scalars->loss_scale));
        return isfinite(scalars->loss_scale)
                   ? ERR_NONE
                   : err_set(ERR_USAGE, "%s: \"loss_scale\" is not finite; expected a number", path);
    case ENTRY_NORM:
        scalars->has_norm = true;
        return read_real(file, tensor, &scalars->norm);
    case ENTRY_LOSS:
        scalars->has_loss = true;
        return read_real(file, tensor, &scalars->loss);
    case ENTRY_TOKENS:
        scalars->has_tokens = true;
        TRY(read_one(file, tensor, &whole));
        scalars->tokens = (uint64_t)whole;
        return whole >= 0
                   ? ERR_NONE
                   : err_set(ERR_USAGE, "%s: \"tokens\" is %" PRId64 "; expected a count, at least 0", path, whole);
    default:
        scalars->has_grad |= entry->kind == ENTRY_GRAD;
        return ERR_NONE;
    }
}

// Checks tensors that depend on each other: gradients and norm, and the two moments of a parameter.
static int check_together(const struct answer_file *file)
{
    const struct answer_step *scalars = &file->scalars;
    const char *path = file->file.path;
    if (scalars->skipped && (scalars->has_grad || scalars->has_norm))
        return err_set(ERR_USAGE, "%s: holds %s of a skipped step; expected none", path,
                       scalars->has_grad ? "gradients" : "the norm");
    for (size_t i = 0; i < file->layout.count; i++) {
        const struct answer_entry *entry = &file->layout.entries[i];
        if (entry->kind == ENTRY_GRAD && scalars->has_grad && !file->found[i] &&
            case_has_gradient(file->layout.c, entry->param))
            return err_set(ERR_USAGE, "%s: tensor \"%s\" is missing; there are gradients of all, or of none", path,
                           entry->name);
        bool has_both = entry->kind == ENTRY_EXP_AVG && !case_is_muon(file->layout.c, entry->param);
        if (has_both && !file->found[i] != !file->found[i + 1])
            return err_set(ERR_USAGE, "%s: of \"%s\" and \"%s\" one is missing; expected both, or neither", path,
                           entry->name, entry[1].name);
    }
    return ERR_NONE;
}

static int check_file(struct answer_file *file, bool is_state)
{
    file->found = calloc(file->layout.count + 1, sizeof(void *));
    if (!file->found)
        return err_set(ERR_MEMORY, "no memory for the header of %s", file->file.path);
    TRY(answer_layout_match(&file->layout, &file->file, file->found));
    if (!is_state)
        return ERR_NONE;
    for (size_t i = 0; i < file->layout.count; i++)
        if (file->found[i])
            TRY(read_scalar(file, &file->layout.entries[i], file->found[i]));
    return check_together(file);
}

// Reads a whole file of a known size; false: it cannot be read, or has another size.
static bool read_whole(int fd, const char *path, uint64_t bytes, char **out)
{
    uint64_t found;
    *out = malloc(bytes + 1);
    return *out && file_bytes(fd, path, &found) == ERR_NONE && found == bytes &&
           file_read_at(fd, path, 0, *out, bytes) == ERR_NONE;
}

// Opens a file whose header equals that of another file byte by byte, so that its tensors do. False: it does not, or
// cannot be read; nothing is open then.
static bool open_like(int folder_fd, const char *name, const char *path, const struct answer_file *like,
                      struct answer_file *out)
{
    const struct safetensors *from = &like->file;
    size_t tensors_bytes = (from->tensor_count + 1) * sizeof *from->tensors;
    int fd;
    if (from->data_begin - sizeof(uint64_t) > out->layout.header_bytes_max ||
        file_open_at(folder_fd, name, path, &fd) != ERR_NONE)
        return false;
    bool same = read_whole(fd, path, from->data_begin + from->data_bytes, &out->bytes) &&
                memcmp(out->bytes, like->bytes, from->data_begin) == 0;
    close(fd);
    struct safetensors_tensor *tensors = same ? malloc(tensors_bytes) : NULL;
    char *own_path = tensors ? strdup(path) : NULL;
    if (own_path) {
        memcpy(tensors, from->tensors, tensors_bytes);
        out->file = *from;
        out->file.path = own_path;
        out->file.header = json_incref(from->header);
        out->file.tensors = tensors;
        return true;
    }
    free(tensors);
    free(out->bytes);
    out->bytes = NULL;
    return false;
}

static int hold(struct answer_file *file)
{
    struct safetensors *from = &file->file;
    if (!read_whole(from->fd, from->path, from->data_begin + from->data_bytes, &file->bytes))
        return err_set(ERR_IO, "%s: changes while it is read, or there is no memory for it", from->path);
    close(from->fd);
    from->fd = -1;
    return ERR_NONE;
}

static int open_in(int folder_fd, const char *folder, int step, const struct answer_file *like, size_t held_bytes_max,
                   struct answer_file *out)
{
    char name[40], path[PATH_MAX];
    snprintf(name, sizeof name, "step-%d.safetensors", step);
    TRY(file_join(folder, name, path));
    if (like && like->bytes && like->file.data_bytes <= held_bytes_max && open_like(folder_fd, name, path, like, out))
        return ERR_NONE;
    TRY(safetensors_open_at(folder_fd, name, path, out->layout.header_bytes_max, &out->file));
    return out->file.data_bytes <= held_bytes_max ? hold(out) : ERR_NONE;
}

int answer_file_open(const struct answer *answer, int step, int rank, const struct answer_file *like,
                     size_t held_bytes_max, struct answer_file *out)
{
    assert(step >= case_first_step(answer->c) && step <= case_last_step(answer->c));
    assert(rank == ANSWER_NO_RANK || (rank >= 0 && rank < answer->c->world));
    char folder[PATH_MAX];
    int fd;
    *out = (struct answer_file){.file.fd = -1};
    bool is_state = rank == ANSWER_NO_RANK;
    TRY(is_state ? answer_layout_of_step(answer->c, &out->layout)
                 : answer_layout_of_seen(answer->c, step, rank, &out->layout));
    int rc = answer_open_folder(answer, rank, folder, &fd);
    if (rc == ERR_NONE) {
        rc = open_in(fd, folder, step, like, held_bytes_max, out);
        answer_close_folder(answer, fd);
    }
    if (rc == ERR_NONE)
        rc = check_file(out, is_state);
    if (rc != ERR_NONE)
        answer_file_close(out);
    return rc;
}

void answer_file_close(struct answer_file *file)
{
    safetensors_close(&file->file);
    answer_layout_close(&file->layout);
    free(file->found);
    free(file->bytes);
    file->found = NULL;
    file->bytes = NULL;
}

int answer_file_tensor(const struct answer_file *file, const struct safetensors_tensor *tensor, float *out)
{
    if (!file->bytes)
        return safetensors_read_fp32(&file->file, tensor, 0, tensor->count, out);
    enum dtype dtype = tensor->type == TENSOR_FP32 ? DTYPE_FP32 : tensor->type == TENSOR_BF16 ? DTYPE_BF16 : DTYPE_FP16;
    dtype_widen(dtype, file->bytes + file->file.data_begin + tensor->begin, out, tensor->count);
    return ERR_NONE;
}
