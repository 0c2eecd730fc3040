// SPDX-License-Identifier: Apache-2.0
// What papers print, cell by cell, beside what follows from the stages and the papers' own equations. The tables are
// datasets/papers/*.json, compiled in; datasets/papers/README.md describes the form.
#ifndef ZG_PAPER_H
#define ZG_PAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PAPER_NAME_BYTES = 64, PAPER_TEXT_BYTES = 512 };

enum paper_verdict {
    PAPER_AGREES,    // what follows, rounded by the rule, is what is printed
    PAPER_ERRATUM,   // it is not, and the erratum says why
    PAPER_MEASURED,  // a measurement of the paper's: nothing follows
    PAPER_DIFFERS,   // it is not, and nothing says why; or it is, against the erratum
    PAPER_VERDICT_COUNT
};

const char *paper_verdict_name(enum paper_verdict verdict);

struct paper_table {
    char source[PAPER_TEXT_BYTES];                                                 // of the paper
    char name[PAPER_NAME_BYTES], title[PAPER_TEXT_BYTES], note[PAPER_TEXT_BYTES];  // note may be ""
};

struct paper_cell {
    const struct paper_table *table;
    char row[PAPER_NAME_BYTES], column[PAPER_NAME_BYTES];
    char printed[PAPER_NAME_BYTES];  // the paper's own text
    char unit[PAPER_NAME_BYTES];     // of it, "" where the text says all
    char rule[PAPER_NAME_BYTES];     // "nearest", "truncated", "at_least", "at_most", "equal"; "" where measured
    double ours;                     // in that unit; NAN where measured
    enum paper_verdict verdict;
    int erratum;  // its number in the table, from 1; 0: none
    char erratum_text[PAPER_TEXT_BYTES];
};

// The number that a text like "7.6B", ">3 TB" or "120" prints, and what a unit of its last digit is worth: without
// their unit, but with K, M, B and T of counts. False for a text that begins with no number.
bool paper_number(const char *text, double *value, double *last_digit);

// Calls visit for each cell of the tables that have this name or begin with it ("zero-1", "zero"); null: of all.
// ERR_USAGE with the known tables where there is none. What visit returns, unless it is 0, ends it.
int paper_each(const char *name, int (*visit)(const struct paper_cell *cell, void *context), void *context);

// The same for all tables of one file: for a file that is not compiled in.
int paper_each_of(const char *file, const char *text, size_t bytes,
                  int (*visit)(const struct paper_cell *cell, void *context), void *context);

// `zerogauge plan --paper`: prints the cells, as a table or as a JSON object a line, and how many there are of each
// verdict. ERR_CHECK when a cell differs.
int paper_print(const char *name, bool json, FILE *out);

#endif
