// SPDX-License-Identifier: Apache-2.0
// Compares the papers' tables, cell by cell, with the stages and the papers' own equations. The tables of
// datasets/papers/*.json are compiled in; datasets/papers/README.md describes the form.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PAPER_NAME_BYTES = 64, PAPER_TEXT_BYTES = 512 };

enum paper_verdict {
    PAPER_AGREES,    // the computed value, rounded by the rule, equals the printed one
    PAPER_ERRATUM,   // it differs, as a listed erratum explains
    PAPER_MEASURED,  // a measurement of the paper, which cannot be computed
    PAPER_DIFFERS,   // it differs without an erratum, or agrees despite one
    PAPER_VERDICT_COUNT
};

// How a cell was compared.
enum paper_basis {
    PAPER_BY_STAGES,    // with a run of the stages, exact
    PAPER_BY_BOUND,     // as a bound: at least or at most
    PAPER_BY_EQUATION,  // with the paper's own equation
    PAPER_BY_FIGURES,   // with arithmetic on figures of the paper or its machines
    PAPER_BASIS_COUNT
};

// Why a cell differs.
enum paper_erratum {
    PAPER_NO_ERRATUM,
    PAPER_OF_PAPER,       // an error of the paper
    PAPER_OF_CONVENTION,  // the paper multiplies rounded numbers
    PAPER_OF_ROUNDING,    // the printed numbers allow it within their rounding
    PAPER_ERRATUM_COUNT
};

struct paper_table {
    char source[PAPER_TEXT_BYTES];                                                 // of the paper
    char name[PAPER_NAME_BYTES], title[PAPER_TEXT_BYTES], note[PAPER_TEXT_BYTES];  // note may be ""
};

struct paper_cell {
    const struct paper_table *table;
    char row[PAPER_NAME_BYTES], column[PAPER_NAME_BYTES];
    char printed[PAPER_NAME_BYTES];  // the paper's own text
    char unit[PAPER_NAME_BYTES];     // "" if the text contains it
    const char *rule;                // "nearest", "truncated", "at_least", "at_most", "equal"; "" where measured
    double ours;                     // in that unit; NAN where measured
    enum paper_verdict verdict;
    enum paper_basis basis;  // meaningless where measured
    int erratum;             // its number in the table, from 1; 0: none
    enum paper_erratum erratum_class;
    char erratum_text[PAPER_TEXT_BYTES];
};

// Reads the number in a text such as "7.6B", ">3 TB" or "120" and the value of one unit of its last digit. K, M, B and
// T of counts apply; units do not. Returns false if the text does not start with a number.
bool paper_number(const char *text, double *value, double *last_digit);

typedef int paper_visit(const struct paper_cell *cell, void *context);

// Calls visit for each cell of the tables whose names start with `name` ("zero-1", "zero"); null: all tables. A
// non-zero return value of visit ends the walk and is returned. ERR_USAGE lists the known tables.
int paper_each(const char *name, paper_visit *visit, void *context);

// The same for all tables of a file that is not compiled in.
int paper_each_of(const char *file, const char *text, size_t bytes, paper_visit *visit, void *context);

// `zerogauge plan --paper`: prints the cells, as tables or as JSON lines, and the number of each verdict. ERR_CHECK: a
// cell differs.
int paper_print(const char *name, bool json, FILE *out);
