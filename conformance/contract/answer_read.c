// SPDX-License-Identifier: Apache-2.0
// Reading an answer that has been checked; a file is checked again when it is opened again.
#include "conformance/contract/answer.h"

#include "base/safe_text.h"
#include "conformance/contract/answer_check.h"
#include "base/err.h"
#include "base/json.h"
#include "base/strict_json.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 1 << 16 };

_Static_assert((int)ANSWER_TEXT_BYTES >= (int)TEXT_MESSAGE_BYTES, "a text as it is shown fits");

// Reads a small file of the answer, with a zero byte behind it; the caller frees *text.
static int read_small_file(const struct answer *answer, const char *name, size_t limit, char **text, size_t *bytes)
{
    char path[PATH_MAX];
    *text = NULL;
    TRY(file_join(answer->folder, name, path));
    int folder_fd;
    TRY(file_open_folder(AT_FDCWD, answer->folder, answer->folder, &folder_fd));
    int rc = file_read_text_at(folder_fd, name, path, limit, text, bytes);
    close(folder_fd);
    return rc;
}

// One line, without control characters and with single blanks, as it can be shown.
static int read_text(struct answer *answer)
{
    const char *name = answer->kind == ANSWER_UNSUPPORTED ? "unsupported.txt" : "refused.txt";
    char *text, shown[TEXT_MESSAGE_BYTES];
    size_t bytes = 0, used = 0;
    TRY(read_small_file(answer, name, TEXT_BYTES_MAX, &text, &bytes));
    for (size_t i = 0; i < bytes; i++) {
        bool blank = (unsigned char)text[i] <= ' ' || text[i] == 0x7f;
        if (!blank)
            text[used++] = text[i];
        else if (used > 0 && text[used - 1] != ' ')
            text[used++] = ' ';
    }
    used -= used > 0 && text[used - 1] == ' ';
    text[used] = '\0';
    strcpy(answer->text, text_message(shown, text, ANSWER_TEXT_BYTES - 32));
    free(text);
    return used > 0 ? ERR_NONE : err_set(ERR_USAGE, "%s/%s: is empty; expected why, in a line", answer->folder, name);
}

// Most answers are small, so that each file is read once. Of the others' files one at a time is open.
enum { HELD_BYTES_MAX = 16 << 20 };

struct answer_files {
    size_t count, held_bytes;
    struct answer_file *open;   // the one that is not held; null: none
    struct answer_file list[];  // by step the answer's own, then each rank's; without `found`: neither open nor held
};

static int open_files(struct answer *answer)
{
    size_t steps = (size_t)(case_last_step(answer->c) - case_first_step(answer->c) + 1);
    size_t count = steps * (size_t)(answer->c->world + 1);
    answer->files = calloc(1, sizeof *answer->files + count * sizeof answer->files->list[0]);
    if (!answer->files)
        return err_set(ERR_MEMORY, "no memory for the answer %s", answer->folder);
    answer->files->count = count;
    return ERR_NONE;
}

static void close_files(struct answer_files *files)
{
    for (size_t i = 0; files && i < files->count; i++)
        if (files->list[i].found)
            answer_file_close(&files->list[i]);
    free(files);
}

// A file that has been checked. The first of its kind is likely to have the same header.
static int file_of(const struct answer *answer, int step, int rank, const struct answer_file **out)
{
    struct answer_files *files = answer->files;
    size_t first = (size_t)(step - case_first_step(answer->c)) * (size_t)(answer->c->world + 1);
    struct answer_file *file = &files->list[first + (size_t)(rank - ANSWER_NO_RANK)];
    *out = file;
    if (file->found)
        return ERR_NONE;
    if (files->open)
        answer_file_close(files->open);
    files->open = NULL;
    TRY(answer_file_open(answer, step, rank, &files->list[rank != ANSWER_NO_RANK], HELD_BYTES_MAX - files->held_bytes,
                         file));
    if (file->bytes)
        files->held_bytes += file->file.data_bytes;
    else
        files->open = file;
    return ERR_NONE;
}

static int open_all_files(struct answer *answer)
{
    const struct answer_file *file;
    for (int step = case_first_step(answer->c); step <= case_last_step(answer->c); step++)
        for (int rank = ANSWER_NO_RANK; rank < (answer->has_seen ? answer->c->world : 0); rank++)
            TRY(file_of(answer, step, rank, &file));
    return ERR_NONE;
}

static int check_files(struct answer *answer)
{
    int fds[CASE_WORLD_MAX + 1];
    TRY(open_files(answer));
    memset(fds, -1, sizeof fds);
    answer->folder_fds = fds;
    int rc = open_all_files(answer);
    answer->folder_fds = NULL;
    for (int i = 0; i <= answer->c->world; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return rc;
}

static int read_usage(struct answer *answer)
{
    char path[PATH_MAX], *text;
    size_t bytes = 0;
    TRY(file_join(answer->folder, "usage.json", path));
    TRY(read_small_file(answer, "usage.json", JSON_TEXT_BYTES_MAX, &text, &bytes));
    int rc = answer_usage_parse(path, text, bytes, answer->c->world, answer->usage);
    free(text);
    return rc;
}

static int check_all(struct answer *answer)
{
    TRY(answer_check_entries(answer));
    if (answer->kind != ANSWER_STATES)
        return read_text(answer);
    if (answer->has_usage)
        TRY(read_usage(answer));
    return check_files(answer);
}

int answer_open(const struct check_case *c, const char *folder, struct answer *out)
{
    *out = (struct answer){.c = c, .folder = strdup(folder)};
    memset(out->usage, 0xff, sizeof out->usage);  // UINT64_MAX everywhere
    int rc = out->folder ? check_all(out) : err_set(ERR_MEMORY, "no memory for the answer %s", folder);
    if (rc != ERR_NONE)
        answer_close(out);
    return rc;
}

void answer_close(struct answer *answer)
{
    close_files(answer->files);
    answer->files = NULL;
    free(answer->folder);
    answer->folder = NULL;
}

// The place of an entry's array in a step.
static float **array_of(struct answer_step *step, const struct answer_entry *entry)
{
    switch (entry->kind) {
    case ENTRY_PARAM:
        return &step->param[entry->param];
    case ENTRY_EXP_AVG:
        return &step->exp_avg[entry->param];
    case ENTRY_EXP_AVG_SQ:
        return &step->exp_avg_sq[entry->param];
    case ENTRY_GRAD:
        return &step->grad[entry->param];
    default:
        return NULL;
    }
}

static int read_arrays(const struct answer_file *file, struct answer_step *out)
{
    for (size_t i = 0; i < file->layout.count; i++) {
        float **array = array_of(out, &file->layout.entries[i]);
        const struct safetensors_tensor *tensor = file->found[i];
        if (!array || !tensor)
            continue;
        // One more: an empty tensor is there, too.
        if (!(*array = malloc((tensor->count + 1) * sizeof **array)))
            return err_set(ERR_MEMORY, "no memory for tensor \"%s\" of %s", tensor->name, file->file.path);
        TRY(answer_file_tensor(file, tensor, *array));
    }
    return ERR_NONE;
}

int answer_read_step(const struct answer *answer, int step, struct answer_step *out)
{
    assert(answer->folder && answer->kind == ANSWER_STATES);
    const struct answer_file *file;
    *out = (struct answer_step){0};
    TRY(file_of(answer, step, ANSWER_NO_RANK, &file));
    *out = file->scalars;
    int rc = read_arrays(file, out);
    if (rc != ERR_NONE)
        answer_step_close(out);
    return rc;
}

void answer_step_close(struct answer_step *step)
{
    for (int i = 0; i < CASE_PARAM_MAX; i++) {
        free(step->param[i]);
        free(step->exp_avg[i]);
        free(step->exp_avg_sq[i]);
        free(step->grad[i]);
    }
    *step = (struct answer_step){0};
}

int answer_read_seen(const struct answer *answer, int step, int rank, int micro, int param, float *out)
{
    assert(answer->kind == ANSWER_STATES && answer->has_seen);
    assert(micro >= 0 && micro < answer->c->accumulation && param >= 0 && param < answer->c->param_count);
    const struct answer_file *file;
    TRY(file_of(answer, step, rank, &file));
    size_t i = 0;
    while (i < file->layout.count && (file->layout.entries[i].micro != micro || file->layout.entries[i].param != param))
        i++;
    if (i == file->layout.count)
        return err_set(ERR_INTERNAL, "%s: no forward uses %s", file->file.path, answer->c->params[param].name);
    return answer_file_tensor(file, file->found[i], out);
}

const char *const answer_usage_kinds[USAGE_KIND_COUNT] = {
    [USAGE_PARAM] = "param",   [USAGE_GRAD] = "grad",       [USAGE_OPTIMIZER] = "optimizer",
    [USAGE_MASTER] = "master", [USAGE_PADDING] = "padding",
};
const char *const answer_usage_purposes[USAGE_PURPOSE_COUNT] = {[USAGE_REDUCE] = "reduce", [USAGE_GATHER] = "gather"};

// An object of counts, if it is there; a count may be missing, too.
static int read_counts(const struct strict_object *rank, const char *key, const char *const names[], int count,
                       uint64_t out[])
{
    struct strict_object counts;
    const char *name;
    json_t *value;
    if (!json_object_get(rank->value, key))
        return ERR_NONE;
    TRY(strict_object_of(rank, key, &counts));
    json_object_foreach ((json_t *)(uintptr_t)counts.value, name, value) {
        int i = 0;
        int64_t number = 0;
        (void)value;
        while (i < count && strcmp(names[i], name) != 0)
            i++;
        if (i == count)
            return strict_fail(&counts, name, "unknown key, expected only those of the contract");
        TRY(strict_integer(&counts, name, 0, INT64_MAX, &number));
        out[i] = (uint64_t)number;
    }
    return ERR_NONE;
}

struct usages {
    struct answer_usage *list;
    size_t count;
};

static int read_rank(const struct strict_object *rank, size_t i, void *context)
{
    struct answer_usage *usage = &((struct usages *)context)->list[i];
    TRY(strict_only(rank, "?held_bytes ?sent_bytes ?calls"));
    TRY(read_counts(rank, "held_bytes", answer_usage_kinds, USAGE_KIND_COUNT, usage->held_bytes));
    TRY(read_counts(rank, "sent_bytes", answer_usage_purposes, USAGE_PURPOSE_COUNT, usage->sent_bytes));
    return read_counts(rank, "calls", answer_usage_purposes, USAGE_PURPOSE_COUNT, usage->calls);
}

static int read_all(const struct strict_object *root, void *context)
{
    struct usages *usages = context;
    size_t count;
    TRY(strict_only(root, "ranks"));
    return strict_each(root, "ranks", usages->count, usages->count, read_rank, usages, &count);
}

int answer_usage_parse(const char *name, const char *text, size_t bytes, int world, struct answer_usage usage[])
{
    memset(usage, 0xff, (size_t)world * sizeof usage[0]);  // UINT64_MAX everywhere
    return strict_parse(name, text, bytes, read_all, &(struct usages){usage, (size_t)world});
}
