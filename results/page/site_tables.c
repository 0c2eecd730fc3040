// SPDX-License-Identifier: Apache-2.0
#include "results/page/site_tables.h"

#include "base/err.h"
#include "base/file.h"
#include "conformance/spec/requirement.h"
#include "results/page/result_view.h"

#include <stdlib.h>
#include <string.h>

static const json_t *record_of(const struct board_entry *entry, const char *kind, const char *id)
{
    for (size_t line = 1; line <= entry->file.line_count; line++) {
        const json_t *record = view_record(&entry->view, line);
        if (view_is(record, kind) && (!id || strcmp(view_text(record, "id"), id) == 0))
            return record;
    }
    return NULL;
}

static int version_of(const struct board_entry *entry)
{
    return (int)view_number(json_object_get(entry->file.run, "suite"), "edition");
}

static bool is_complete(const struct board_entry *entry)
{
    const struct requirement *requirement;
    bool complete = record_of(entry, "conformance", NULL) != NULL;
    for (int i = 0; complete && (requirement = requirement_at(i)); i++)
        complete = !requirement_is_of(requirement, version_of(entry)) ||
                   record_of(entry, "requirement", requirement->id) != NULL;
    return complete;
}

static json_t *release_of(const struct board_entry *entry)
{
    const json_t *suite = json_object_get(entry->file.run, "suite");
    return page_text("%s %s, %.8s, suite version %d",
                     view_text(record_of(entry, "conformance", NULL), "implementation"), view_text(suite, "version"),
                     view_text(suite, "commit"), version_of(entry));
}

// Of complete runs of one release the newest.
static bool is_shown(const struct board *board, size_t index)
{
    const struct board_entry *entry = &board->entries[index];
    if (!is_complete(entry))
        return false;
    json_t *own = release_of(entry);
    bool shown = true;
    for (size_t i = 0; i < board->entry_count && shown; i++) {
        const struct board_entry *other = &board->entries[i];
        json_t *release = i != index && is_complete(other) ? release_of(other) : NULL;
        int order = strcmp(view_text(other->file.run, "started"), view_text(entry->file.run, "started"));
        shown = !release || !json_equal(own, release) || order < 0 || (order == 0 && i > index);
        json_decref(release);
    }
    json_decref(own);
    return shown;
}

static json_t *requirement_row(struct page *page, const struct board *board, const bool *shown,
                               const struct requirement *requirement)
{
    json_t *row = json_pack("[s]", requirement->id);
    bool found = false;
    for (size_t i = 0; i < board->entry_count; i++) {
        const json_t *record = shown[i] ? record_of(&board->entries[i], "requirement", requirement->id) : NULL;
        found |= record != NULL;
        if (shown[i])
            page_add(page, row, json_pack("{s:s}", "verdict", record ? view_text(record, "verdict") : "not asked"));
    }
    return found ? row : (json_decref(row), NULL);
}

struct page site_requirements(const struct board *board)
{
    struct page page =
        page_open(json_pack("{s:s, s:s, s:s, s:s}", "title", "zerogauge: requirements", "heading",
                            "Requirements by implementation", "verdict", "Complete", "meaning",
                            "an implementation is shown once it was judged by every requirement of a version"));
    bool *shown = calloc(board->entry_count, sizeof *shown);
    json_t *rows = json_array(), *heads = json_pack("[s]", "Requirement");
    const struct requirement *requirement;
    page.failed |= !shown;
    for (size_t i = 0; i < board->entry_count && shown; i++)
        if ((shown[i] = is_shown(board, i)))
            page_add(&page, heads, release_of(&board->entries[i]));
    for (int i = 0; shown && (requirement = requirement_at(i)); i++) {
        json_t *row = requirement_row(&page, board, shown, requirement);
        if (row)
            page_add(&page, rows, row);
    }
    page_set(&page, page_section(&page, "table", "Verdicts", rows), "heads", heads);
    free(shown);
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
        if (strncmp(text, "#", 1) == 0)
            snprintf(title, sizeof title, "%.*s", (int)length - 2, text + 2 + (text[1] == '#'));
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
    static const char *const names[] = {"findings/README.md", "time-machine.md"};
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
                 json_string("the folder has neither findings/README.md nor time-machine.md"));
    }
    return page;
}
