// SPDX-License-Identifier: Apache-2.0
// Pages for people: data, laid out by a template that is compiled in. base/page.html makes a self-contained page for
// screens of any size and for paper, which is also well-formed XML; base/page.markdown makes tables. All texts are
// untrusted: a template escapes each for its format.
//
// A template's tags: {{NAME}} prints a member's text, {{.}} the item itself. {{#NAME}}...{{/NAME}} is printed for each
// item of a list, or once for an object, a number, true or a text that is not empty, whose members or self it names.
#pragma once

#include <jansson.h>

#include <stdbool.h>
#include <stdio.h>

struct page {
    json_t *data;
    bool failed;  // part of it had no memory, so that it is not written
};

// Begins a page. head: its title, heading, verdict and meaning, possibly reasons; taken.
struct page page_open(json_t *head);

// A text from a format; and a number, which a template prints with four digits: null if it is not finite.
json_t *page_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
json_t *page_number(double value);

// Appends to a list of the page, and sets a member of an object in it, or nothing where that is null; the value is
// taken.
void page_add(struct page *page, json_t *list, json_t *item);
void page_set(struct page *page, json_t *object, const char *key, json_t *value);

// A line below the verdict; text: taken.
void page_fact(struct page *page, const char *name, json_t *text);

// Appends a section of a kind that templates know, unless its list of rows is empty. rows: taken. Returns the section,
// whose other members the caller sets; null: there is none, or the page has failed.
json_t *page_section(struct page *page, const char *kind, const char *title, json_t *rows);

// The same for a table. heads: column titles, separated by |. A row is a list of cells: texts, or objects with a member
// "verdict", a word that is shown in its colour, or "code".
void page_table(struct page *page, const char *title, const char *heads, json_t *rows);

// Writes the page and closes it. ERR_IO, ERR_MEMORY.
int page_html(struct page *page, FILE *out);
int page_markdown(struct page *page, FILE *out);

// base/page.html and base/page.markdown.
extern const char page_html_template[], page_markdown_template[];
