// SPDX-License-Identifier: Apache-2.0
#include "plan/papers/paper.h"

#include "base/err.h"
#include "plan/planner/plan_texts.h"
#include "plan/papers/query.h"

#include <math.h>
#include <string.h>

enum { ROW_MAX = 256, COLUMN_MAX = 64, ERRATA_MAX = 64, EQUATION_MAX = 64 };

static const char *const RULES[] = {"nearest", "truncated", "at_least", "at_most", "equal", NULL};
enum rule { RULE_NEAREST, RULE_TRUNCATED, RULE_AT_LEAST, RULE_AT_MOST, RULE_EQUAL };

static bool follows(int rule, double ours, double value, double last_digit)
{
    double noise = 1e-9 * fabs(value), least = value - noise;
    return rule == RULE_NEAREST     ? fabs(ours - value) <= last_digit / 2 + noise
           : rule == RULE_TRUNCATED ? ours >= least && ours < value + last_digit
           : rule == RULE_AT_LEAST  ? ours >= least
           : rule == RULE_AT_MOST   ? ours <= value + noise
                                    : fabs(ours - value) <= 1e-6 * fabs(value);
}

// The parts of the file that define a cell.
struct position {
    const struct strict_object *row, *column, *table;
};

// The first of them that has a key; null: none.
static const struct strict_object *owner(const struct position *position, const char *key)
{
    const struct strict_object *const parts[] = {position->row, position->column, position->table};
    for (int i = 0; i < 3; i++)
        if (json_object_get(parts[i]->value, key))
            return parts[i];
    return NULL;
}

// Evaluates the expression at a key of `of`. A row's names precede a column's, and a column's before the table's.
static int evaluate(const struct position *position, const struct strict_object *of, const char *key,
                    const struct paper_cell *cell, struct query_basis *basis, double *out)
{
    const struct query_scope table = {position->table, NULL, basis}, column = {position->column, &table, NULL},
                             row = {position->row, &column, NULL};
    int rc = query_number(&row, of, key, out);
    return rc == ERR_NONE ? rc : err_prefix(rc, "%s, %s, %s", cell->table->name, cell->row, cell->column);
}

static int judge(const struct position *position, const struct strict_object *query, struct paper_cell *cell)
{
    int rule = RULE_NEAREST;
    double value, last_digit = 0, scale = 1;
    if (owner(position, "rule"))
        TRY(strict_word(owner(position, "rule"), "rule", RULES, &rule));
    if (owner(position, "scale"))
        TRY(strict_real(owner(position, "scale"), "scale", &scale));
    cell->rule = RULES[rule];
    if (rule == RULE_EQUAL) {
        if (!json_object_get(position->column->value, "theirs"))
            return strict_fail(position->column, "theirs", "missing: the value of the printed text");
        TRY(evaluate(position, position->column, "theirs", cell, NULL, &value));
        value /= scale;
    } else if (!paper_number(cell->printed, &value, &last_digit)) {
        return strict_fail(position->row, "printed", "has '%s', expected a number", cell->printed);
    }
    struct query_basis basis = {0};
    TRY(evaluate(position, query, "query", cell, &basis, &cell->ours));
    cell->basis = rule == RULE_AT_LEAST || rule == RULE_AT_MOST ? PAPER_BY_BOUND
                  : basis.plan                                  ? PAPER_BY_STAGES
                  : basis.equation                              ? PAPER_BY_EQUATION
                                                                : PAPER_BY_FIGURES;
    cell->ours /= scale;
    bool agrees = follows(rule, cell->ours, value, last_digit);
    cell->verdict = agrees == (cell->erratum == 0) ? (agrees ? PAPER_AGREES : PAPER_ERRATUM) : PAPER_DIFFERS;
    return ERR_NONE;
}

// The erratum of the cell, if one names it as [ROW, COLUMN].
static int find_erratum(const struct strict_object *table, struct paper_cell *cell)
{
    static const char *const classes[] = {"paper", "convention", "rounding", NULL};
    int class;
    const json_t *errata, *cells, *pair;
    size_t count, cell_count, i;
    if (!json_object_get(table->value, "errata"))
        return ERR_NONE;
    TRY(strict_array(table, "errata", 1, ERRATA_MAX, &errata, &count));
    for (size_t e = 0; e < count; e++) {
        struct strict_object erratum;
        TRY(strict_element(table, "errata", errata, e, &erratum));
        TRY(strict_only(&erratum, "cells class text"));
        TRY(strict_array(&erratum, "cells", 1, ROW_MAX, &cells, &cell_count));
        json_array_foreach ((json_t *)(uintptr_t)cells, i, pair) {
            const char *row = json_string_value(json_array_get(pair, 0));
            const char *column = json_string_value(json_array_get(pair, 1));
            if (!row || !column)
                return strict_fail(&erratum, "cells", "element %zu is not [ROW, COLUMN]", i);
            if (strcmp(row, cell->row) != 0 || strcmp(column, cell->column) != 0)
                continue;
            cell->erratum = (int)e + 1;
            TRY(strict_word(&erratum, "class", classes, &class));
            cell->erratum_class = (enum paper_erratum)(class + 1);
            TRY(strict_string(&erratum, "text", cell->erratum_text, sizeof cell->erratum_text));
        }
    }
    return ERR_NONE;
}

// A walk over cells.
struct walk {
    const char *name;   // prefix of the tables' names; null: all tables
    bool only_printed;  // do not evaluate
    paper_visit *visit;
    void *context;
    size_t table_count;            // selected by the name
    char known[PAPER_TEXT_BYTES];  // names of all tables
};

static int visit_cell(const struct position *position, const struct paper_table *table, const json_t *printed,
                      const struct walk *walk)
{
    struct paper_cell cell = {.table = table, .verdict = PAPER_MEASURED, .ours = NAN, .rule = ""};
    const struct strict_object *query = owner(position, "query");
    if (!json_is_string(printed) || json_string_length(printed) >= sizeof cell.printed)
        return strict_fail(position->row, "printed", "has an element that is neither null nor a short string");
    snprintf(cell.printed, sizeof cell.printed, "%s", json_string_value(printed));
    TRY(strict_string(position->row, "row", cell.row, sizeof cell.row));
    TRY(strict_string(position->column, "column", cell.column, sizeof cell.column));
    if (owner(position, "unit"))
        TRY(strict_string(owner(position, "unit"), "unit", cell.unit, sizeof cell.unit));
    if (!walk->only_printed) {
        TRY(find_erratum(position->table, &cell));
        // A cell without a query, or with a null one, is a measurement.
        if (query && !json_is_null(json_object_get(query->value, "query")))
            TRY(judge(position, query, &cell));
    }
    return walk->visit(&cell, walk->context);
}

static int visit_row(const struct strict_object *table, const struct paper_table *of, const struct strict_object *row,
                     const struct walk *walk)
{
    const json_t *columns, *printed;
    size_t column_count, printed_count;
    TRY(strict_only(row, "row printed ?given ?query ?rule"));
    TRY(strict_array(table, "columns", 1, COLUMN_MAX, &columns, &column_count));
    TRY(strict_array(row, "printed", column_count, column_count, &printed, &printed_count));
    for (size_t i = 0; i < column_count; i++) {
        struct strict_object column;
        const struct position position = {row, &column, table};
        TRY(strict_element(table, "columns", columns, i, &column));
        TRY(strict_only(&column, "column ?given ?query ?theirs ?rule ?unit ?scale"));
        if (!json_is_null(json_array_get(printed, i)))
            TRY(visit_cell(&position, of, json_array_get(printed, i), walk));
    }
    return ERR_NONE;
}

static int visit_table(const struct strict_object *table, struct paper_table *of, struct walk *walk)
{
    size_t row_count, used = strlen(walk->known);
    const json_t *rows;
    TRY(strict_only(table, "table title columns rows ?note ?unit ?scale ?rule ?query ?given ?errata"));
    TRY(strict_string(table, "table", of->name, sizeof of->name));
    TRY(strict_string(table, "title", of->title, sizeof of->title));
    if (json_object_get(table->value, "note"))
        TRY(strict_string(table, "note", of->note, sizeof of->note));
    snprintf(walk->known + used, sizeof walk->known - used, "%s%s", used ? ", " : "", of->name);
    if (walk->name && strncmp(of->name, walk->name, strlen(walk->name)) != 0)
        return ERR_NONE;
    walk->table_count++;
    TRY(strict_array(table, "rows", 1, ROW_MAX, &rows, &row_count));
    for (size_t i = 0; i < row_count; i++) {
        struct strict_object row;
        TRY(strict_element(table, "rows", rows, i, &row));
        TRY(visit_row(table, of, &row, walk));
    }
    return ERR_NONE;
}

static int visit_paper(const struct strict_object *root, void *walk)
{
    const json_t *tables;
    size_t table_count;
    TRY(strict_only(root, "paper source ?equations tables"));
    TRY(strict_array(root, "tables", 1, ROW_MAX, &tables, &table_count));
    for (size_t i = 0; i < table_count; i++) {
        struct strict_object table;
        struct paper_table of = {0};
        TRY(strict_element(root, "tables", tables, i, &table));
        TRY(strict_string(root, "source", of.source, sizeof of.source));
        TRY(visit_table(&table, &of, walk));
    }
    return ERR_NONE;
}

static int visit_papers(int (*visit)(const struct strict_object *root, void *context), void *context)
{
    for (const struct plan_text *file = plan_paper_texts; file->name; file++)
        TRY(strict_parse(file->name, file->text, file->bytes, visit, context));
    return ERR_NONE;
}

int paper_each_of(const char *file, const char *text, size_t bytes, paper_visit *visit, void *context)
{
    return strict_parse(file, text, bytes, visit_paper, &(struct walk){.visit = visit, .context = context});
}

int paper_each(const char *name, paper_visit *visit, void *context)
{
    struct walk walk = {.name = name, .visit = visit, .context = context};
    TRY(visit_papers(visit_paper, &walk));
    return walk.table_count > 0
               ? ERR_NONE
               : err_set(ERR_USAGE, "no paper's table is called '%.64s'; there are %s", name, walk.known);
}

// The cell to find, and its text.
struct search {
    char table[PAPER_NAME_BYTES], row[PAPER_NAME_BYTES], column[PAPER_NAME_BYTES], printed[PAPER_NAME_BYTES];
};

static int search_cell(const struct paper_cell *cell, void *context)
{
    struct search *search = context;
    if (strcmp(cell->table->name, search->table) == 0 && strcmp(cell->row, search->row) == 0 &&
        strcmp(cell->column, search->column) == 0)
        memcpy(search->printed, cell->printed, sizeof search->printed);
    return ERR_NONE;
}

int query_printed_number(const struct strict_object *cell, double *out)
{
    struct search search = {0};
    struct walk walk = {.name = search.table, .only_printed = true, .visit = search_cell, .context = &search};
    double last_digit;
    TRY(strict_only(cell, "printed row column"));
    TRY(strict_string(cell, "printed", search.table, sizeof search.table));
    TRY(strict_string(cell, "row", search.row, sizeof search.row));
    TRY(strict_string(cell, "column", search.column, sizeof search.column));
    TRY(visit_papers(visit_paper, &walk));
    if (walk.table_count == 0)
        return strict_fail(cell, "printed", "is '%s', which is not a table of the papers; `plan --paper` lists them",
                           search.table);
    if (!*search.printed)
        return strict_fail(cell, "row", "there is no cell at row '%s' and column '%s' of %s", search.row, search.column,
                           search.table);
    return paper_number(search.printed, out, &last_digit)
               ? ERR_NONE
               : strict_fail(cell, "printed", "the cell has '%s', which is not a number", search.printed);
}

struct call {
    const char *name;
    const struct expression_names *names;
    bool found;
    double result;
};

static int visit_equations(const struct strict_object *root, void *context)
{
    struct call *call = context;
    const json_t *equations;
    size_t count = 0;
    if (query_has(root, "equations"))
        TRY(strict_array(root, "equations", 1, EQUATION_MAX, &equations, &count));
    for (size_t i = 0; i < count && !call->found; i++) {
        struct strict_object equation;
        const char *name;
        TRY(strict_element(root, "equations", equations, i, &equation));
        TRY(strict_only(&equation, "equation title formula"));
        TRY(strict_text(&equation, "equation", &name));
        call->found = strcmp(name, call->name) == 0;
        if (call->found)
            TRY(expression_evaluate(&(struct expression){&equation, "formula"}, call->names, &call->result));
    }
    return ERR_NONE;
}

int query_equation_number(const char *name, const struct expression *expression, const struct expression_names *names,
                          double *out)
{
    struct call call = {.name = name, .names = names};
    TRY(visit_papers(visit_equations, &call));
    *out = call.result;
    return call.found ? ERR_NONE
                      : strict_fail(expression->object, expression->key,
                                    "names %s, which is neither given nor an equation of a paper", name);
}
