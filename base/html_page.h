// SPDX-License-Identifier: Apache-2.0
// Pages that need nothing else: no script, no picture, no address; the same on paper and on a phone. They are XML, too,
// so that a test can tell whether a text has left its place. Texts are untrusted and escaped.
#ifndef ZG_HTML_PAGE_H
#define ZG_HTML_PAGE_H

#include <stdio.h>

// From the first line to <body>; style: what the page adds to the style sheet that all pages share. The title is
// formatted.
void html_begin(FILE *out, const char *style, const char *title, ...) __attribute__((format(printf, 3, 4)));
void html_end(FILE *out);

// <ELEMENT>text</ELEMENT>; html_format formats the text first.
void html_element(FILE *out, const char *element, const char *text);
void html_format(FILE *out, const char *element, const char *format, ...) __attribute__((format(printf, 3, 4)));

// A row of a list of facts, which is a dl of the class "facts".
void html_fact(FILE *out, const char *name, const char *text);

// A table as wide as the page; heads: the columns, separated by |.
void html_table_begin(FILE *out, const char *heads);
void html_table_end(FILE *out);

// The class of a verdict, which is its colour; and its badge: a mark, for those who cannot tell colours apart, and the
// word.
const char *html_class(const char *verdict);
void html_badge(FILE *out, const char *verdict);

#endif
