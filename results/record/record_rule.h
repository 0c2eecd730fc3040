// SPDX-License-Identifier: Apache-2.0
// schema.json as rules: each keyword is a field, so that checking a value looks up no keyword by its name.
#pragma once

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

// schema.json and whole_run.json, which are compiled in.
extern const char record_schema_text[], record_whole_run_text[];

// The types that a rule may allow, as bits.
enum {
    RULE_OBJECT = 1,
    RULE_ARRAY = 2,
    RULE_STRING = 4,
    RULE_NUMBER = 8,
    RULE_INTEGER = 16,
    RULE_BOOLEAN = 32,
    RULE_NULL = 64,
};

enum { RULE_CHOICE_MAX = 2 };

struct rule_member {
    const char *key;
    const struct rule *rule;
    bool required;
};

// Without a limit of its kind a field is infinite, negative for a lower one; without another keyword it is null or 0.
struct rule {
    const json_t *schema;                                          // of this rule
    const json_t *constant, *words;                                // `const`; `enum`
    const char *title, *pattern;                                   // title: what is expected, for messages
    unsigned types;                                                // bits of RULE_
    double least, above, most;                                     // numbers
    double length_most;                                            // characters of a string
    double count_least, count_most;                                // elements of an array, keys of an object
    double key_length_most;                                        // characters of an object's keys
    const struct rule *choices[RULE_CHOICE_MAX], *items, *others;  // `anyOf`; others: `additionalProperties`
    const struct rule_member *members;                             // in the schema's order
    size_t choice_count, member_count;
};

// The rule of what every record has, and of a record whose `record` is one of the schema's kinds. Both live as long as
// the process; threads may share them.
const struct rule *rule_of_any(void);
const struct rule *rule_of_kind(const json_t *record);

// Checks the value itself, not its elements.
bool rule_fits(const struct rule *rule, const json_t *value);

// True if the value is one of the rule's `enum`.
bool rule_has_word(const struct rule *rule, const json_t *value);
