// SPDX-License-Identifier: Apache-2.0
// Untrusted text, made safe for the format that it is printed in. Bytes that are not UTF-8 and characters that a reader
// could not see or that would act on a terminal or a page (controls, marks of writing direction, what XML forbids)
// become visible as \xNN or \u{NNNN}; everything else stays as it is. A null text is an empty one.
#ifndef ZG_SAFE_TEXT_H
#define ZG_SAFE_TEXT_H

#include <jansson.h>

#include <stddef.h>
#include <stdio.h>

// For a terminal: lines after the first are indented by this many blanks, so that none of them can pass for the
// report's own.
void text_terminal(FILE *out, const char *text, int indent);

// For the text of an element or the value of an attribute in quotation marks, in XML and in HTML.
void text_markup(FILE *out, const char *text);

// For Markdown, in a paragraph or in the cell of a table, on one line: no mark acts, and no address becomes a link.
void text_markdown(FILE *out, const char *text);

// A field of CSV, on one line, in quotation marks where it needs them. One that a spreadsheet would take for a formula
// gets an apostrophe before it.
void text_csv(FILE *out, const char *text);

// Between quotation marks in a data file of gnuplot: letters, digits and a few signs; all else becomes a question mark.
void text_gnuplot(FILE *out, const char *text);

// A new JSON string; null without memory.
json_t *text_json(const char *text);

// For a message of one line: at most limit bytes of text, "..." where it is cut. Returns out.
enum { TEXT_MESSAGE_BYTES = 512 };
const char *text_message(char out[TEXT_MESSAGE_BYTES], const char *text, size_t limit);

#endif
