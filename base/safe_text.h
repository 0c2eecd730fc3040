// SPDX-License-Identifier: Apache-2.0
// Escapes untrusted text for the format that it is printed in. Bytes that are not UTF-8, and characters that are
// invisible or act on a terminal or a page (controls, marks of writing direction, characters that XML forbids), become
// \xNN or \u{NNNN}; all others stay unchanged. A null text is treated as empty.
#pragma once

#include <jansson.h>

#include <stddef.h>
#include <stdio.h>

// For a terminal: indents lines after the first by `indent` blanks, so that none can imitate a line of the report.
void text_terminal(FILE *out, const char *text, int indent);

// Prints a formatted text and a line's end to standard error, as text_terminal does, and in one piece: ranks share a
// terminal or a pipe, and none writes into another's line.
void text_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Prints "WHO: MESSAGE" so, with the calling thread's message (err.h). Messages
// quote command lines and files, whose bytes may be any.
void text_error(const char *who, ...) __attribute__((format(printf, 1, 2)));

// For the text of an element or a quoted attribute value, in XML and HTML.
void text_markup(FILE *out, const char *text);

// For Markdown, in a paragraph or a table cell, on one line: escapes all markup, and no address becomes a link.
void text_markdown(FILE *out, const char *text);

// Returns a new JSON string; null if there is no memory.
json_t *text_json(const char *text);

// For a message of one line: at most `limit` bytes of text, then "..." if it is longer. Returns out.
enum { TEXT_MESSAGE_BYTES = 512 };
const char *text_message(char out[TEXT_MESSAGE_BYTES], const char *text, size_t limit);
