// SPDX-License-Identifier: Apache-2.0
#include "results/page/site_tables.h"

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "conformance/spec/requirement.h"
#include "conformance/spec/verdict.h"
#include "results/page/result_view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const json_t *record_of(const struct board_entry *entry, const char *kind)
{
    for (size_t line = 1; line <= entry->file.line_count; line++)
        if (view_is(view_record(&entry->view, line), kind))
            return view_record(&entry->view, line);
    return NULL;
}

// A column of the requirements: an implementation's release, and its verdicts by requirement.
static json_t *column_of(const struct board_entry *entry)
{
    const json_t *suite = json_object_get(entry->file.run, "suite");
    int version = (int)view_number(suite, "edition");
    json_t *verdicts = json_object();
    for (size_t line = 1; line <= entry->file.line_count; line++)
        if (view_is(view_record(&entry->view, line), "requirement"))
            json_object_set(verdicts, view_text(view_record(&entry->view, line), "id"),
                            json_object_get(view_record(&entry->view, line), "verdict"));
    return json_pack("{s:o, s:s, s:i, s:o}", "release",
                     page_text("%s %s, %.8s, suite version %d",
                               view_text(record_of(entry, "conformance"), "implementation"),
                               view_text(suite, "version"), view_text(suite, "commit"), version),
                     "started", view_text(entry->file.run, "started"), "suite_version", version, "verdicts", verdicts);
}

static bool is_verdict(const json_t *value)
{
    bool found = false;
    for (int i = 0; json_is_string(value) && i < VERDICT_COUNT; i++)
        found |= strcmp(json_string_value(value), verdict_name((enum verdict)i)) == 0;
    return found;
}

static int check_column(const char *path, size_t index, const json_t *column)
{
    const char *release, *started, *id;
    json_t *verdicts, *value;
    json_error_t error;
    int version;
    if (json_unpack_ex((json_t *)(uintptr_t)column, &error, JSON_STRICT, "{s:s, s:s, s:i, s:o}", "release", &release,
                       "started", &started, "suite_version", &version, "verdicts", &verdicts) != 0)
        return err_set(ERR_USAGE, "%s: implementation %zu: %s", path, index + 1, error.text);
    if (version < 1 || version > ZG_SUITE_VERSION)
        return err_set(ERR_USAGE, "%s: %.200s: suite version %d is not known", path, release, version);
    json_object_foreach (verdicts, id, value) {
        const struct requirement *requirement = requirement_find(id);
        if (!requirement || !requirement_is_of(requirement, version) || !is_verdict(value))
            return err_set(ERR_USAGE, "%s: %.200s: %.40s is no requirement of suite version %d, or has no verdict",
                           path, release, id, version);
    }
    return ERR_NONE;
}

static int add_implementations(const char *folder, json_t *columns)
{
    char path[PATH_MAX], *text;
    size_t bytes, i;
    json_t *list = NULL, *column;
    TRY(file_join(folder, "implementations.json", path));
    if (access(path, F_OK) != 0)
        return ERR_NONE;
    TRY(json_read(path, &text, &bytes));
    int rc = json_parse(path, 1, text, bytes, &list);
    free(text);
    if (rc == ERR_NONE && !json_is_array(list))
        rc = err_set(ERR_USAGE, "%s: expected a list of implementations", path);
    json_array_foreach (list, i, column)
        rc = rc == ERR_NONE ? check_column(path, i, column) : rc;
    if (rc == ERR_NONE && json_array_extend(columns, list) != 0)
        rc = err_set(ERR_MEMORY, "no memory for a site");
    json_decref(list);
    return rc;
}

int site_columns(const struct board *board, const char *folder, json_t **out)
{
    *out = json_array();
    for (size_t i = 0; i < board->entry_count; i++)
        if (record_of(&board->entries[i], "conformance"))
            json_array_append_new(*out, column_of(&board->entries[i]));
    return add_implementations(folder, *out);
}

// Optional chapters are asked of those that claim them.
static bool is_complete(const json_t *column)
{
    const json_t *verdicts = json_object_get(column, "verdicts");
    const struct requirement *requirement;
    bool complete = true;
    for (int i = 0; complete && (requirement = requirement_at(i)); i++)
        complete = !requirement_is_of(requirement, (int)view_number(column, "suite_version")) || requirement->options ||
                   json_object_get(verdicts, requirement->id);
    return complete;
}

// Of complete runs of one release the newest.
static bool is_shown(const json_t *columns, size_t index)
{
    const json_t *own = json_array_get(columns, index), *other;
    bool shown = is_complete(own);
    size_t i;
    json_array_foreach (columns, i, other) {
        int order = strcmp(view_text(other, "started"), view_text(own, "started"));
        if (i != index && is_complete(other) && strcmp(view_text(own, "release"), view_text(other, "release")) == 0)
            shown &= order < 0 || (order == 0 && i > index);
    }
    return shown;
}

struct page site_requirements(const json_t *columns)
{
    struct page page =
        page_open(json_pack("{s:s, s:s, s:s, s:s}", "title", "zerogauge: requirements", "heading",
                            "Requirements by implementation", "verdict", "Complete", "meaning",
                            "an implementation is shown once it was judged by every requirement of a version"));
    json_t *rows = json_array(), *heads = json_pack("[s]", "Requirement"), *shown = json_array();
    const json_t *column;
    const struct requirement *requirement;
    size_t at;
    json_array_foreach (columns, at, column)
        if (is_shown(columns, at)) {
            page_add(&page, shown, json_incref(json_object_get(column, "verdicts")));
            page_add(&page, heads, page_text("%s", view_text(column, "release")));
        }
    for (int i = 0; (requirement = requirement_at(i)); i++) {
        json_t *row = json_pack("[s]", requirement->id);
        bool found = false;
        json_array_foreach (shown, at, column) {
            const char *verdict = view_text(column, requirement->id);
            found |= *verdict != '\0';
            page_add(&page, row, json_pack("{s:s}", "verdict", *verdict ? verdict : "not asked"));
        }
        found ? page_add(&page, rows, row) : json_decref(row);
    }
    json_decref(shown);
    page_set(&page, page_section(&page, "table", "Verdicts", rows), "heads", heads);
    return page;
}

// --- tables of Markdown ---

// A cell's text without code marks and links: [text](address) is its text.
static json_t *plain(const char *from, size_t length)
{
    char *text = strndup(from, length);
    size_t used = 0;
    for (char *at = text; at && *at; at++) {
        char *end = *at == ']' && at[1] == '(' ? strchr(at, ')') : NULL;
        if (end)
            at = end;
        else if (*at != '`' && *at != '[')
            text[used++] = *at;
    }
    while (used > 0 && text[used - 1] == ' ')
        used--;
    json_t *cell = text ? page_text("%.*s", (int)used, text) : NULL;
    free(text);
    return cell;
}

// The cells of a line "| a | b |".
static json_t *cells_of(struct page *page, const char *line, size_t length)
{
    json_t *row = json_array();
    for (size_t at = 2, end; at < length; at = end + 2) {
        for (end = at; end < length && strncmp(line + end, " |", 2) != 0; end++)
            continue;
        page_add(page, row, plain(line + at, end - at));
        end += end + 2 < length;
    }
    return row;
}

static void add_tables(struct page *page, const char *text)
{
    char title[256] = "Table";
    json_t *rows = NULL, *heads = NULL;
    for (size_t length; *text; text += length + (text[length] != '\0')) {
        length = strcspn(text, "\n");
        bool is_row = strncmp(text, "| ", 2) == 0;
        size_t mark = strspn(text, "# ");
        if (*text == '#' && mark < length)
            snprintf(title, sizeof title, "%.*s", (int)(length - mark), text + mark);
        if (is_row && !rows) {
            heads = cells_of(page, text, length);
            rows = json_array();
        } else if (is_row && strncmp(text, "| --", 4) != 0) {
            page_add(page, rows, cells_of(page, text, length));
        }
        if (rows && (!is_row || text[length] == '\0')) {
            page_set(page, page_section(page, "table", title, rows), "heads", heads);
            rows = NULL;
        }
    }
    if (rows)
        page_set(page, page_section(page, "table", title, rows), "heads", heads);
}

struct page site_findings(const char *folder)
{
    static const char *const names[] = {"findings/defects.md", "time-machine.md"};
    enum { BYTES_MAX = 1 << 20 };
    bool has_any = false;
    struct page page = page_open(json_pack(
        "{s:s, s:s, s:s, s:s}", "title", "zerogauge: findings", "heading", "Findings", "verdict", "Found", "meaning",
        "in released software, and in releases with known bugs; the documents beside the results have the details"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX], *text;
        size_t bytes;
        if (file_join(folder, names[i], path) == ERR_NONE &&
            file_read_text(path, BYTES_MAX, &text, &bytes) == ERR_NONE) {
            add_tables(&page, text);
            free(text);
            has_any = true;
        }
    }
    err_clear();
    if (!has_any) {
        page_set(&page, page.data, "verdict", json_string("None"));
        page_set(&page, page.data, "meaning",
                 json_string("the folder has neither findings/defects.md nor time-machine.md"));
    }
    return page;
}
