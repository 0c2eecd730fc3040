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

static int open_run(const char *path, struct result_file *out)
{
    TRY(result_open_verified(path, out));
    if (strcmp(view_text(out->run, "program"), "validate") == 0 && history_verdict(out) &&
        strcmp(view_text(out->end, "status"), "complete") == 0)
        return ERR_NONE;
    int rc = err_set(ERR_USAGE, "%s: is not of a complete run of `zerogauge validate`", out->path);
    result_close(out);
    return rc;
}

static int check_room(size_t count, const char *path)
{
    return count < HISTORY_MAX ? ERR_NONE : err_set(ERR_USAGE, "%s: is one of more than %d files", path, HISTORY_MAX);
}

static int compare_files(const void *left, const void *right)
{
    const struct result_file *a = left, *b = right;
    int order = strcmp(view_text(a->run, "started"), view_text(b->run, "started"));
    return order ? order : strcmp(a->path, b->path);
}

int history_open(const char *const paths[], struct history *out)
{
    *out = (struct history){.files = calloc(HISTORY_MAX, sizeof *out->files)};
    if (!out->files)
        return err_set(ERR_MEMORY, "no memory for a history");
    for (; paths[out->count]; out->count++) {
        TRY(check_room(out->count, paths[out->count]));
        TRY(open_run(paths[out->count], &out->files[out->count]));
    }
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

struct visit {
    int (*visit)(void *context, const struct result_file *file);
    void *context;
    size_t count, left_out_count;
};

static int visit_file(struct visit *v, const char *path)
{
    struct result_file file;
    int rc = check_room(v->count, path);
    if (rc == ERR_NONE)
        rc = open_run(path, &file);
    if (rc == ERR_MEMORY)
        return rc;
    if (rc != ERR_NONE) {
        v->left_out_count++;
        text_error("zerogauge report: left out");
        return ERR_NONE;
    }
    v->count++;
    rc = v->visit(v->context, &file);
    result_close(&file);
    return rc;
}

static int visit_pattern(struct visit *v, const char *folder, const char *names)
{
    char escaped[PATH_MAX], pattern[PATH_MAX];
    glob_t found;
    int rc = ERR_NONE;
    TRY(escape(folder, escaped));
    if (snprintf(pattern, sizeof pattern, "%s/%s", escaped, names) >= (int)sizeof pattern)
        return err_set(ERR_USAGE, "--trend: the path is too long");
    if (glob(pattern, 0, NULL, &found) != 0)
        return ERR_NONE;
    for (size_t i = 0; i < found.gl_pathc && rc == ERR_NONE; i++)
        rc = visit_file(v, found.gl_pathv[i]);
    globfree(&found);
    return rc;
}

int history_visit(const char *folder, int (*visit)(void *context, const struct result_file *file), void *context,
                  size_t *left_out_count)
{
    struct visit v = {.visit = visit, .context = context};
    TRY(visit_pattern(&v, folder, "*.jsonl"));
    TRY(visit_pattern(&v, folder, "*/*.jsonl"));
    if (v.count == 0)
        return err_set(ERR_USAGE, "%s: has no result file of a complete run, neither itself nor in its folders",
                       folder);
    *left_out_count = v.left_out_count;
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
