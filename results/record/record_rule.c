// SPDX-License-Identifier: Apache-2.0
// The part of JSON Schema that schema.json, which is compiled in, uses.
#include "results/record/record_rule.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <stdint.h>
#include <string.h>

enum { PATTERN_MAX = 16, RULE_MAX = 512, MEMBER_MAX = 512 };

static json_t *whole, *definitions;  // the schema, its $defs
static struct rule rules[RULE_MAX];
static struct rule_member members[MEMBER_MAX];
static size_t rule_count, member_count;
static const struct rule *any;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *name_in(const json_t *reference)
{
    const char *text = json_string_value(json_object_get(reference, "$ref"));
    return text ? text + strlen("#/$defs/") : NULL;
}

static bool has_word(const json_t *list, const char *word)
{
    size_t i = 0;
    while (i < json_array_size(list) && strcmp(json_string_value(json_array_get(list, i)), word) != 0)
        i++;
    return i < json_array_size(list);
}

static double limit(const json_t *schema, const char *key, double without)
{
    const json_t *value = json_object_get(schema, key);
    return value ? json_number_value(value) : without;
}

// `type` is one word or a list of them.
static unsigned types_of(const json_t *type)
{
    static const char *const names[] = {"object", "array", "string", "number", "integer", "boolean", "null"};
    unsigned types = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (json_is_string(type) ? strcmp(json_string_value(type), names[i]) == 0 : has_word(type, names[i]))
            types |= 1u << i;
    return types;
}

static const struct rule *rule_of(const json_t *schema);

static void add_members(struct rule *rule, const json_t *schema)
{
    const json_t *required = json_object_get(schema, "required");
    json_t *properties = json_object_get(schema, "properties"), *of_key;
    struct rule_member *member = &members[member_count];
    const char *key;
    rule->members = member;
    rule->member_count = json_object_size(properties);
    member_count += rule->member_count;
    assert(member_count <= MEMBER_MAX);
    json_object_foreach (properties, key, of_key)
        *member++ = (struct rule_member){key, rule_of(of_key), has_word(required, key)};
}

// Null for null. A definition that several refer to has one rule.
static const struct rule *rule_of(const json_t *schema)
{
    const char *name = name_in(schema);
    json_t *choice;
    size_t i;
    schema = name ? json_object_get(definitions, name) : schema;
    if (!schema)
        return NULL;
    for (i = 0; i < rule_count; i++)
        if (rules[i].schema == schema)
            return &rules[i];
    assert(rule_count < RULE_MAX);
    struct rule *rule = &rules[rule_count++];
    *rule = (struct rule){.schema = schema,
                          .constant = json_object_get(schema, "const"),
                          .words = json_object_get(schema, "enum"),
                          .title = json_string_value(json_object_get(schema, "title")),
                          .pattern = json_string_value(json_object_get(schema, "pattern")),
                          .types = types_of(json_object_get(schema, "type")),
                          .least = limit(schema, "minimum", -INFINITY),
                          .above = limit(schema, "exclusiveMinimum", -INFINITY),
                          .most = limit(schema, "maximum", INFINITY),
                          .length_most = limit(schema, "maxLength", INFINITY),
                          .count_least = limit(schema, "minItems", 0),
                          .count_most = limit(schema, "maxItems", limit(schema, "maxProperties", INFINITY)),
                          .key_length_most = limit(json_object_get(schema, "propertyNames"), "maxLength", INFINITY),
                          .items = rule_of(json_object_get(schema, "items")),
                          .others = rule_of(json_object_get(schema, "additionalProperties"))};
    json_array_foreach (json_object_get(schema, "anyOf"), i, choice) {
        assert(i < RULE_CHOICE_MAX);
        rule->choices[rule->choice_count++] = rule_of(choice);
    }
    add_members(rule, schema);
    return rule;
}

static void load(void)
{
    json_t *names = json_array(), *kind;
    size_t i;
    whole = json_loads(record_schema_text, 0, NULL);
    definitions = json_object_get(whole, "$defs");
    json_array_foreach (json_object_get(whole, "oneOf"), i, kind) {
        json_array_append_new(names, json_string(name_in(kind)));
        rule_of(kind);
    }
    json_t *head = json_pack("{s:s, s:{s:{s:o}}, s:[s]}", "type", "object", "properties", "record", "enum", names,
                             "required", "record");
    assert(definitions && head);
    any = rule_of(head);
}

const struct rule *rule_of_any(void)
{
    pthread_once(&once, load);
    return any;
}

const struct rule *rule_of_kind(const json_t *record)
{
    pthread_once(&once, load);
    const json_t *schema = json_object_get(definitions, json_string_value(json_object_get(record, "record")));
    size_t i = 0;
    while (rules[i].schema != schema)
        i++;
    return &rules[i];
}

bool rule_has_word(const struct rule *rule, const json_t *value)
{
    size_t i = 0;
    while (i < json_array_size(rule->words) && !json_equal(json_array_get(rule->words, i), value))
        i++;
    return i < json_array_size(rule->words);
}

static size_t character_count(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;  // the first byte of each character in UTF-8
    return count;
}

static bool is_like(const char *text, const char *pattern)
{
    static const char *known[PATTERN_MAX];  // each is compiled once
    static regex_t expressions[PATTERN_MAX];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t i = 0;
    pthread_mutex_lock(&lock);
    for (; known[i] && known[i] != pattern; i++)
        assert(i + 1 < PATTERN_MAX);
    if (!known[i] && regcomp(&expressions[i], pattern, REG_EXTENDED | REG_NOSUB) == 0)
        known[i] = pattern;
    pthread_mutex_unlock(&lock);
    return known[i] == pattern && regexec(&expressions[i], text, 0, NULL, 0) == 0;
}

static bool text_fits(const char *text, const struct rule *rule)
{
    return (double)character_count(text) <= rule->length_most && (!rule->pattern || is_like(text, rule->pattern));
}

static bool number_fits(double number, const struct rule *rule)
{
    return number >= rule->least && number > rule->above && number <= rule->most;
}

static bool names_fit(const json_t *value, const struct rule *rule)
{
    const char *key;
    json_t *inner;
    if ((double)json_object_size(value) > rule->count_most)
        return false;
    if (isfinite(rule->key_length_most))
        json_object_foreach ((json_t *)(uintptr_t)value, key, inner)
            if ((void)inner, (double)character_count(key) > rule->key_length_most)
                return false;
    return true;
}

bool rule_fits(const struct rule *rule, const json_t *value)
{
    double count = (double)json_array_size(value);
    if (rule->constant || rule->words)
        return rule->constant ? json_equal(value, rule->constant) : rule_has_word(rule, value);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return rule->types & RULE_OBJECT && names_fit(value, rule);
    case JSON_ARRAY:
        return rule->types & RULE_ARRAY && count >= rule->count_least && count <= rule->count_most;
    case JSON_STRING:
        return rule->types & RULE_STRING && text_fits(json_string_value(value), rule);
    case JSON_INTEGER:
    case JSON_REAL:
        return (rule->types & RULE_NUMBER || (json_is_integer(value) && rule->types & RULE_INTEGER)) &&
               number_fits(json_number_value(value), rule);
    case JSON_TRUE:
    case JSON_FALSE:
        return rule->types & RULE_BOOLEAN;
    case JSON_NULL:
        break;
    }
    return rule->types & RULE_NULL;
}
