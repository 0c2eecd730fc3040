// SPDX-License-Identifier: Apache-2.0
#include "results/page/history.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "results/limits/accepted_range.h"
#include "results/page/result_view.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

const char *history_verdict(const struct result_file *file)
{
    return json_string_value(json_object_get(file->end, "verdict"));
}

static int add(struct history *history, const char *path)
{
    struct result_file *file = &history->files[history->count];
    if (history->count == HISTORY_MAX)
        return err_set(ERR_USAGE, "%s: is one of more than %d files", path, HISTORY_MAX);
    TRY(result_open_verified(path, file));
    if (strcmp(view_text(file->run, "program"), "validate") != 0 || !history_verdict(file) ||
        strcmp(view_text(file->end, "status"), "complete") != 0) {
        int rc = err_set(ERR_USAGE, "%s: is not of a complete run of `zerogauge validate`", file->path);
        result_close(file);
        return rc;
    }
    history->count++;
    return ERR_NONE;
}

static int compare_files(const void *left, const void *right)
{
    const struct result_file *a = left, *b = right;
    int order = strcmp(view_text(a->run, "started"), view_text(b->run, "started"));
    return order ? order : strcmp(a->path, b->path);
}

static int begin(struct history *out)
{
    *out = (struct history){.files = calloc(HISTORY_MAX, sizeof *out->files)};
    return out->files ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a history");
}

int history_open(const char *const paths[], struct history *out)
{
    TRY(begin(out));
    for (size_t i = 0; paths[i]; i++)
        TRY(add(out, paths[i]));
    qsort(out->files, out->count, sizeof *out->files, compare_files);
    return ERR_NONE;
}

// Writes a folder's path as a pattern of itself alone.
static int escape(const char *folder, char out[PATH_MAX])
{
    size_t used = 0;
    for (; *folder && used + 2 < PATH_MAX; folder++) {
        if (strchr("*?[\\", *folder))
            out[used++] = '\\';
        out[used++] = *folder;
    }
    out[used] = '\0';
    return *folder ? err_set(ERR_USAGE, "--trend: the path is too long") : ERR_NONE;
}

static int add_pattern(struct history *history, const char *folder, const char *names)
{
    char escaped[PATH_MAX], pattern[PATH_MAX];
    glob_t found;
    int rc = ERR_NONE;
    TRY(escape(folder, escaped));
    if (snprintf(pattern, sizeof pattern, "%s/%s", escaped, names) >= (int)sizeof pattern)
        return err_set(ERR_USAGE, "--trend: the path is too long");
    if (glob(pattern, 0, NULL, &found) != 0)
        return ERR_NONE;
    for (size_t i = 0; i < found.gl_pathc && rc != ERR_MEMORY; i++) {
        rc = add(history, found.gl_pathv[i]);
        history->left_out_count += rc != ERR_NONE;
        if (rc != ERR_NONE)
            text_error("zerogauge report: left out");
    }
    globfree(&found);
    return rc == ERR_MEMORY ? rc : ERR_NONE;
}

int history_open_folder(const char *folder, struct history *out)
{
    TRY(begin(out));
    TRY(add_pattern(out, folder, "*.jsonl"));
    TRY(add_pattern(out, folder, "*/*.jsonl"));
    if (out->count == 0)
        return err_set(ERR_USAGE, "%s: has no result file of a complete run, neither itself nor in its folders",
                       folder);
    qsort(out->files, out->count, sizeof *out->files, compare_files);
    return ERR_NONE;
}

void history_close(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        result_close(&history->files[i]);
    free(history->files);
    *history = (struct history){0};
}

// --- accepted ranges of several runs ---

static size_t benches_of(const struct result_file *file, const json_t **out)
{
    size_t count = 0;
    for (size_t i = 0; i < file->line_count; i++)
        if (view_is(file->lines[i], "bench"))
            out[count++] = file->lines[i];
    return count;
}

static int save(const struct history *history, const char *path, struct accepted_range_run *runs,
                const json_t **records)
{
    const struct result_file *first = &history->files[0], *last = &history->files[history->count - 1];
    char source[256];
    for (size_t i = 0; i < history->count; i++) {
        const struct result_file *file = &history->files[i];
        if (strcmp(history_verdict(file), "VALID") != 0)
            return err_set(ERR_USAGE, "--save-ranges: %s is %s; only VALID runs make accepted ranges", file->path,
                           history_verdict(file));
        runs[i] = (struct accepted_range_run){view_text(file->run, "level"), records, benches_of(file, records)};
        records += runs[i].count;
    }
    snprintf(source, sizeof source, "zerogauge validate from %s to %s on %.120s", view_text(first->run, "started"),
             view_text(last->run, "started"), view_text(json_object_get(last->run, "machine"), "processor"));
    return accepted_ranges_save(path, source, runs, history->count);
}

int history_save_ranges(const struct history *history, const char *path)
{
    size_t line_count = 0;
    for (size_t i = 0; i < history->count; i++)
        line_count += history->files[i].line_count;
    struct accepted_range_run *runs = calloc(history->count, sizeof *runs);
    const json_t **records = calloc(line_count, sizeof *records);
    int rc = runs && records ? save(history, path, runs, records) : err_set(ERR_MEMORY, "no memory for runs");
    free(runs);
    free(records);
    return rc;
}
