// SPDX-License-Identifier: Apache-2.0
#include "base/page.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct page page_open(json_t *head)
{
    struct page page = {.data = head, .failed = !head};
    page_set(&page, head, "facts", json_array());
    page_set(&page, head, "sections", json_array());
    return page;
}

json_t *page_text(const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int bytes = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (bytes < 0)
        return NULL;
    json_t *safe = text_json(text);
    free(text);
    return safe;
}

json_t *page_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void page_add(struct page *page, json_t *list, json_t *item)
{
    page->failed |= json_array_append_new(list, item) != 0;
}

void page_set(struct page *page, json_t *object, const char *key, json_t *value)
{
    if (object)
        page->failed |= json_object_set_new(object, key, value) != 0;
    else
        json_decref(value);
}

void page_fact(struct page *page, const char *name, json_t *text)
{
    page_add(page, json_object_get(page->data, "facts"), json_pack("{s:s, s:o}", "name", name, "text", text));
}

json_t *page_section(struct page *page, const char *kind, const char *title, json_t *rows)
{
    if (json_is_array(rows) && json_array_size(rows) == 0) {
        json_decref(rows);
        return NULL;
    }
    json_t *section = json_pack("{s:o, s:o}", "title", page_text("%s", title), "rows", rows);
    page_add(page, json_object_get(page->data, "sections"), json_pack("{s:o}", kind, section));
    return page->failed ? NULL : section;
}

void page_table(struct page *page, const char *title, const char *heads, json_t *rows)
{
    json_t *section = page_section(page, "table", title, rows);
    json_t *list = json_array();
    for (const char *at = heads; at; at = strchr(at, '|')) {
        at += *at == '|';
        page_add(page, list, json_stringn(at, strcspn(at, "|")));
    }
    page_set(page, section, "heads", list);
}

// --- templates ---

struct printer {
    FILE *out;
    void (*escape)(FILE *out, const char *text);
};

static const json_t *member(const json_t *item, const char *name)
{
    return strcmp(name, ".") == 0 ? item : json_object_get(item, name);
}

static void put_value(const struct printer *to, const json_t *value)
{
    if (json_is_integer(value))
        fprintf(to->out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        fprintf(to->out, "%.4g", json_real_value(value));
    else
        to->escape(to->out, json_string_value(value));
}

static bool is_shown(const json_t *value)
{
    const char *text = json_string_value(value);
    return value && !json_is_null(value) && !json_is_false(value) && !(text && !*text);
}

// Prints a template to the end of the section that it is in, and returns what follows. item: null prints nothing.
static const char *put(const struct printer *to, const char *at, const json_t *item)
{
    for (const char *tag; (tag = strstr(at, "{{"));) {
        const char *end = strstr(tag, "}}");
        char name[64];
        fwrite(at, 1, item ? (size_t)(tag - at) : 0, to->out);
        snprintf(name, sizeof name, "%.*s", (int)(end - tag - 2), tag + 2);
        at = end + 2;
        if (*name == '/')
            return at;
        if (*name == '#') {
            const json_t *value = member(item, name + 1), *each;
            const char *rest = put(to, at, NULL);
            size_t i;
            json_array_foreach (value, i, each)
                put(to, at, each);
            if (!json_is_array(value) && is_shown(value))
                put(to, at, value);
            at = rest;
        } else {
            put_value(to, member(item, name));
        }
    }
    fputs(item ? at : "", to->out);
    return at + strlen(at);
}

static int put_page(struct page *page, const char *template, const struct printer *to, const char *what)
{
    int rc = page->failed ? err_set(ERR_MEMORY, "no memory for %s", what) : ERR_NONE;
    if (rc == ERR_NONE) {
        put(to, template, page->data);
        rc = file_flush(to->out, what);
    }
    json_decref(page->data);
    *page = (struct page){0};
    return rc;
}

int page_html(struct page *page, FILE *out)
{
    return put_page(page, page_html_template, &(struct printer){out, text_markup}, "the page");
}

int page_markdown(struct page *page, FILE *out)
{
    return put_page(page, page_markdown_template, &(struct printer){out, text_markdown}, "the tables");
}
