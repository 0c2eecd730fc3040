// SPDX-License-Identifier: Apache-2.0
// What the tests of configurations share: loading text that is written in C.
#ifndef ZG_CONFIG_TEST_H
#define ZG_CONFIG_TEST_H

#include "config.h"

#include "err.h"

#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct config_notes notes;

// Loads text in which ' stands for ".
static inline int load_with(const char *text, struct config_options options, struct config *out)
{
    char json[8192];
    size_t bytes = strlen(text);
    cr_assert_lt(bytes, sizeof json);
    for (size_t i = 0; i <= bytes; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    return config_load_text("x.json", json, bytes, &options, out, &notes);
}

// Loads text, which must be right, at a world of 2.
static inline struct config load(const char *text)
{
    struct config config;
    cr_assert_eq(load_with(text, (struct config_options){.world = 2}, &config), ERR_NONE, "%s: %s", text,
                 err_message());
    return config;
}

// Loads the body of an object that also has a micro-batch of 4; it may be a format.
static inline struct config load_body(const char *format, ...)
{
    char body[4096], text[4608];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(body, sizeof body, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "{'train_micro_batch_size_per_gpu': 4, %s}", body);
    return load(text);
}

// Loads a body that must be refused with a message that has this in it.
static inline void expect_refused(const char *body, const char *message)
{
    char text[4608];
    struct config config;
    snprintf(text, sizeof text, "{'train_micro_batch_size_per_gpu': 4, %s}", body);
    cr_expect_eq(load_with(text, (struct config_options){.world = 2}, &config), ERR_USAGE, "%s", body);
    cr_expect(strstr(err_message(), message), "%s\nsays     %s\nexpected %s", body, err_message(), message);
}

// The configuration as it is printed. To be freed.
static inline char *printed(const struct config *config)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    config_print(config, file);
    fclose(file);
    return text;
}

// The note on a key; null if there is none.
static inline const struct config_note *note_on(const char *key)
{
    for (size_t i = 0; i < notes.count; i++)
        if (strcmp(notes.notes[i].key, key) == 0)
            return &notes.notes[i];
    return NULL;
}

#endif
