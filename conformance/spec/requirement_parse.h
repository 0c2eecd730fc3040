// SPDX-License-Identifier: Apache-2.0
// Reads requirements out of a text in the format of SPEC.md. A chapter is `## TITLE`; a requirement is a block
//
//     ### R-RED-04 MUST: TITLE
//
//     Any paragraphs, or none.
//
//     - Source: where it comes from
//     - Check: state, gradient of `red-rounding` `red-odd`
//     - Mutants: `reduce-rank-weighed` `reduce-bf16-sum`
//
// whose list has these three items in this order; lines indented by two spaces continue an item.
#ifndef ZG_REQUIREMENT_PARSE_H
#define ZG_REQUIREMENT_PARSE_H

#include "conformance/spec/requirement.h"

struct requirements {
    struct requirement *list;  // owned; their titles are in strings, their texts in the text that was read
    int count;
    char *strings;
};

// name stands for the text in messages. The text must outlive the list. ERR_USAGE with `NAME:LINE: ...` for what is
// not in the format, for an identifier or a mutant that comes twice, and for a text without requirements.
int requirements_parse(const char *name, const char *text, size_t bytes, struct requirements *out);

void requirements_close(struct requirements *requirements);

#endif
