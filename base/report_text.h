// SPDX-License-Identifier: Apache-2.0
// Text of unknown origin, made safe to print. Bytes that are no UTF-8 and characters that a reader could not see or
// that would act on a terminal or a page (controls, marks of writing direction, what XML forbids) become visible as
// \xNN or \u{NNNN}; everything else stays as it is. A null text is an empty one.
#ifndef ZG_REPORT_TEXT_H
#define ZG_REPORT_TEXT_H

#include <jansson.h>

#include <stdio.h>

// For a terminal: lines after the first are indented by this many blanks, so that none of them can pass for the
// report's own.
void text_plain(FILE *out, const char *text, int indent);

// For the text of an element or the value of an attribute in quotation marks, in XML and in HTML.
void text_markup(FILE *out, const char *text);

// A new JSON string; null without memory.
json_t *text_json(const char *text);

#endif
