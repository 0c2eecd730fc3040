// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/paper.h"

#include "base/err.h"
#include "plan/planner/plan_texts.h"
#include "plan/claims/query.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAX = 256, COLUMN_MAX = 64, ERRATA_MAX = 64, SUBSTITUTION_DEPTH_MAX = 32 };

static const char *const FILE_KEYS[] = {"paper", "source", "tables", NULL};
static const char *const TABLE_KEYS[] = {"table",  "title", "columns", "rows",   "?note",   "?unit",
                                         "?scale", "?rule", "?query",  "?given", "?errata", NULL};
static const char *const COLUMN_KEYS[] = {"column", "?given", "?query", "?theirs", "?rule", "?unit", "?scale", NULL};
static const char *const ROW_KEYS[] = {"row", "printed", "?given", "?rule", NULL};
static const char *const ERRATUM_KEYS[] = {"cells", "text", NULL};
static const char *const RULES[] = {"nearest", "truncated", "at_least", "at_most", "equal", NULL};
enum rule { RULE_NEAREST, RULE_TRUNCATED, RULE_AT_LEAST, RULE_AT_MOST, RULE_EQUAL };

const char *paper_verdict_name(enum paper_verdict verdict)
{
    static const char *const names[PAPER_VERDICT_COUNT] = {"agrees", "erratum", "measured", "differs"};
    return names[verdict];
}

bool paper_number(const char *text, double *value, double *last_digit)
{
    char *end;
    text += strspn(text, "<>~");
    if (*text < '0' || *text > '9')
        return false;
    *value = strtod(text, &end);
    const char *point = memchr(text, '.', (size_t)(end - text));
    *last_digit = point ? pow(10, -(double)(end - point - 1)) : 1;
    double factor = *end == 'K' ? 1e3 : *end == 'M' ? 1e6 : *end == 'B' ? 1e9 : *end == 'T' ? 1e12 : 1;
    *value *= factor;
    *last_digit *= factor;
    return isfinite(*value);
}

static bool follows(enum rule rule, double ours, double value, double last_digit)
{
    double noise = 1e-9 * fabs(value);
    switch (rule) {
    case RULE_NEAREST:
        return fabs(ours - value) <= last_digit / 2 + noise;
    case RULE_TRUNCATED:
        return ours >= value - noise && ours < value + last_digit;
    case RULE_AT_LEAST:
        return ours >= value - noise;
    case RULE_AT_MOST:
        return ours <= value + noise;
    case RULE_EQUAL:
        break;
    }
    return fabs(ours - value) <= 1e-6 * fabs(value);
}

// A copy of a query in which every string "$NAME" is what the first of the objects that has NAME gives for it.
static json_t *substitute(const json_t *value, const json_t *const given[3], int depth)
{
    const char *text = json_string_value(value);
    if (depth > SUBSTITUTION_DEPTH_MAX)
        return NULL;
    for (int i = 0; text && text[0] == '$' && i < 3; i++)
        if (json_object_get(given[i], text + 1))
            return substitute(json_object_get(given[i], text + 1), given, depth + 1);
    if (!json_is_object(value) && !json_is_array(value))
        return json_deep_copy(value);
    json_t *copy = json_is_array(value) ? json_array() : json_object(), *element;
    const char *key;
    size_t i;
    int failed = !copy;
    json_array_foreach ((json_t *)(uintptr_t)value, i, element)
        failed |= json_array_append_new(copy, substitute(element, given, depth + 1)) != 0;
    json_object_foreach ((json_t *)(uintptr_t)value, key, element)
        failed |= json_object_set_new(copy, key, substitute(element, given, depth + 1)) != 0;
    if (failed) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

// What stands at a row and a column: the parts of the file that decide it.
struct position {
    const struct strict_object *table, *column, *row;
};

// Evaluates a query of the table's or the column's with what row, column and table give.
static int evaluate(const struct position *position, const json_t *query, const struct paper_cell *cell, double *out)
{
    const json_t *const given[] = {json_object_get(position->row->value, "given"),
                                   json_object_get(position->column->value, "given"),
                                   json_object_get(position->table->value, "given")};
    char name[3 * PAPER_NAME_BYTES + 16];
    struct json_text text;
    struct strict_object root;
    json_t *whole = json_object(), *filled = substitute(query, given, 0);
    snprintf(name, sizeof name, "%s, %s, %s", cell->table->name, cell->row, cell->column);
    char *bytes = whole && filled && json_object_set(whole, "query", filled) == 0 ? json_dumps(whole, 0) : NULL;
    json_decref(filled);
    json_decref(whole);
    if (!bytes)
        return strict_fail(position->column, "query", "cannot be filled in for row '%s'", cell->row);
    int rc = json_text_parse(name, bytes, strlen(bytes), &text);
    free(bytes);
    if (rc != ERR_NONE)
        return rc;
    root = strict_root(name, &text);
    rc = query_number(&root, "query", out);
    json_text_close(&text);
    return rc == ERR_NONE ? rc : err_prefix(rc, "%s", position->table->file);
}

// A string of the column, or else of the table; fallback where neither has it.
static int inherited_string(const struct position *position, const char *key, const char *fallback, char *out,
                            size_t room)
{
    if (json_object_get(position->column->value, key))
        return strict_string(position->column, key, out, room);
    if (json_object_get(position->table->value, key))
        return strict_string(position->table, key, out, room);
    snprintf(out, room, "%s", fallback);
    return ERR_NONE;
}

static const json_t *inherited(const struct position *position, const char *key)
{
    const json_t *own = json_object_get(position->column->value, key);
    return own ? own : json_object_get(position->table->value, key);
}

static int judge(const struct position *position, const json_t *query, struct paper_cell *cell)
{
    int rule = 0;
    double value, last_digit = 0, scale = 1;
    while (RULES[rule] && strcmp(RULES[rule], cell->rule) != 0)
        rule++;
    if (!RULES[rule])
        return strict_fail(position->column, "rule", "is '%s', expected nearest, truncated, at_least, at_most or equal",
                           cell->rule);
    if (inherited(position, "scale"))
        TRY(strict_real(json_object_get(position->column->value, "scale") ? position->column : position->table, "scale",
                        &scale));
    if (rule == RULE_EQUAL) {
        if (!json_object_get(position->column->value, "theirs"))
            return strict_fail(position->column, "theirs", "missing: what the printed text stands for");
        TRY(evaluate(position, json_object_get(position->column->value, "theirs"), cell, &value));
        value /= scale;
    } else if (!paper_number(cell->printed, &value, &last_digit)) {
        return strict_fail(position->row, "printed", "has '%s', expected a number", cell->printed);
    }
    TRY(evaluate(position, query, cell, &cell->ours));
    cell->ours /= scale;
    bool agrees = follows((enum rule)rule, cell->ours, value, last_digit);
    cell->verdict = agrees == (cell->erratum == 0) ? (agrees ? PAPER_AGREES : PAPER_ERRATUM) : PAPER_DIFFERS;
    return ERR_NONE;
}

// The erratum of the cell, if one names it as [ROW, COLUMN].
static int find_erratum(const struct strict_object *table, struct paper_cell *cell)
{
    const json_t *errata, *cells, *pair;
    size_t count, cell_count, i;
    cell->erratum = 0;
    cell->erratum_text[0] = '\0';
    if (!json_object_get(table->value, "errata"))
        return ERR_NONE;
    TRY(strict_array(table, "errata", 1, ERRATA_MAX, &errata, &count));
    for (size_t e = 0; e < count; e++) {
        struct strict_object erratum;
        TRY(strict_element(table, "errata", errata, e, &erratum));
        TRY(strict_keys(&erratum, ERRATUM_KEYS));
        TRY(strict_array(&erratum, "cells", 1, ROW_MAX, &cells, &cell_count));
        json_array_foreach ((json_t *)(uintptr_t)cells, i, pair) {
            const char *row = json_string_value(json_array_get(pair, 0));
            const char *column = json_string_value(json_array_get(pair, 1));
            if (!row || !column)
                return strict_fail(&erratum, "cells", "element %zu is not [ROW, COLUMN]", i);
            if (strcmp(row, cell->row) != 0 || strcmp(column, cell->column) != 0)
                continue;
            cell->erratum = (int)e + 1;
            TRY(strict_string(&erratum, "text", cell->erratum_text, sizeof cell->erratum_text));
        }
    }
    return ERR_NONE;
}

typedef int paper_visit(const struct paper_cell *cell, void *context);

// A walk over cells.
struct walk {
    const char *name;   // with which a table's begins; null: any
    bool only_printed;  // nothing is evaluated
    paper_visit *visit;
    void *context;
    size_t table_count;  // seen
};

static int make_cell(const struct position *position, const json_t *printed, const struct walk *walk,
                     struct paper_cell *cell)
{
    if (!json_is_string(printed) || json_string_length(printed) >= sizeof cell->printed)
        return strict_fail(position->row, "printed", "has what is neither null nor a short text");
    snprintf(cell->printed, sizeof cell->printed, "%s", json_string_value(printed));
    TRY(strict_string(position->row, "row", cell->row, sizeof cell->row));
    TRY(strict_string(position->column, "column", cell->column, sizeof cell->column));
    TRY(inherited_string(position, "unit", "", cell->unit, sizeof cell->unit));
    if (json_object_get(position->row->value, "rule"))
        TRY(strict_string(position->row, "rule", cell->rule, sizeof cell->rule));
    else
        TRY(inherited_string(position, "rule", "nearest", cell->rule, sizeof cell->rule));
    cell->verdict = PAPER_MEASURED;
    cell->ours = NAN;
    if (walk->only_printed)
        return ERR_NONE;
    TRY(find_erratum(position->table, cell));
    const json_t *query = inherited(position, "query");
    if (json_is_object(query) || json_is_string(query))
        return judge(position, query, cell);
    if (query && !json_is_null(query))
        return strict_fail(position->column, "query", "is neither an expression nor null");
    // Nothing follows: the column's query is null, or nobody has one.
    cell->rule[0] = '\0';
    return ERR_NONE;
}

static int each_row(const struct strict_object *table, struct paper_cell *cell, const struct strict_object *row,
                    const struct walk *walk)
{
    const json_t *columns, *printed;
    size_t column_count, printed_count;
    TRY(strict_keys(row, ROW_KEYS));
    TRY(strict_array(table, "columns", 1, COLUMN_MAX, &columns, &column_count));
    TRY(strict_array(row, "printed", column_count, column_count, &printed, &printed_count));
    for (size_t i = 0; i < column_count; i++) {
        struct strict_object column;
        const struct position position = {table, &column, row};
        TRY(strict_element(table, "columns", columns, i, &column));
        TRY(strict_keys(&column, COLUMN_KEYS));
        if (json_is_null(json_array_get(printed, i)))
            continue;
        TRY(make_cell(&position, json_array_get(printed, i), walk, cell));
        TRY(walk->visit(cell, walk->context));
    }
    return ERR_NONE;
}

static int each_cell(const struct strict_object *table, const struct paper_table *of, const struct walk *walk)
{
    struct paper_cell cell = {.table = of};
    const json_t *rows;
    size_t row_count;
    TRY(strict_array(table, "rows", 1, ROW_MAX, &rows, &row_count));
    for (size_t i = 0; i < row_count; i++) {
        struct strict_object row;
        TRY(strict_element(table, "rows", rows, i, &row));
        TRY(each_row(table, &cell, &row, walk));
    }
    return ERR_NONE;
}

static int each_table(const struct strict_object *root, struct walk *walk)
{
    const json_t *tables;
    size_t table_count;
    TRY(strict_keys(root, FILE_KEYS));
    TRY(strict_array(root, "tables", 1, ROW_MAX, &tables, &table_count));
    for (size_t i = 0; i < table_count; i++) {
        struct strict_object table;
        struct paper_table of = {0};
        TRY(strict_element(root, "tables", tables, i, &table));
        TRY(strict_keys(&table, TABLE_KEYS));
        TRY(strict_string(root, "source", of.source, sizeof of.source));
        TRY(strict_string(&table, "table", of.name, sizeof of.name));
        TRY(strict_string(&table, "title", of.title, sizeof of.title));
        if (json_object_get(table.value, "note"))
            TRY(strict_string(&table, "note", of.note, sizeof of.note));
        if (walk->name && strncmp(of.name, walk->name, strlen(walk->name)) != 0)
            continue;
        walk->table_count++;
        TRY(each_cell(&table, &of, walk));
    }
    return ERR_NONE;
}

static int each_of_file(const char *file, const char *text, size_t bytes, struct walk *walk)
{
    struct json_text parsed;
    TRY(json_text_parse(file, text, bytes, &parsed));
    const struct strict_object root = strict_root(file, &parsed);
    int rc = each_table(&root, walk);
    json_text_close(&parsed);
    return rc;
}

static int each_of_all(struct walk *walk)
{
    for (const struct plan_text *file = plan_paper_texts; file->name; file++)
        TRY(each_of_file(file->name, file->text, file->bytes, walk));
    return ERR_NONE;
}

int paper_each_of(const char *file, const char *text, size_t bytes, paper_visit *visit, void *context)
{
    struct walk walk = {.visit = visit, .context = context};
    return each_of_file(file, text, bytes, &walk);
}

static int list_name(const struct paper_cell *cell, void *context)
{
    char *known = context;
    size_t used = strlen(known);
    const char *last = strrchr(known, ' ');
    if (strcmp(last ? last + 1 : known, cell->table->name) != 0)
        snprintf(known + used, PAPER_TEXT_BYTES - used, "%s%s", used ? ", " : "", cell->table->name);
    return ERR_NONE;
}

int paper_each(const char *name, paper_visit *visit, void *context)
{
    char known[PAPER_TEXT_BYTES] = "";
    struct walk walk = {.name = name, .visit = visit, .context = context};
    struct walk names = {.only_printed = true, .visit = list_name, .context = known};
    TRY(each_of_all(&walk));
    if (walk.table_count > 0)
        return ERR_NONE;
    TRY(each_of_all(&names));
    return err_set(ERR_USAGE, "no paper's table is called '%.64s'; there are %s", name, known);
}

// What is looked for, and what was found.
struct search {
    char table[PAPER_NAME_BYTES], row[PAPER_NAME_BYTES], column[PAPER_NAME_BYTES];
    char printed[PAPER_NAME_BYTES];
    bool has_table, found;
};

static int search_cell(const struct paper_cell *cell, void *context)
{
    struct search *search = context;
    if (strcmp(cell->table->name, search->table) != 0)
        return ERR_NONE;
    search->has_table = true;
    if (strcmp(cell->row, search->row) == 0 && strcmp(cell->column, search->column) == 0) {
        search->found = true;
        memcpy(search->printed, cell->printed, sizeof search->printed);
    }
    return ERR_NONE;
}

int query_printed_number(const struct strict_object *e, double *out)
{
    struct search search = {0};
    struct walk walk = {.only_printed = true, .visit = search_cell, .context = &search};
    double last_digit;
    TRY(strict_string(e, "printed", search.table, sizeof search.table));
    TRY(strict_string(e, "row", search.row, sizeof search.row));
    TRY(strict_string(e, "column", search.column, sizeof search.column));
    TRY(each_of_all(&walk));
    if (!search.has_table)
        return strict_fail(e, "printed", "is '%s', which is no paper's table; `plan --paper` lists them", search.table);
    if (!search.found)
        return strict_fail(e, "row", "'%s' and column '%s' are no cell of %s", search.row, search.column, search.table);
    return paper_number(search.printed, out, &last_digit)
               ? ERR_NONE
               : strict_fail(e, "printed", "has '%s' there, which is no number", search.printed);
}
