// SPDX-License-Identifier: Apache-2.0
// `zerogauge export`: writes a checkpoint's weights for other programs.
#include "ref/checkpoint/export.h"

#include "base/err.h"
#include "base/help.h"
#include "base/safe_text.h"
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_COUNT = 1 << 18 };

static int write_tensor(const struct checkpoint *checkpoint, size_t param, enum dtype dtype, float *block,
                        struct safetensors_writer *writer)
{
    uint64_t count = checkpoint_manifest(checkpoint)->params[param].count;
    uint16_t *narrow = (uint16_t *)(block + BLOCK_COUNT);
    for (uint64_t at = 0; at < count; at += BLOCK_COUNT) {
        size_t now = count - at < BLOCK_COUNT ? (size_t)(count - at) : BLOCK_COUNT;
        TRY(checkpoint_read(checkpoint, STATE_PARAMETER, param, at, now, block));
        if (dtype != DTYPE_FP32)
            dtype_narrow(dtype, block, narrow, now);
        TRY(safetensors_write(writer, dtype == DTYPE_FP32 ? (void *)block : narrow, now * dtype_bytes(dtype)));
    }
    return ERR_NONE;
}

static int write_tensors(const struct checkpoint *checkpoint, enum dtype dtype, struct safetensors_writer *writer)
{
    float *block = malloc(BLOCK_COUNT * (sizeof(float) + sizeof(uint16_t)));
    if (!block)
        return err_set(ERR_MEMORY, "no memory for %d elements", BLOCK_COUNT);
    int rc = ERR_NONE;
    for (size_t i = 0; i < checkpoint_manifest(checkpoint)->param_count && rc == ERR_NONE; i++)
        rc = write_tensor(checkpoint, i, dtype, block, writer);
    free(block);
    return rc;
}

static int create(const struct checkpoint *checkpoint, const char *path, enum dtype dtype,
                  struct safetensors_writer **out)
{
    static const char *const metadata[] = {"format", "pt", NULL};  // as in PyTorch's own files
    const struct manifest *m = checkpoint_manifest(checkpoint);
    struct safetensors_tensor *tensors = calloc(m->param_count + 1, sizeof *tensors);
    if (!tensors)
        return err_set(ERR_MEMORY, "no memory for the names of %zu tensors", m->param_count);
    for (size_t i = 0; i < m->param_count; i++) {
        tensors[i] = (struct safetensors_tensor){
            .name = m->params[i].name, .type = safetensors_type_of(dtype), .shape_rank = m->params[i].shape_rank};
        memcpy(tensors[i].shape, m->params[i].shape, sizeof tensors[i].shape);
    }
    unlink(path);  // left by an export that died
    int rc = safetensors_create(path, tensors, m->param_count, metadata, out);
    free(tensors);
    return rc;
}

int export_weights(const struct checkpoint *checkpoint, const char *path, enum dtype dtype)
{
    static const char ending[] = ".partial";
    struct safetensors_writer *writer;
    char partial[strlen(path) + sizeof ending], folder[strlen(path) + 2];
    stpcpy(stpcpy(partial, path), ending);
    TRY(file_check_replaced(path));
    for (size_t i = 0; i < checkpoint_manifest(checkpoint)->file_count; i++)
        TRY(checkpoint_check_digest(checkpoint, i));
    TRY(create(checkpoint, partial, dtype, &writer));
    int rc = write_tensors(checkpoint, dtype, writer);
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

static int parse_dtype(const char *text, enum dtype *out)
{
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, dtype_name(dtypes[i])) == 0) {
            *out = dtypes[i];
            return ERR_NONE;
        }
    return err_set(ERR_USAGE, "--dtype %s: expected fp32, bf16 or fp16", text);
}

static int export(const char *from, const char *to, enum dtype dtype)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "", count[SIZE_TEXT_BYTES], shown[TEXT_MESSAGE_BYTES];
    int rc = checkpoint_open(from, &checkpoint, notes);
    for (char *rest = notes, *line; (line = strsep(&rest, "\n")) && *line;)
        fprintf(stderr, "zerogauge export: note: %s\n", line);
    TRY(rc);
    if (!checkpoint)
        return err_set(ERR_USAGE, "%s: no checkpoint found", from);
    rc = export_weights(checkpoint, to, dtype);
    const struct manifest *m = checkpoint_manifest(checkpoint);
    uint64_t elements = 0;
    for (size_t i = 0; i < m->param_count; i++)
        elements += m->params[i].count;
    if (rc == ERR_NONE)
        printf("%s: %s after step %" PRIu64 ", %zu tensors, %s parameters, %s\n", to, text_message(shown, m->model, 60),
               m->step, m->param_count, size_text(elements, count), dtype_name(dtype));
    checkpoint_close(checkpoint);
    return rc;
}

static const char *const examples[] = {
    "zerogauge export saved weights.safetensors",
    "zerogauge export saved weights-bf16.safetensors --dtype bf16",
    NULL,
};

static const struct help help = {
    .usage = "CHECKPOINT OUT.safetensors [OPTION...]",
    .text = "Writes the unsharded weights of a checkpoint to one safetensors file.",
    .examples = examples,
};

static int run(int argc, const char **argv, char **dtype_text)
{
    const struct poptOption options[] = {
        {"dtype", '\0', POPT_ARG_STRING, dtype_text, 0,
         "number format of the weights, rounded to nearest (default: fp32)", "fp32|bf16|fp16"},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = ERR_NONE, code = poptGetNextOpt(context);
    const char *from = poptGetArg(context), *to = poptGetArg(context), *extra = poptGetArg(context);
    enum dtype dtype = DTYPE_FP32;
    if (code < -1)
        rc = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(code));
    else if (!from || !to || extra)
        rc = err_set(ERR_USAGE, "expected a checkpoint, or a folder of checkpoints, and the file to write");
    if (rc == ERR_NONE && *dtype_text)
        rc = parse_dtype(*dtype_text, &dtype);
    if (rc == ERR_NONE)
        rc = export(from, to, dtype);
    poptFreeContext(context);
    return rc;
}

int export_main(int argc, const char **argv)
{
    char *dtype = NULL;
    int rc = run(argc, argv, &dtype);
    if (rc != ERR_NONE)
        fprintf(stderr, "zerogauge export: %s\n", err_message());
    free(dtype);
    return err_exit_status(rc);
}
