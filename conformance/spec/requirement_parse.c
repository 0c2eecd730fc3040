// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/requirement_parse.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum item { ITEM_SOURCE, ITEM_CHECK, ITEM_NEEDS, ITEM_OPTIONAL, ITEM_VERSIONS, ITEM_MUTANTS, ITEM_COUNT };
static const char *const item_starts[ITEM_COUNT] = {
    "- Source: ", "- Check: ", "- Needs: ", "- Optional: ", "- Versions: ", "- Mutants: "};

enum { ITEM_BYTES = 4096 };

struct parser {
    const char *name;
    struct requirements *out;
    const char *text;  // the whole of it; out->strings holds a copy, whose lines are terminated as they are read
    size_t at, bytes;
    char *line;                 // the current one, in the copy
    size_t line_start;          // where it begins
    int line_number;            // from 1
    const char *group;          // null before the first chapter
    struct requirement *block;  // null outside of one
    int block_line;
    int item_count;  // items begun
    bool item_open;  // a line that is indented continues the last one
    int item_lines[ITEM_COUNT];
    char items[ITEM_COUNT][ITEM_BYTES];
};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// ERR_USAGE: what is wrong at a line, with the text there.
static int wrong(const struct parser *p, int line, const char *text, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "%s:%d: '%s': %s", p->name, line, text_message(shown, text, 80), what);
}

static bool next_line(struct parser *p)
{
    if (p->at >= p->bytes)
        return false;
    p->line = p->out->strings + p->at;
    p->line_start = p->at;
    p->line_number++;
    char *end = memchr(p->line, '\n', p->bytes - p->at);
    if (end)
        *end = '\0';
    p->at += strlen(p->line) + 1;
    return true;
}

// The names in a list of `name` `name`, of lower-case letters, digits and '-', and of `also`.
static int parse_names(const struct parser *p, enum item item, const char *text, const char *also, int room,
                       char names[][CASE_NAME_BYTES], int *count)
{
    int line = p->item_lines[item];
    *count = 0;
    for (const char *at = text; *at;) {
        const char *end = *at == '`' ? strchr(at + 1, '`') : NULL;
        if (!end || (end[1] != '\0' && (end[1] != ' ' || end[2] != '`')))
            return wrong(p, line, at, "expected names in backquotes, one blank between them");
        size_t length = (size_t)(end - at) - 1;
        if (length == 0 || length >= CASE_NAME_BYTES)
            return wrong(p, line, at, "the name is empty or too long");
        if (*count == room)
            return wrong(p, line, at, "there are more names than a requirement can hold");
        char *name = names[(*count)++];
        memcpy(name, at + 1, length);
        name[length] = '\0';
        for (const char *c = name; *c; c++) {
            if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '-' && !strchr(also, *c))
                return wrong(p, line, name, "a name has lower-case letters, digits and '-'");
        }
        at = end[1] ? end + 2 : end + 1;
    }
    return *count > 0 ? ERR_NONE : wrong(p, line, p->items[item], "a name is missing");
}

static int parse_aspect(const struct parser *p, const char *word, size_t length, unsigned *aspects)
{
    for (int i = 0; i < ASPECT_COUNT; i++) {
        const char *name = aspect_name((enum aspect)i);
        if (strlen(name) != length || memcmp(word, name, length) != 0)
            continue;
        if (*aspects & 1u << i)
            return wrong(p, p->item_lines[ITEM_CHECK], word, "the aspect is listed twice");
        *aspects |= 1u << i;
        return ERR_NONE;
    }
    return wrong(p, p->item_lines[ITEM_CHECK], word, "there is no such aspect");
}

// "state, gradient of `red-*` `acc-exact`"
static int parse_check(const struct parser *p)
{
    const char *at = p->items[ITEM_CHECK], *of = strstr(at, " of ");
    if (!of)
        return wrong(p, p->item_lines[ITEM_CHECK], at, "expected: ASPECT, ... of `PATTERN` ...");
    while (at < of) {
        const char *comma = memmem(at, (size_t)(of - at), ", ", 2), *end = comma ? comma : of;
        TRY(parse_aspect(p, at, (size_t)(end - at), &p->block->aspects));
        at = comma ? comma + 2 : of;
    }
    if (p->block->aspects == 0)
        return wrong(p, p->item_lines[ITEM_CHECK], p->items[ITEM_CHECK], "the aspect is missing");
    return parse_names(p, ITEM_CHECK, of + strlen(" of "), "*", REQUIREMENT_PATTERN_MAX, p->block->patterns,
                       &p->block->pattern_count);
}

static int parse_words(const struct parser *p)
{
    const char *need = p->items[ITEM_NEEDS], *option = p->items[ITEM_OPTIONAL];
    if (!need_find(need, &p->block->need))
        return wrong(p, p->item_lines[ITEM_NEEDS], need, "there is no such need");
    return option_find(option, &p->block->options)
               ? ERR_NONE
               : wrong(p, p->item_lines[ITEM_OPTIONAL], option, "there is no such option");
}

// "from 2", or "MUST until 1".
static int parse_versions(struct parser *p)
{
    const char *text = p->items[ITEM_VERSIONS];
    struct requirement *block = p->block;
    char rest;
    block->since = 1;
    if (!*text || sscanf(text, "from %d%c", &block->since, &rest) == 1 ||
        (!block->must && sscanf(text, "MUST until %d%c", &block->must_until, &rest) == 1))
        return ERR_NONE;
    return wrong(p, p->item_lines[ITEM_VERSIONS], text, "expected 'from VERSION', or of a SHOULD 'MUST until VERSION'");
}

// Steps over the optional items that do not begin on this line.
static void skip_optional_items(struct parser *p, const char *line)
{
    while (p->item_count >= ITEM_NEEDS && p->item_count <= ITEM_VERSIONS &&
           !starts_with(line, item_starts[p->item_count]))
        p->item_count++;
}

// Mutants are broken in one way each, so that a requirement that lets one through is known by it.
static int check_mutants_unique(const struct parser *p)
{
    const struct requirement *first = p->out->list;
    for (int i = 0; i < p->block->mutant_count; i++) {
        const char *mutant = p->block->mutants[i];
        for (const struct requirement *other = first; other <= p->block; other++) {
            for (int k = 0; k < (other == p->block ? i : other->mutant_count); k++) {
                if (strcmp(other->mutants[k], mutant) == 0)
                    return wrong(p, p->item_lines[ITEM_MUTANTS], mutant, "the mutant is named twice");
            }
        }
    }
    return ERR_NONE;
}

static int end_block(struct parser *p)
{
    struct requirement *block = p->block;
    if (!block)
        return ERR_NONE;
    skip_optional_items(p, "");
    if (p->item_count < ITEM_COUNT)
        return err_set(ERR_USAGE, "%s:%d: %s ends without a line '%s'", p->name, p->block_line, block->id,
                       item_starts[p->item_count]);
    TRY(parse_check(p));
    TRY(parse_words(p));
    TRY(parse_versions(p));
    TRY(parse_names(p, ITEM_MUTANTS, p->items[ITEM_MUTANTS], "", REQUIREMENT_MUTANT_MAX, block->mutants,
                    &block->mutant_count));
    TRY(check_mutants_unique(p));
    p->block = NULL;
    p->out->count++;
    return ERR_NONE;
}

// "### R-RED-04 MUST: TITLE"
static int begin_block(struct parser *p)
{
    const char *heading = p->line + strlen("### ");
    size_t length = requirement_id_length(heading);
    bool must = starts_with(heading + length, " MUST: "), should = starts_with(heading + length, " SHOULD: ");
    const char *title = heading + length + (must ? strlen(" MUST: ") : should ? strlen(" SHOULD: ") : 0);
    if (length == 0 || (!must && !should) || !*title)
        return wrong(p, p->line_number, p->line, "expected '### R-NAME-00 MUST: TITLE', or SHOULD");
    if (!p->group)
        return wrong(p, p->line_number, p->line, "the requirement precedes the first chapter ('## TITLE')");
    if (p->out->count == REQUIREMENT_MAX)
        return wrong(p, p->line_number, p->line, "there are more requirements than the suite can hold");
    p->block = &p->out->list[p->out->count];
    memcpy(p->block->id, heading, length);
    for (int i = 0; i < p->out->count; i++) {
        if (strcmp(p->out->list[i].id, p->block->id) == 0)
            return wrong(p, p->line_number, p->block->id, "the identifier is already used");
    }
    p->block->title = title;
    p->block->must = must;
    p->block->group = p->group;
    p->block->text = p->text + p->line_start;
    p->block->text_bytes = strlen(p->line);
    p->block_line = p->line_number;
    p->items[ITEM_NEEDS][0] = p->items[ITEM_OPTIONAL][0] = p->items[ITEM_VERSIONS][0] = '\0';
    p->item_count = 0;
    p->item_open = false;
    return ERR_NONE;
}

static int parse_item(struct parser *p, const char *text)
{
    char *item = p->items[p->item_count - 1];
    size_t used = strlen(item), length = strlen(text);
    if (length == 0 || used + length + 2 > ITEM_BYTES)
        return wrong(p, p->line_number, p->line, "the item is empty or too long");
    if (used > 0)
        item[used++] = ' ';
    memcpy(item + used, text, length + 1);
    return ERR_NONE;
}

static int parse_block_line(struct parser *p)
{
    if (!*p->line) {
        p->item_open = false;
        return ERR_NONE;
    }
    p->block->text_bytes = p->line_start + strlen(p->line) - (size_t)(p->block->text - p->text);
    if (p->item_open && starts_with(p->line, "  "))
        return parse_item(p, p->line + strspn(p->line, " "));
    if (p->line[0] == '-' && p->line[1] == ' ') {
        skip_optional_items(p, p->line);
        if (p->item_count == ITEM_COUNT || !starts_with(p->line, item_starts[p->item_count]))
            return wrong(p, p->line_number, p->line,
                         "expected the items Source, Check, Needs, Optional, Versions and Mutants, in this order");
        p->item_lines[p->item_count] = p->line_number;
        p->items[p->item_count][0] = '\0';
        p->item_open = true;
        p->item_count++;
        return parse_item(p, p->line + strlen(item_starts[p->item_count - 1]));
    }
    if (p->item_count > 0)
        return wrong(p, p->line_number, p->line, "expected only list items after the first one");
    return ERR_NONE;
}

static int parse_line(struct parser *p)
{
    if (starts_with(p->line, "## ")) {
        TRY(end_block(p));
        p->group = p->line + strlen("## ");
        return ERR_NONE;
    }
    if (starts_with(p->line, "### ")) {
        TRY(end_block(p));
        return begin_block(p);
    }
    if (p->line[0] == '#' && p->line_number > 1)
        return wrong(p, p->line_number, p->line, "expected a heading '## CHAPTER' or '### REQUIREMENT'");
    return p->block ? parse_block_line(p) : ERR_NONE;
}

static int parse(struct parser *p)
{
    while (next_line(p))
        TRY(parse_line(p));
    TRY(end_block(p));
    if (p->out->count == 0)
        return err_set(ERR_USAGE, "%s:%d: there is no requirement", p->name, p->line_number);
    return ERR_NONE;
}

int requirements_parse(const char *name, const char *text, size_t bytes, struct requirements *out)
{
    struct parser p = {.name = name, .out = out, .text = text, .bytes = bytes};
    *out = (struct requirements){.list = calloc(REQUIREMENT_MAX, sizeof *out->list), .strings = malloc(bytes + 1)};
    int rc = out->list && out->strings ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the requirements");
    if (rc == ERR_NONE) {
        memcpy(out->strings, text, bytes);
        out->strings[bytes] = '\0';
        rc = parse(&p);
    }
    if (rc != ERR_NONE)
        requirements_close(out);
    return rc;
}

void requirements_close(struct requirements *requirements)
{
    free(requirements->list);
    free(requirements->strings);
    *requirements = (struct requirements){0};
}
