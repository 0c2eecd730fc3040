// SPDX-License-Identifier: Apache-2.0
// Reading checkpoints: the headers of the files give an index from every tensor's elements to their place.
#include "ref/checkpoint/blocks.h"
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 4096 };

// Elements [begin, end) of one state of one parameter.
struct stored {
    size_t param;
    int state;
    uint64_t begin, end;
    const struct safetensors *file;
    const struct safetensors_tensor *tensor;
};

struct checkpoint {
    char *path;
    struct manifest manifest;
    struct safetensors *files;
    size_t opened;  // files opened so far
    size_t *params_by_name;
    struct stored *stored;  // by parameter, state and begin; they hold every element once
    size_t stored_count;
    size_t *first;  // index into stored, by parameter x MANIFEST_STATE_COUNT + state; then stored_count
};

// Finds the parameter with this name of name_bytes bytes.
static bool find_param(const struct checkpoint *c, const char *name, size_t name_bytes, size_t *out)
{
    size_t low = 0, high = c->manifest.param_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = c->manifest.params[c->params_by_name[middle]].name;
        int order = strncmp(name, other, name_bytes);
        if (order == 0 && other[name_bytes] != '\0')
            order = -1;
        if (order == 0) {
            *out = c->params_by_name[middle];
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

static int compare_names(const void *left, const void *right, void *context)
{
    const struct manifest_param *params = context;
    return strcmp(params[*(const size_t *)left].name, params[*(const size_t *)right].name);
}

static int sort_params(struct checkpoint *c)
{
    const struct manifest *m = &c->manifest;
    c->params_by_name = malloc((m->param_count + 1) * sizeof *c->params_by_name);
    if (!c->params_by_name)
        return err_set(ERR_MEMORY, "no memory for the %zu parameters of %s", m->param_count, c->path);
    for (size_t i = 0; i < m->param_count; i++)
        c->params_by_name[i] = i;
    qsort_r(c->params_by_name, m->param_count, sizeof *c->params_by_name, compare_names, m->params);
    for (size_t i = 1; i < m->param_count; i++)
        if (compare_names(&c->params_by_name[i - 1], &c->params_by_name[i], m->params) == 0)
            return err_set(ERR_USAGE, "%s: two parameters have the same name", c->path);
    return ERR_NONE;
}

static int open_files(struct checkpoint *c)
{
    const struct manifest *m = &c->manifest;
    if (m->file_count > FILES_MAX)
        return err_set(ERR_USAGE, "%s: has %zu files, more than can be open together", c->path, m->file_count);
    c->files = calloc(m->file_count + 1, sizeof *c->files);
    if (!c->files)
        return err_set(ERR_MEMORY, "no memory for the %zu files of %s", m->file_count, c->path);
    for (; c->opened < m->file_count; c->opened++) {
        char path[PATH_MAX], name[RANK_NAME_BYTES];
        struct stat status;
        TRY(file_join(c->path, checkpoint_rank_name(c->opened, name), path));
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
            (uint64_t)status.st_size != m->files[c->opened].bytes)
            return err_set(ERR_USAGE, "%s: has %" PRIu64 " bytes; %" PRIu64 " were written", path,
                           (uint64_t)status.st_size, m->files[c->opened].bytes);
        TRY(safetensors_open_at(AT_FDCWD, path, path, SAFETENSORS_HEADER_BYTES_MAX, &c->files[c->opened]));
    }
    return ERR_NONE;
}

static int refuse(const struct safetensors *file, const struct safetensors_tensor *tensor, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "%s: tensor \"%s\": %s", file->path, text_message(shown, tensor->name, 100), what);
}

// Parses STATE/NAME[BEGIN:END].
static int parse_stored(const struct checkpoint *c, const struct safetensors *file,
                        const struct safetensors_tensor *tensor, struct stored *out)
{
    const char *slash = strchr(tensor->name, '/'), *bracket = strrchr(tensor->name, '[');
    if (!slash || !bracket || bracket < slash)
        return refuse(file, tensor, "its name does not have the form STATE/NAME[BEGIN:END]");
    *out = (struct stored){.state = -1, .file = file, .tensor = tensor};
    for (int state = 0; state < MANIFEST_STATE_COUNT; state++) {
        const char *name = manifest_state_name(state);
        if (strlen(name) == (size_t)(slash - tensor->name) && strncmp(name, tensor->name, strlen(name)) == 0)
            out->state = state;
    }
    if (out->state < 0)
        return refuse(file, tensor, "this version has no state of this name");
    char range[64];
    int parts = sscanf(bracket, "[%" SCNu64 ":%" SCNu64 "]", &out->begin, &out->end);
    snprintf(range, sizeof range, "[%" PRIu64 ":%" PRIu64 "]", out->begin, out->end);
    if (parts != 2 || strcmp(range, bracket) != 0)
        return refuse(file, tensor, "its name does not end with [BEGIN:END]");
    if (!find_param(c, slash + 1, (size_t)(bracket - slash - 1), &out->param))
        return refuse(file, tensor, "the manifest has no such parameter");
    const struct manifest_param *param = &c->manifest.params[out->param];
    if (out->state >= manifest_state_count(param->frozen, c->manifest.waiting))
        return refuse(file, tensor, "the manifest has no such state of this parameter");
    if (out->begin >= out->end || out->end > param->count)
        return refuse(file, tensor, "the parameter has no such elements");
    if (tensor->type != TENSOR_FP32 || tensor->count != out->end - out->begin)
        return refuse(file, tensor, "does not hold these elements in F32");
    return ERR_NONE;
}

static int compare_stored(const void *left, const void *right)
{
    const struct stored *a = left, *b = right;
    if (a->param != b->param)
        return a->param < b->param ? -1 : 1;
    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

// Checks that every element of every state of every parameter is stored once.
static int check_coverage(struct checkpoint *c)
{
    const struct manifest *m = &c->manifest;
    size_t at = 0;
    for (size_t i = 0; i < m->param_count; i++)
        for (int state = 0; state < MANIFEST_STATE_COUNT; state++) {
            bool stored_at_all = state < manifest_state_count(m->params[i].frozen, m->waiting);
            uint64_t wanted = stored_at_all ? m->params[i].count : 0, covered = 0;
            c->first[i * MANIFEST_STATE_COUNT + (size_t)state] = at;
            for (; at < c->stored_count && c->stored[at].param == i && c->stored[at].state == state; at++) {
                const struct stored *stored = &c->stored[at];
                if (stored->begin < covered)
                    return refuse(stored->file, stored->tensor, "some of its elements are stored twice");
                if (stored->begin > covered)
                    break;
                covered = stored->end;
            }
            char shown[TEXT_MESSAGE_BYTES];
            if (covered != wanted)
                return err_set(ERR_USAGE, "%s: no file holds elements from %" PRIu64 " on of %s/%s", c->path, covered,
                               manifest_state_name(state), text_message(shown, m->params[i].name, 100));
        }
    c->first[m->param_count * MANIFEST_STATE_COUNT] = at;
    return ERR_NONE;
}

static int make_index(struct checkpoint *c)
{
    size_t tensors = 0;
    for (size_t i = 0; i < c->opened; i++)
        tensors += c->files[i].tensor_count;
    c->stored = calloc(tensors + 1, sizeof *c->stored);
    c->first = calloc(c->manifest.param_count * MANIFEST_STATE_COUNT + 1, sizeof *c->first);
    if (!c->stored || !c->first)
        return err_set(ERR_MEMORY, "no memory for the %zu tensors of %s", tensors, c->path);
    for (size_t i = 0; i < c->opened; i++) {
        const struct safetensors *file = &c->files[i];
        size_t count = file->tensor_count;
        if (manifest_has_blocks(&c->manifest)) {
            TRY(blocks_check(file));
            count--;
        }
        for (size_t k = 0; k < count; k++)
            TRY(parse_stored(c, file, &file->tensors[k], &c->stored[c->stored_count++]));
    }
    qsort(c->stored, c->stored_count, sizeof *c->stored, compare_stored);
    return check_coverage(c);
}

static int open_all(struct checkpoint *c)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    TRY(file_join(c->path, "manifest.json", path));
    TRY(file_read_text_at(AT_FDCWD, path, path, MANIFEST_BYTES_MAX, &text, &bytes));
    int rc = manifest_parse(path, text, bytes, &c->manifest);
    free(text);
    TRY(rc);
    TRY(sort_params(c));
    TRY(open_files(c));
    return make_index(c);
}

int checkpoint_open_folder(const char *path, struct checkpoint **out)
{
    struct checkpoint *c = *out = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        free(c);
        *out = NULL;
        return err_set(ERR_MEMORY, "no memory to open %s", path);
    }
    int rc = open_all(c);
    if (rc != ERR_NONE) {
        checkpoint_close(c);
        *out = NULL;
    }
    return rc;
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->opened; i++)
        safetensors_close(&c->files[i]);
    manifest_close(&c->manifest);
    free(c->files);
    free(c->params_by_name);
    free(c->stored);
    free(c->first);
    free(c->path);
    free(c);
}

bool checkpoint_find(const struct checkpoint *c, const char *name, size_t *param)
{
    return find_param(c, name, strlen(name), param);
}

const char *checkpoint_path(const struct checkpoint *checkpoint)
{
    return checkpoint->path;
}

const struct manifest *checkpoint_manifest(const struct checkpoint *checkpoint)
{
    return &checkpoint->manifest;
}

const struct safetensors *checkpoint_file(const struct checkpoint *c, size_t file)
{
    assert(file < c->opened);
    return &c->files[file];
}

struct checkpoint_place checkpoint_find_place(const struct checkpoint *c, int state, size_t param, uint64_t first)
{
    assert(param < c->manifest.param_count && first < c->manifest.params[param].count);
    assert(state >= 0 && state < manifest_state_count(c->manifest.params[param].frozen, c->manifest.waiting));
    const size_t *range = &c->first[param * MANIFEST_STATE_COUNT + (size_t)state];
    size_t low = range[0], high = range[1];
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (c->stored[middle].begin <= first)
            low = middle;
        else
            high = middle;
    }
    const struct stored *stored = &c->stored[low];
    return (struct checkpoint_place){.file = (size_t)(stored->file - c->files),
                                     .begin = stored->tensor->begin + (first - stored->begin) * sizeof(float),
                                     .count = stored->end - first};
}
