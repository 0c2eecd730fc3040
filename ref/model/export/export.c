// SPDX-License-Identifier: Apache-2.0
// Writing tensors to a file for other programs.
#include "ref/model/export/export.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_COUNT = 1 << 18 };

struct source {
    int (*read)(void *context, size_t tensor, uint64_t first, size_t count, float *out);
    void *context;
};

static int write_tensor(const struct source *source, size_t tensor, uint64_t count, enum dtype dtype, float *block,
                        struct safetensors_writer *writer)
{
    uint16_t *narrow = (uint16_t *)(block + BLOCK_COUNT);
    for (uint64_t at = 0; at < count; at += BLOCK_COUNT) {
        size_t now = count - at < BLOCK_COUNT ? (size_t)(count - at) : BLOCK_COUNT;
        TRY(source->read(source->context, tensor, at, now, block));
        if (dtype != DTYPE_FP32)
            dtype_narrow(dtype, block, narrow, now);
        TRY(safetensors_write(writer, dtype == DTYPE_FP32 ? (void *)block : narrow, now * dtype_bytes(dtype)));
    }
    return ERR_NONE;
}

static int write_tensors(const struct source *source, const struct export_tensor tensors[], size_t tensor_count,
                         enum dtype dtype, struct safetensors_writer *writer)
{
    float *block = malloc(BLOCK_COUNT * (sizeof(float) + sizeof(uint16_t)));
    if (!block)
        return err_set(ERR_MEMORY, "no memory for %d elements", BLOCK_COUNT);
    int rc = ERR_NONE;
    for (size_t i = 0; i < tensor_count && rc == ERR_NONE; i++)
        rc = write_tensor(source, i, tensors[i].count, dtype, block, writer);
    free(block);
    return rc;
}

static int create(const struct export_tensor from[], size_t tensor_count, const char *path, enum dtype dtype,
                  struct safetensors_writer **out)
{
    static const char *const metadata[] = {"format", "pt", NULL};  // as in PyTorch's own files
    struct safetensors_tensor *tensors = calloc(tensor_count + 1, sizeof *tensors);
    if (!tensors)
        return err_set(ERR_MEMORY, "no memory for the names of %zu tensors", tensor_count);
    for (size_t i = 0; i < tensor_count; i++) {
        tensors[i] = (struct safetensors_tensor){
            .name = from[i].name, .type = safetensors_type_of(dtype), .shape_rank = from[i].shape_rank};
        memcpy(tensors[i].shape, from[i].shape, sizeof tensors[i].shape);
    }
    unlink(path);  // left by an export that died
    int rc = safetensors_create(path, tensors, tensor_count, metadata, out);
    free(tensors);
    return rc;
}

int export_tensors(const char *path, const struct export_tensor tensors[], size_t tensor_count, enum dtype dtype,
                   int (*read)(void *context, size_t tensor, uint64_t first, size_t count, float *out), void *context)
{
    static const char ending[] = ".partial";
    struct safetensors_writer *writer;
    char partial[strlen(path) + sizeof ending], folder[strlen(path) + 2];
    stpcpy(stpcpy(partial, path), ending);
    TRY(file_check_output(path, FILE_NEW));
    TRY(create(tensors, tensor_count, partial, dtype, &writer));
    const struct source source = {read, context};
    int rc = write_tensors(&source, tensors, tensor_count, dtype, writer);
    if (rc != ERR_NONE) {
        safetensors_abandon(writer);
        return rc;
    }
    TRY(safetensors_finish(writer, NULL, NULL));
    if (rename(partial, path) != 0) {
        rc = err_set(ERR_IO, "%s: cannot be renamed to %s: %s", partial, path, strerror(errno));
        unlink(partial);
        return rc;
    }
    return file_sync_folder(file_folder(path, folder));
}

static int read_param(void *context, size_t tensor, uint64_t first, size_t count, float *out)
{
    return checkpoint_read(context, STATE_PARAMETER, tensor, first, count, out);
}

int export_weights(const struct checkpoint *checkpoint, const char *path, enum dtype dtype)
{
    const struct manifest *m = checkpoint_manifest(checkpoint);
    TRY(checkpoint_check_digests(checkpoint));
    struct export_tensor *tensors = calloc(m->param_count + 1, sizeof *tensors);
    if (!tensors)
        return err_set(ERR_MEMORY, "no memory for the names of %zu tensors", m->param_count);
    for (size_t i = 0; i < m->param_count; i++) {
        tensors[i] = (struct export_tensor){
            .name = m->params[i].name, .shape_rank = m->params[i].shape_rank, .count = m->params[i].count};
        memcpy(tensors[i].shape, m->params[i].shape, sizeof tensors[i].shape);
    }
    int rc = export_tensors(path, tensors, m->param_count, dtype, read_param, (void *)checkpoint);
    free(tensors);
    return rc;
}
