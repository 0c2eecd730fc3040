// SPDX-License-Identifier: Apache-2.0
// Self-contained HTML pages, without scripts, pictures or addresses, for screens of any size and for paper. The pages
// are also well-formed XML, so that tests can detect text that breaks the structure. All texts are untrusted and
// escaped.
#ifndef ZG_HTML_PAGE_H
#define ZG_HTML_PAGE_H

#include <stdio.h>

// Writes the page up to <body>. style: rules to add to the shared style sheet, trusted. title: a format.
void html_begin(FILE *out, const char *style, const char *title, ...) __attribute__((format(printf, 3, 4)));
void html_end(FILE *out);

// Writes <ELEMENT>text</ELEMENT>; html_format formats the text.
void html_element(FILE *out, const char *element, const char *text);
void html_format(FILE *out, const char *element, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Writes a row of a list of facts, a dl of class "facts".
void html_fact(FILE *out, const char *name, const char *text);

// Begins a table as wide as the page; heads: the column titles, separated by |.
void html_table_begin(FILE *out, const char *heads);
void html_table_end(FILE *out);

// html_class returns the class of a verdict, which sets its colour. html_badge writes its badge: a mark, for readers
// who cannot distinguish the colours, and the word.
const char *html_class(const char *verdict);
void html_badge(FILE *out, const char *verdict);

#endif
