// SPDX-License-Identifier: Apache-2.0
// Static pages of a folder of results (result_report.h). They need no server and load nothing; the one script sorts and
// filters the board (base/page.html).
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "results/page/board.h"
#include "results/page/history.h"
#include "results/page/site_tables.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KIND_BYTES = 256 };
static const double NEAR = 0.1;  // medians of two runs that reproduce each other differ by no more

// A machine is compared by its GPUs, or its processor and threads.
static const char *kind_of(const struct board_entry *entry, char out[KIND_BYTES])
{
    const json_t *machine = json_object_get(entry->file.run, "machine"), *gpus = json_object_get(machine, "gpus");
    if (json_array_size(gpus) > 0)
        snprintf(out, KIND_BYTES, "%zu x %.200s", json_array_size(gpus), view_text(json_array_get(gpus, 0), "model"));
    else
        snprintf(out, KIND_BYTES, "%.200s, %.0f threads", view_text(machine, "processor"),
                 view_number(machine, "threads"));
    return out;
}

// The name of a file's page: its own, with - for all but letters, digits and dots.
static json_t *page_name(const struct board_entry *entry)
{
    json_t *name = page_text("run-%.*s.html", (int)(strlen(entry->name) - strlen(".jsonl")), entry->name);
    for (char *at = (char *)(uintptr_t)json_string_value(name); at && *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '.')
            *at = '-';
    return name;
}

static json_t *link_to(const struct board_entry *entry)
{
    return json_pack("{s:{s:o, s:o}}", "link", "href", page_name(entry), "text",
                     page_text("%.*s", (int)(strlen(entry->name) - strlen(".jsonl")), entry->name));
}

static json_t *valued(json_t *text, double value)
{
    return json_pack("{s:o, s:o}", "text", text, "value", page_number(value));
}

static bool is_of_program(const struct board_entry *entry, bool validate)
{
    return (strcmp(view_text(entry->file.run, "program"), "validate") == 0) == validate;
}

static bool is_measured(const struct board *board, struct board_column column, bool validate)
{
    bool measured = false;
    for (size_t i = 0; i < board->entry_count; i++)
        measured |= is_of_program(&board->entries[i], validate) && board_figure(&board->entries[i], column).unit;
    return measured;
}

static json_t *figure_cell(const struct board_entry *entry, struct board_column column)
{
    const struct board_figure figure = board_figure(entry, column);
    char best[NUMBER_TEXT_BYTES];
    if (!figure.unit)
        return valued(json_string(""), NAN);
    if (isnan(figure.share))
        return valued(page_text("%s %s", number_text(figure.best, best), figure.unit), figure.best);
    return valued(page_text("%.0f %%; %s %s", 100 * figure.share, number_text(figure.best, best), figure.unit),
                  figure.share);
}

static json_t *board_row(struct page *page, const struct board *board, const struct board_entry *entry, bool validate)
{
    const json_t *run = entry->file.run, *machine = json_object_get(run, "machine");
    const json_t *gpus = json_object_get(machine, "gpus"), *disks = json_object_get(machine, "disks");
    char kind[KIND_BYTES], number[NUMBER_TEXT_BYTES];
    double memory = view_number(machine, "memory_bytes");
    json_t *cells = json_array();
    page_add(page, cells, link_to(entry));
    page_add(page, cells, json_pack("{s:s}", "verdict", board_is_ranked(entry) ? "yes" : "no"));
    page_add(page, cells, page_text("%s", kind_of(entry, kind)));
    page_add(page, cells, valued(page_text("%s", bytes_text(memory, number)), memory));
    page_add(page, cells, json_pack("{s:s}", "verdict", entry->view.verdict));
    page_add(page, cells, page_text("%s", view_text(run, "level")));
    for (size_t i = 0; i < board->column_count; i++)
        if (is_measured(board, board->columns[i], validate))
            page_add(page, cells, figure_cell(entry, board->columns[i]));
    page_add(page, cells, page_text("%.10s", view_text(run, "started")));
    return json_pack("{s:o, s:o, s:o, s:o}", "cells", cells, "kind", page_text("%s", kind), "gpu",
                     page_text("%s", json_array_size(gpus) ? view_text(json_array_get(gpus, 0), "model") : "none"),
                     "disk", page_text("%s", view_text(json_array_get(disks, 0), "file_system")));
}

static void add_board(struct page *page, const struct board *board, const char *title, bool validate)
{
    json_t *rows = json_array(),
           *heads = json_pack("[s, s, s, s, s, s]", "Run", "Ranked", "Machine", "Memory", "Verdict", "Level");
    for (size_t i = 0; i < board->entry_count; i++)
        if (is_of_program(&board->entries[i], validate))
            page_add(page, rows, board_row(page, board, &board->entries[i], validate));
    for (size_t i = 0; i < board->column_count; i++)
        if (is_measured(board, board->columns[i], validate))
            page_add(page, heads,
                     page_text("%s%s%s", board->columns[i].name, *board->columns[i].device ? " on " : "",
                               board->columns[i].device));
    page_add(page, heads, json_string("Date"));
    page_set(page, page_section(page, "board", title, rows), "heads", heads);
}

// --- a run among those of its kind ---

static bool is_peer(const struct board_entry *a, const struct board_entry *b)
{
    char kind[2][KIND_BYTES];
    return strcmp(kind_of(a, kind[0]), kind_of(b, kind[1])) == 0 &&
           strcmp(view_text(a->file.run, "program"), view_text(b->file.run, "program")) == 0 &&
           strcmp(view_text(a->file.run, "level"), view_text(b->file.run, "level")) == 0;
}

static void add_place(struct page *page, const struct board *board, const struct board_entry *entry)
{
    json_t *rows = json_array();
    for (size_t c = 0; c < board->column_count; c++) {
        const struct board_figure own = board_figure(entry, board->columns[c]);
        const struct board_entry *best = entry;
        double most = own.share;
        size_t count = 0, below = 0;
        for (size_t i = 0; i < board->entry_count && !isnan(own.share); i++) {
            const struct board_entry *other = &board->entries[i];
            double share = is_peer(entry, other) ? board_figure(other, board->columns[c]).share : NAN;
            count += isnan(share) ? 0 : 1;
            below += share < own.share;
            best = share > most ? other : best;
            most = fmax(most, share);
        }
        if (count < 2)
            continue;
        json_t *row = json_array();
        page_add(page, row, page_text("%s", board->columns[c].name));
        page_add(page, row, page_text("%.1f %%", 100 * own.share));
        page_add(page, row, page_text("%.1f %%", 100 * most));
        page_add(page, row, link_to(best));
        page_add(page, row, page_text("%.1f %%", 100 * own.share / most));
        page_add(page, row, page_text("%.0f of %zu runs", 100.0 * (double)below / (double)(count - 1), count));
        page_add(page, rows, row);
    }
    page_table(page, "Among the runs of its kind of machine",
               "Benchmark|Ratio to the baseline|Best of the kind|Run|Share of the best|Percentile", rows);
}

// Counts the cases that both files have, and those whose medians are near.
static size_t near_cases(const struct board_entry *a, const struct board_entry *b, size_t *common)
{
    size_t near = 0;
    json_t *cases = json_object();
    *common = 0;
    for (size_t i = 0; i < a->view.bench_count; i++) {
        char *key = case_key(a->view.benches[i].record);
        json_object_set_new(cases, key ? key : "", json_real(a->view.benches[i].median));
        free(key);
    }
    for (size_t i = 0; i < b->view.bench_count; i++) {
        char *key = case_key(b->view.benches[i].record);
        const json_t *median = key ? json_object_get(cases, key) : NULL;
        *common += median != NULL;
        near += median && fabs(b->view.benches[i].median / json_real_value(median) - 1) <= NEAR;
        free(key);
    }
    json_decref(cases);
    return near;
}

static void add_reproductions(struct page *page, const struct board *board, const struct board_entry *entry)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < board->entry_count; i++) {
        const struct board_entry *other = &board->entries[i];
        size_t common, near;
        if (other == entry || !is_peer(entry, other) || (near = near_cases(entry, other, &common), common == 0))
            continue;
        json_t *row = json_array();
        page_add(page, row, link_to(other));
        page_add(page, row, page_text("%.10s", view_text(other->file.run, "started")));
        page_add(page, row, page_text("%zu", common));
        page_add(page, row, page_text("%zu, %.0f %%", near, 100.0 * (double)near / (double)common));
        page_add(page, rows, row);
    }
    page_table(page, "Reproduced by", "Run|Date|Common cases|Medians within 10 %", rows);
}

// --- files ---

static json_t *nav(const char *here)
{
    static const char *const pages[][2] = {
        {"index.html", "Results"}, {"requirements.html", "Requirements"}, {"findings.html", "Findings"}};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i][0], here) != 0)
            json_array_append_new(list, json_pack("{s:s, s:s}", "href", pages[i][0], "text", pages[i][1]));
    return list;
}

static int put(struct page *page, const char *to, const char *name)
{
    struct file_output file;
    char path[PATH_MAX];
    page_set(page, page->data, "nav", nav(name));
    int rc = file_join(to, name, path);
    rc = rc == ERR_NONE ? file_output_open(path, FILE_NEW, &file) : rc;
    if (rc == ERR_NONE)
        return file_output_close(&file, page_html(page, file.out));
    json_decref(page->data);
    return rc;
}

static int put_runs(const struct board *board, const char *to)
{
    for (size_t i = 0; i < board->entry_count; i++) {
        struct page page = result_page(&board->entries[i].view);
        json_t *name = page_name(&board->entries[i]);
        add_place(&page, board, &board->entries[i]);
        add_reproductions(&page, board, &board->entries[i]);
        int rc = put(&page, to, name ? json_string_value(name) : "");
        json_decref(name);
        TRY(rc);
    }
    return ERR_NONE;
}

static int put_index(const struct board *board, const char *to)
{
    size_t ranked = 0;
    for (size_t i = 0; i < board->entry_count; i++)
        ranked += board_is_ranked(&board->entries[i]);
    struct page page =
        page_open(json_pack("{s:s, s:s, s:o, s:o, s:b}", "title", "zerogauge: results", "heading",
                            "Results of zerogauge", "verdict", page_text("%zu ranked", ranked), "meaning",
                            page_text("of %zu files, each of which verifies", board->entry_count), "script", 1));
    add_board(&page, board, "Runs of validate", true);
    add_board(&page, board, "Single benchmarks", false);
    return put(&page, to, "index.html");
}

static int put_all(const struct board *board, const json_t *columns, const char *folder, const char *to)
{
    struct page requirements = site_requirements(columns), findings = site_findings(folder);
    int rc = put(&requirements, to, "requirements.html");
    int rc_findings = put(&findings, to, "findings.html");
    TRY(rc);
    TRY(rc_findings);
    TRY(put_index(board, to));
    return put_runs(board, to);
}

// Two files may not have one page.
static int check_names(const struct board *board)
{
    int rc = ERR_NONE;
    json_t *owners = json_object();
    for (size_t i = 0; rc == ERR_NONE && i < board->entry_count; i++) {
        json_t *name = page_name(&board->entries[i]);
        const char *owner = json_string_value(json_object_get(owners, json_string_value(name)));
        if (owner)
            rc = err_set(ERR_USAGE, "%s and %s: both would be %s: rename one", owner, board->entries[i].name,
                         json_string_value(name));
        else
            json_object_set_new(owners, json_string_value(name), json_string(board->entries[i].name));
        json_decref(name);
    }
    json_decref(owners);
    return rc;
}

int site(const char *folder, const char *to)
{
    struct board board;
    json_t *columns = NULL;
    int rc = board_open(folder, true, &board);
    rc = rc == ERR_NONE ? check_names(&board) : rc;
    rc = rc == ERR_NONE ? site_columns(&board, folder, &columns) : rc;
    if (rc == ERR_NONE && mkdir(to, 0777) != 0)
        rc = err_set(ERR_USAGE, "%s: cannot be made: %s; give a new folder", to, strerror(errno));
    if (rc == ERR_NONE)
        rc = put_all(&board, columns, folder, to);
    json_decref(columns);
    board_close(&board);
    return rc;
}
