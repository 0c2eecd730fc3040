// SPDX-License-Identifier: Apache-2.0
#include "conformance/cases/case_folders.h"

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ORDER_BYTES_MAX = 1 << 24 };

int case_order_read(const char *cases, json_t **out)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    TRY(file_join(cases, "order.json", path));
    TRY(file_read_text(path, ORDER_BYTES_MAX, &text, &bytes));
    int code = json_parse(path, 1, text, bytes, out);
    free(text);
    if (code != ERR_NONE)
        return code;
    bool names = json_is_array(*out);
    for (size_t i = 0; names && i < json_array_size(*out); i++) {
        const char *name = json_string_value(json_array_get(*out, i));
        names = name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < CASE_NAME_BYTES;
    }
    if (names)
        return ERR_NONE;
    json_decref(*out);
    *out = NULL;
    return err_set(ERR_USAGE, "%s: expected a list of the names of folders next to it", path);
}

int case_order_of_world(const char *cases, int world, json_t **out)
{
    char folder[PATH_MAX];
    TRY(case_order_read(cases, out));
    for (size_t i = json_array_size(*out); i > 0; i--) {
        const char *name = json_string_value(json_array_get(*out, i - 1));
        struct check_case c;
        if (file_join(cases, name, folder) == ERR_NONE && case_read(folder, &c) == ERR_NONE && c.world != world)
            json_array_remove(*out, i - 1);
    }
    if (json_array_size(*out) > 0)
        return ERR_NONE;
    json_decref(*out);
    *out = NULL;
    return err_set(ERR_USAGE, "%s/order.json: no case has world %d", cases, world);
}

int case_folder_make(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_set(ERR_IO, "%s: cannot be created: %s", path, strerror(errno));
    return ERR_NONE;
}

int case_order_write(const char *cases, const json_t *names)
{
    char path[PATH_MAX];
    TRY(file_join(cases, "order.json", path));
    assert(json_is_array(names));
    return json_dump_file(names, path, JSON_INDENT(1)) == 0
               ? ERR_NONE
               : err_set(ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

int case_state_folder(const struct check_case *c, const char *state, char out[PATH_MAX])
{
    static const char save[] = ".save", resume[] = ".resume";
    const char *ending = c->phase == PHASE_SAVE ? save : resume, *name = c->name;
    const char *at = NULL;
    for (const char *next = strstr(name, ending); next; next = strstr(next + 1, ending))
        at = next;
    char base[CASE_NAME_BYTES];
    snprintf(base, sizeof base, "%.*s%s", at ? (int)(at - name) : (int)strlen(name), name,
             at ? at + strlen(ending) : "");
    if (!state)
        return err_set(ERR_USAGE, "a case that resumes needs the argument STATE, the folder of its checkpoint");
    TRY(file_join(state, base, out));
    if (!at || c->phase == PHASE_SAVE || access(out, F_OK) == 0)
        return ERR_NONE;
    base[at - name] = '\0';
    return file_join(state, base, out);
}
