// SPDX-License-Identifier: Apache-2.0
// The cases that a command line asks for, listed or written and not run.
#include "conformance/run/cmd_check.h"

#include "base/err.h"
#include "base/process/check_folder.h"
#include "conformance/cases/case_folders.h"
#include "conformance/run/check_features.h"
#include "conformance/run/check_select.h"

#include <stdio.h>

static int print_case(void *context, const struct check_case *c)
{
    char text[1024] = "";
    size_t used = 0;
    (void)context;
    for (int i = 0; i < c->requirement_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %s", c->requirements[i]);
    printf("%-40s%s\n", c->name, text);
    return ERR_NONE;
}

int check_list_cases(const struct check_part *part)
{
    struct coverage coverage;
    TRY(check_cases(part, print_case, NULL));
    if (part->case_patterns || part->requirements || suite_version(&part->choice) < 2)
        return ERR_NONE;
    TRY(check_features_print(&part->choice));
    TRY(check_cover_level(part, &coverage));
    return check_cover_print(&coverage);
}

static int note_name(void *context, const struct check_case *c)
{
    return json_array_append_new(context, json_string(c->name)) == 0 ? ERR_NONE : err_set(ERR_MEMORY, "no memory");
}

struct destination {
    char folder[PATH_MAX];
    const volatile sig_atomic_t *interrupted;
};

static int write_below(void *context, const struct check_case *c)
{
    const struct destination *to = context;
    if (*to->interrupted)
        return err_set(ERR_USAGE, "interrupted");
    return check_write_case(c, to->folder);
}

// The folder may be the user's own: after an error it is empty again, but there.
static int write_named(const struct check_part *part, const char *path, const json_t *names,
                       const volatile sig_atomic_t *interrupted)
{
    struct destination to = {.interrupted = interrupted};
    TRY(check_folder_new("--write-cases", path, to.folder));
    int rc = check_cases(part, write_below, &to);
    if (rc == ERR_NONE)
        rc = case_order_write(to.folder, names);
    if (rc != ERR_NONE)
        check_folder_clear(to.folder);
    return rc;
}

int check_write_cases(const struct check_part *part, const char *path, const volatile sig_atomic_t *interrupted)
{
    json_t *names = json_array();
    int rc = check_cases(part, note_name, names);
    if (rc == ERR_NONE)
        rc = write_named(part, path, names, interrupted);
    json_decref(names);
    return rc;
}
