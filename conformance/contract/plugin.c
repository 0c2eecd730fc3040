// SPDX-License-Identifier: Apache-2.0
#include "conformance/contract/plugin.h"

#include "base/safe_text.h"
#include "conformance/cases/case_folders.h"
#include "base/err.h"
#include "base/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_table(const char *plugin, const struct zerogauge_implementation *table)
{
    if (!table)
        return err_set(ERR_USAGE, "%s: zerogauge_implementation returns no table", plugin);
    if (table->contract != ZEROGAUGE_CONTRACT)
        return err_set(ERR_USAGE, "%s: is made for contract %u, and this is contract %d; expected the same", plugin,
                       table->contract, ZEROGAUGE_CONTRACT);
    if (table->struct_bytes != sizeof *table)
        return err_set(ERR_USAGE, "%s: its table has %u bytes, that of contract %d has %zu; expected the same", plugin,
                       table->struct_bytes, ZEROGAUGE_CONTRACT, sizeof *table);
    const struct {
        const char *name;
        bool is_there;
    } needed[] = {{"name", table->name},           {"version", table->version}, {"open", table->open},
                  {"gradients", table->gradients}, {"step", table->step},       {"read", table->read},
                  {"close", table->close}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!needed[i].is_there)
            return err_set(ERR_USAGE, "%s: its table has no \"%s\"", plugin, needed[i].name);
    if (!table->save != !table->load)
        return err_set(ERR_USAGE, "%s: its table has one of \"save\" and \"load\"; expected both, or neither", plugin);
    return ERR_NONE;
}

// The function is looked up as data; POSIX has both of one size.
typedef const struct zerogauge_implementation *table_function(void);

static table_function *find_function(void *handle)
{
    table_function *function = NULL;
    void *symbol = dlsym(handle, "zerogauge_implementation");
    memcpy(&function, &symbol, sizeof function);
    return function;
}

int plugin_load(const char *plugin, void **handle, const struct zerogauge_implementation **out)
{
    char shown[TEXT_MESSAGE_BYTES];
    int fd;
    TRY(file_open(plugin, &fd));  // dlopen would wait for a pipe
    close(fd);
    // A name without a slash would be looked for elsewhere.
    char *path = realpath(plugin, NULL);
    if (!path)
        return err_set(ERR_USAGE, "%s: cannot be opened: %s", plugin, strerror(errno));
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    if (!*handle)
        return err_set(ERR_USAGE, "%s: cannot be loaded: %s", plugin, text_message(shown, dlerror(), 300));
    table_function *function = find_function(*handle);
    int rc = function ? check_table(plugin, *out = function())
                      : err_set(ERR_USAGE, "%s: has no function zerogauge_implementation, as in contract.h", plugin);
    if (rc != ERR_NONE)
        dlclose(*handle);
    return rc;
}

int plugin_answer(const char *plugin, const char *cases, const char *answers, int world, const char *state)
{
    void *handle;
    const struct zerogauge_implementation *table;
    json_t *order, *name;
    char folder[PATH_MAX], answer[PATH_MAX];
    size_t i, failed = 0;
    TRY(plugin_load(plugin, &handle, &table));
    int rc = case_order_of_world(cases, world, &order);
    if (rc != ERR_NONE) {
        dlclose(handle);
        return rc;
    }
    json_array_foreach (order, i, name) {
        if (file_join(cases, json_string_value(name), folder) == ERR_NONE &&
            file_join(answers, json_string_value(name), answer) == ERR_NONE &&
            plugin_answer_case(table, folder, answer, world, state) == ERR_NONE)
            continue;
        failed++;
        text_error("%s: %s", plugin, json_string_value(name));
    }
    size_t count = json_array_size(order);
    json_decref(order);
    dlclose(handle);
    return failed == 0 ? ERR_NONE : err_set(ERR_CHECK, "%s: %zu of %zu cases have no answer", plugin, failed, count);
}

int plugin_answer_one(const char *plugin, const char *case_folder, const char *answer_folder, const char *state)
{
    void *handle;
    const struct zerogauge_implementation *table;
    TRY(plugin_load(plugin, &handle, &table));
    int rc = plugin_answer_case(table, case_folder, answer_folder, 0, state);
    dlclose(handle);
    return rc;
}
