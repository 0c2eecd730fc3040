// SPDX-License-Identifier: Apache-2.0
// Reads the papers' notation of numbers, and prints cells as tables or as JSON lines.
#include "plan/papers/paper.h"

#include "base/err.h"
#include "plan/planner/plan_print.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const char *verdict_name(enum paper_verdict verdict)
{
    static const char *const names[PAPER_VERDICT_COUNT] = {"agrees", "erratum", "measured", "differs"};
    return names[verdict];
}

static const char *const basis_names[PAPER_BASIS_COUNT] = {"stages", "bound", "equation", "figures"};
static const char *const class_names[PAPER_ERRATUM_COUNT] = {"", "paper", "convention", "rounding"};

// Suffixes of counts, each 1000 times the one before.
static const char letters[] = "KMBT";

bool paper_number(const char *text, double *value, double *last_digit)
{
    char *end;
    text += strspn(text, "<>~");
    if (*text < '0' || *text > '9')
        return false;
    *value = strtod(text, &end);
    const char *point = memchr(text, '.', (size_t)(end - text)), *letter = *end ? strchr(letters, *end) : NULL;
    double factor = letter ? pow(1000, (double)(letter - letters + 1)) : 1;
    *last_digit = (point ? pow(10, -(double)(end - point - 1)) : 1) * factor;
    *value *= factor;
    return isfinite(*value);
}

struct printing {
    FILE *out;
    bool json;
    char table[PAPER_NAME_BYTES];  // printed last
    uint64_t errata_printed;       // of that table, one bit each
    size_t counts[PAPER_VERDICT_COUNT], by[PAPER_BASIS_COUNT], errata[PAPER_ERRATUM_COUNT], table_count;
};

static void print_table(struct printing *p, const struct paper_table *table)
{
    fprintf(p->out, "%s%s: %s\n    %s\n", p->table_count ? "\n" : "", table->name, table->title, table->source);
    if (*table->note)
        fprintf(p->out, "    %s\n", table->note);
    fprintf(p->out, "  %-24s %-26s %14s %10s %-8s %s\n", "row", "column", "ours", "printed", "unit", "");
}

// Writes the computed value in the paper's notation: "7.642B" next to "7.6B".
static void write_ours(const struct paper_cell *cell, char *out, size_t bytes)
{
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
    snprintf(verdict, sizeof verdict, cell->erratum ? "%s %d" : "%s", verdict_name(cell->verdict), cell->erratum);
    fprintf(p->out, "  %-24s %-26s %14s %10s %-8s %s", cell->row, cell->column, ours, cell->printed, cell->unit,
            verdict);
    if (cell->verdict != PAPER_MEASURED)
        fprintf(p->out, ", %s, by %s", cell->rule, basis_names[cell->basis]);
    fputc('\n', p->out);
    uint64_t bit = cell->erratum > 0 ? UINT64_C(1) << (cell->erratum - 1) : 0;
    if (bit & ~p->errata_printed)
        fprintf(p->out, "      %d (%s): %s\n", cell->erratum, class_names[cell->erratum_class], cell->erratum_text);
    p->errata_printed |= bit;
}

static int print_one(const struct paper_cell *cell, void *context)
{
    struct printing *p = context;
    p->counts[cell->verdict]++;
    p->by[cell->basis] += cell->verdict != PAPER_MEASURED;
    p->errata[cell->erratum_class] += cell->verdict == PAPER_ERRATUM;
    if (p->json)
        return plan_print_record(
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s*, s:s*, s:s*}", "record", "paper",
                      "source", cell->table->source, "table", cell->table->name, "row", cell->row, "column",
                      cell->column, "printed", cell->printed, "unit", cell->unit, "rule", cell->rule, "ours",
                      isnan(cell->ours) ? json_null() : json_real(cell->ours), "verdict", verdict_name(cell->verdict),
                      "basis", cell->verdict == PAPER_MEASURED ? NULL : basis_names[cell->basis], "erratum_class",
                      cell->erratum ? class_names[cell->erratum_class] : NULL, "erratum",
                      cell->erratum ? cell->erratum_text : NULL),
            p->out);
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
        fprintf(out, "\n%zu cells: %zu agree, %zu are listed errata, %zu are measurements, %zu differ\n", count,
                p.counts[PAPER_AGREES], p.counts[PAPER_ERRATUM], p.counts[PAPER_MEASURED], differ);
    if (!json)
        fprintf(out,
                "compared by: %zu a run of the stages, %zu a bound, %zu the paper's own equation, %zu figures\n"
                "errata: %zu of the paper, %zu of its convention (products of rounded numbers), %zu within rounding\n",
                p.by[PAPER_BY_STAGES], p.by[PAPER_BY_BOUND], p.by[PAPER_BY_EQUATION], p.by[PAPER_BY_FIGURES],
                p.errata[PAPER_OF_PAPER], p.errata[PAPER_OF_CONVENTION], p.errata[PAPER_OF_ROUNDING]);
    return differ == 0
               ? ERR_NONE
               : err_set(ERR_CHECK, "%zu of %zu cells differ from the paper and are no listed errata", differ, count);
}
