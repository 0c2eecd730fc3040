// SPDX-License-Identifier: Apache-2.0
// The papers' cells as a page, or as JSON lines.
#include "plan/claims/paper.h"

#include "base/err.h"

#include <jansson.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct printing {
    FILE *out;
    bool json;
    char table[PAPER_NAME_BYTES];  // the last one's name
    uint64_t errata_printed;       // of that table: a bit each
    size_t counts[PAPER_VERDICT_COUNT], table_count;
};

static void print_table(struct printing *p, const struct paper_table *table)
{
    fprintf(p->out, "%s%s: %s\n    %s\n", p->table_count ? "\n" : "", table->name, table->title, table->source);
    if (*table->note)
        fprintf(p->out, "    %s\n", table->note);
    fprintf(p->out, "  %-24s %-26s %14s %10s %-8s %s\n", "row", "column", "ours", "printed", "unit", "");
}

// What is ours, as the paper writes numbers: "7.642B" beside "7.6B".
static void write_ours(const struct paper_cell *cell, char *out, size_t bytes)
{
    static const char letters[] = "KMBT";
    const char *last = *cell->printed ? cell->printed + strlen(cell->printed) - 1 : "";
    const char *letter = *last && strcmp(cell->rule, "equal") != 0 ? strchr(letters, *last) : NULL;
    if (isnan(cell->ours))
        snprintf(out, bytes, "-");
    else if (letter)
        snprintf(out, bytes, "%.6g%c", cell->ours / pow(1000, (double)(letter - letters + 1)), *letter);
    else
        snprintf(out, bytes, "%.7g", cell->ours);
}

static void print_cell(struct printing *p, const struct paper_cell *cell)
{
    char ours[32], verdict[48];
    write_ours(cell, ours, sizeof ours);
    snprintf(verdict, sizeof verdict, cell->erratum ? "%s %d" : "%s", paper_verdict_name(cell->verdict), cell->erratum);
    fprintf(p->out, "  %-24s %-26s %14s %10s %-8s %s%s%s\n", cell->row, cell->column, ours, cell->printed, cell->unit,
            verdict, *cell->rule ? ", " : "", cell->rule);
    uint64_t bit = cell->erratum > 0 ? UINT64_C(1) << (cell->erratum - 1) : 0;
    if (bit & ~p->errata_printed)
        fprintf(p->out, "      %d: %s\n", cell->erratum, cell->erratum_text);
    p->errata_printed |= bit;
}

static int print_json(struct printing *p, const struct paper_cell *cell)
{
    json_t *ours = isnan(cell->ours) ? json_null() : json_real(cell->ours);
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s*}", "record", "paper", "source",
                             cell->table->source, "table", cell->table->name, "row", cell->row, "column", cell->column,
                             "printed", cell->printed, "unit", cell->unit, "rule", cell->rule, "ours", ours, "verdict",
                             paper_verdict_name(cell->verdict), "erratum", cell->erratum ? cell->erratum_text : NULL);
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a cell of %s", cell->table->name);
    fprintf(p->out, "%s\n", text);
    free(text);
    return ERR_NONE;
}

static int print_one(const struct paper_cell *cell, void *context)
{
    struct printing *p = context;
    p->counts[cell->verdict]++;
    if (p->json)
        return print_json(p, cell);
    if (strcmp(p->table, cell->table->name) != 0) {
        print_table(p, cell->table);
        snprintf(p->table, sizeof p->table, "%s", cell->table->name);
        p->errata_printed = 0;
        p->table_count++;
    }
    print_cell(p, cell);
    return ERR_NONE;
}

int paper_print(const char *name, bool json, FILE *out)
{
    struct printing p = {.out = out, .json = json};
    TRY(paper_each(name, print_one, &p));
    size_t differ = p.counts[PAPER_DIFFERS], count = 0;
    for (int i = 0; i < PAPER_VERDICT_COUNT; i++)
        count += p.counts[i];
    if (!json)
        fprintf(out, "\n%zu cells: %zu agree, %zu listed errata, %zu measurements of the papers, %zu differ\n", count,
                p.counts[PAPER_AGREES], p.counts[PAPER_ERRATUM], p.counts[PAPER_MEASURED], differ);
    return differ == 0 ? ERR_NONE
                       : err_set(ERR_CHECK, "%zu of %zu cells are neither what the paper prints nor a listed erratum",
                                 differ, count);
}
