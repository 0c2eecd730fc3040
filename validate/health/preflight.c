// SPDX-License-Identifier: Apache-2.0
#include "validate/health/preflight.h"

#include "base/err.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SINCE_LIMIT_BYTES = 64 << 20 };

void preflight_host(char host[256])
{
    memset(host, 0, 256);
    (void)gethostname(host, 255);
}

// A line for each node; this host's, or null.
static json_t *find_own_line(char *text)
{
    char host[256], *rest;
    preflight_host(host);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *node = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        const char *record = json_string_value(json_object_get(node, "record"));
        const char *name = json_string_value(json_object_get(node, "host"));
        if (record && strcmp(record, "preflight") == 0 && name && strcmp(name, host) == 0)
            return node;
        json_decref(node);
    }
    return NULL;
}

static int read_own_line(const char *option, const char *path, json_t **node)
{
    char *text, host[256];
    size_t bytes;
    preflight_host(host);
    TRY(file_read_text(path, SINCE_LIMIT_BYTES, &text, &bytes));
    *node = find_own_line(text);
    free(text);
    return *node ? ERR_NONE
                 : err_set(ERR_USAGE, "%s %s: no line of `preflight --save` about this host, %s", option, path, host);
}

int preflight_since(struct preflight *p)
{
    json_t *node;
    TRY(read_own_line("--since", p->since, &node));
    int code = health_counters_from_json(json_object_get(node, "counters"), &p->before);
    json_decref(node);
    return code == ERR_NONE ? code : err_prefix(ERR_USAGE, "--since %s", p->since);
}

int preflight_before_repair(struct preflight *p)
{
    json_t *node, *check;
    size_t index;
    TRY(read_own_line("--after-repair", p->after_repair, &node));
    json_array_foreach (json_object_get(node, "checks"), index, check) {
        const char *name = json_string_value(json_object_get(check, "check"));
        const char *state = json_string_value(json_object_get(check, "state"));
        const char *text = json_string_value(json_object_get(check, "text"));
        char was[2 * HEALTH_TEXT_MAX];
        if (!name || !state || !text || strcmp(state, "skip") == 0 || strcmp(state, "was") == 0)
            continue;
        snprintf(was, sizeof was, "%s before the repair: %s", state, text);
        preflight_add(p, name, "was", was);
    }
    json_decref(node);
    return ERR_NONE;
}

void preflight_add(struct preflight *p, const char *check, const char *state, const char *text)
{
    json_array_append_new(p->checks, json_pack("{s:s, s:s, s:s}", "check", check, "state", state, "text", text));
    p->failed |= strcmp(state, "FAIL") == 0;
}

void preflight_fail(json_t *node, const char *check, const char *text)
{
    json_array_append_new(json_object_get(node, "checks"),
                          json_pack("{s:s, s:s, s:s}", "check", check, "state", "FAIL", "text", text));
    json_object_set_new(node, "verdict", json_string("FAIL"));
}
