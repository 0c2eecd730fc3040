// SPDX-License-Identifier: Apache-2.0
// Text of strangers in Markdown, CSV and data files of gnuplot; base/report_text.h has it for terminals and
// markup. Nothing that is not seen, and no line end, comes through. A null text is an empty one.
#ifndef ZG_RESULT_TEXT_H
#define ZG_RESULT_TEXT_H

#include <jansson.h>

#include <stdio.h>

// In a paragraph or in the cell of a table: no mark acts, and no address becomes a link.
void text_markdown(FILE *out, const char *text);

// A field, in quotation marks where it needs them. One that a spreadsheet would take for a formula gets an apostrophe
// before it.
void text_csv(FILE *out, const char *text);

// Between quotation marks in a data file of gnuplot: letters, digits and a few signs; all else becomes a question mark.
void text_gnuplot(FILE *out, const char *text);

// "step=update threads=2 block=1MiB": the settings of a case, to be freed; null without memory.
char *settings_text(const json_t *settings);

// The same of the first `most` settings whose keys `without` lacks, which may be null.
char *settings_text_of(const json_t *settings, const json_t *without, size_t most);

// "4.7", four digits that are as long as they need be.
enum { NUMBER_TEXT_BYTES = 32 };
const char *number_text(double value, char out[NUMBER_TEXT_BYTES]);

// "32 MiB", in the largest unit that leaves at least one.
const char *bytes_text(double bytes, char out[NUMBER_TEXT_BYTES]);

#endif
