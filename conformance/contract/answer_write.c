// SPDX-License-Identifier: Apache-2.0
// Writing an answer. Files are not made durable: an answer that a power loss takes is given again.
#include "conformance/contract/answer.h"

#include "conformance/contract/answer_check.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The data of one entry of a file; null: the file leaves the entry out.
struct source {
    const void *data;
    enum safetensors_type type;
    int64_t whole;  // storage of a scalar, to which data points
    double real;
};

static void set_whole(struct source *source, uint64_t value)
{
    source->type = TENSOR_I64;
    source->whole = (int64_t)value;
    source->data = &source->whole;
}

static void set_real(struct source *source, bool has, double value)
{
    source->type = TENSOR_FP64;
    source->real = value;
    source->data = has ? &source->real : NULL;
}

static void source_of_state(const struct answer_entry *entry, const struct answer_step *state, struct source *out)
{
    out->type = TENSOR_FP32;
    switch (entry->kind) {
    case ENTRY_PARAM:
        out->data = state->param[entry->param];
        break;
    case ENTRY_EXP_AVG:
        out->data = state->exp_avg[entry->param];
        break;
    case ENTRY_EXP_AVG_SQ:
        out->data = state->exp_avg_sq[entry->param];
        break;
    case ENTRY_GRAD:
        out->data = state->has_grad && !state->skipped ? state->grad[entry->param] : NULL;
        break;
    case ENTRY_T:
        set_whole(out, state->t);
        break;
    case ENTRY_SKIPPED:
        set_whole(out, state->skipped);
        break;
    case ENTRY_LOSS_SCALE:
        set_real(out, state->has_loss_scale, state->loss_scale);
        break;
    case ENTRY_NORM:
        set_real(out, state->has_norm && !state->skipped, state->norm);
        break;
    case ENTRY_LOSS:
        set_real(out, state->has_loss, state->loss);
        break;
    case ENTRY_TOKENS:
        set_whole(out, state->tokens);
        out->data = state->has_tokens ? out->data : NULL;
        break;
    case ENTRY_SEEN:
        break;
    }
}

// There are gradients of all parameters that have one, or of none.
static void require_gradients(struct answer_layout *layout, const struct answer_step *state)
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->entries[i].kind == ENTRY_GRAD && state->has_grad && !state->skipped)
            layout->entries[i].required = case_has_gradient(layout->c, layout->entries[i].param);
}

// An empty tensor has nothing to point to, and is written.
static void allow_empty(const struct answer_layout *layout, struct source sources[])
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->entries[i].required && layout->entries[i].param >= 0 && !sources[i].data &&
            layout->c->params[layout->entries[i].param].count == 0)
            sources[i].data = "";
}

static int fill(const char *path, const struct answer_layout *layout, const struct source sources[],
                struct safetensors_tensor tensors[], size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const struct answer_entry *entry = &layout->entries[i];
        if (!sources[i].data && entry->required)
            return err_set(ERR_INTERNAL, "%s: there is nothing to write for tensor \"%s\"", path, entry->name);
        if (!sources[i].data)
            continue;
        struct safetensors_tensor *tensor = &tensors[(*count)++];
        *tensor = (struct safetensors_tensor){.name = entry->name, .type = sources[i].type};
        if (entry->param < 0)
            continue;
        size_t shape[CASE_SHAPE_MAX];
        tensor->shape_rank = answer_entry_shape(layout, entry, shape);
        for (int k = 0; k < tensor->shape_rank; k++)
            tensor->shape[k] = shape[k];
    }
    return ERR_NONE;
}

static int write_tensors(const char *path, const struct answer_layout *layout, const struct source sources[],
                         struct safetensors_tensor tensors[])
{
    size_t count, next = 0;
    struct safetensors_writer *writer;
    TRY(fill(path, layout, sources, tensors, &count));
    TRY(safetensors_create(path, tensors, count, NULL, &writer));
    safetensors_leave_volatile(writer);
    int rc = ERR_NONE;
    for (size_t i = 0; i < layout->count && rc == ERR_NONE; i++)
        if (sources[i].data) {
            const struct safetensors_tensor *tensor = &tensors[next++];
            rc = safetensors_write(writer, sources[i].data, tensor->count * safetensors_type_bytes(tensor->type));
        }
    if (rc != ERR_NONE) {
        safetensors_abandon(writer);
        return rc;
    }
    return safetensors_finish(writer, NULL, NULL);
}

// Writes a file, and closes the layout. sources: null after an error.
static int write_file(const char *path, struct answer_layout *layout, struct source *sources)
{
    struct safetensors_tensor *tensors = calloc(layout->count + 1, sizeof *tensors);
    int rc = ERR_NONE;
    if (!sources || !tensors) {
        rc = err_set(ERR_MEMORY, "no memory to write %s", path);
    } else {
        allow_empty(layout, sources);
        rc = write_tensors(path, layout, sources, tensors);
    }
    free(sources);
    free(tensors);
    answer_layout_close(layout);
    return rc;
}

static int step_path(const char *folder, int step, char out[PATH_MAX])
{
    char name[40];
    snprintf(name, sizeof name, "step-%d.safetensors", step);
    return file_join(folder, name, out);
}

int answer_write_step(const struct check_case *c, const char *folder, int step, const struct answer_step *state)
{
    assert(step >= case_first_step(c) && step <= case_last_step(c));
    char path[PATH_MAX];
    struct answer_layout layout;
    TRY(step_path(folder, step, path));
    TRY(answer_layout_of_step(c, &layout));
    struct source *sources = calloc(layout.count + 1, sizeof *sources);
    require_gradients(&layout, state);
    for (size_t i = 0; sources && i < layout.count; i++)
        source_of_state(&layout.entries[i], state, &sources[i]);
    return write_file(path, &layout, sources);
}

int answer_write_seen(const struct check_case *c, const char *folder, int step, int rank,
                      const void *const *const seen[CASE_ACCUMULATION_MAX])
{
    assert(step >= case_first_step(c) && step <= case_last_step(c) && rank >= 0 && rank < c->world);
    char name[24], rank_folder[PATH_MAX], path[PATH_MAX];
    struct answer_layout layout;
    snprintf(name, sizeof name, "rank-%d", rank);
    TRY(file_join(folder, name, rank_folder));
    TRY(file_make_folder(rank_folder));
    TRY(step_path(rank_folder, step, path));
    TRY(answer_layout_of_seen(c, step, rank, &layout));
    struct source *sources = calloc(layout.count + 1, sizeof *sources);
    for (size_t i = 0; sources && i < layout.count; i++)
        sources[i] = (struct source){.data = seen[layout.entries[i].micro][layout.entries[i].param],
                                     .type = safetensors_type_of(c->precision)};
    return write_file(path, &layout, sources);
}

static int write_text(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[PATH_MAX];
    TRY(file_join(folder, name, path));
    int fd;
    TRY(file_create(path, &fd));
    int rc = file_write(fd, path, text, bytes);
    if (close(fd) != 0 && rc == ERR_NONE)
        rc = err_set(ERR_IO, "%s: cannot be closed: %s", path, strerror(errno));
    if (rc != ERR_NONE)
        unlink(path);
    return rc;
}

static void put_counts(FILE *out, const char *key, const char *const names[], int count, const uint64_t values[],
                       bool *first)
{
    int put = 0;
    for (int i = 0; i < count; i++) {
        if (values[i] == UINT64_MAX)
            continue;
        if (put++ == 0)
            fprintf(out, "%s\"%s\": {", *first ? "" : ", ", key);
        fprintf(out, "%s\"%s\": %" PRIu64, put > 1 ? ", " : "", names[i], values[i]);
    }
    if (put > 0) {
        fprintf(out, "}");
        *first = false;
    }
}

int answer_write_usage(const struct check_case *c, const char *folder, const struct answer_usage usage[])
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return err_set(ERR_MEMORY, "no memory to write usage.json");
    fprintf(out, "{\"ranks\": [");
    for (int rank = 0; rank < c->world; rank++) {
        bool first = true;
        fprintf(out, "%s\n  {", rank ? "," : "");
        put_counts(out, "held_bytes", answer_usage_kinds, USAGE_KIND_COUNT, usage[rank].held_bytes, &first);
        put_counts(out, "sent_bytes", answer_usage_purposes, USAGE_PURPOSE_COUNT, usage[rank].sent_bytes, &first);
        put_counts(out, "calls", answer_usage_purposes, USAGE_PURPOSE_COUNT, usage[rank].calls, &first);
        fprintf(out, "}");
    }
    fprintf(out, "\n]}\n");
    int rc = fclose(out) == 0 ? write_text(folder, "usage.json", text, bytes)
                              : err_set(ERR_MEMORY, "no memory to write usage.json");
    free(text);
    return rc;
}

int answer_write_text(const char *folder, enum answer_kind kind, const char *text)
{
    assert(kind == ANSWER_UNSUPPORTED || kind == ANSWER_REFUSED);
    return write_text(folder, kind == ANSWER_UNSUPPORTED ? "unsupported.txt" : "refused.txt", text, strlen(text));
}
