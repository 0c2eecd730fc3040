// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/hunt_folder.h"

#include "base/err.h"
#include "base/file.h"
#include "conformance/cases/case_folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hunt_cases_close(struct hunt_cases *cases)
{
    for (int i = 0; i < cases->count; i++)
        hunt_case_close(&cases->list[i]);
    free(cases->list);
    *cases = (struct hunt_cases){0};
}

static bool ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), end = strlen(ending);
    return length >= end && strcmp(name + length - end, ending) == 0;
}

// Reads a case without its numbers; a folder's name is the case's.
static int read_part(const char *folder, const char *name, struct check_case **out)
{
    *out = malloc(sizeof **out);
    if (!*out)
        return err_set(ERR_MEMORY, "no memory for the case in %s", folder);
    TRY(case_read(folder, *out));
    if (name && strcmp((*out)->name, name) != 0)
        return err_set(ERR_USAGE, "%s/case.json: name: is \"%s\", expected the folder's name, \"%s\"", folder,
                       (*out)->name, name);
    return ERR_NONE;
}

// The halves are called NAME.save and NAME.resume: by that they find one another.
static int check_half_names(const char *folder, const char *save, const char *resume)
{
    static const char endings[][8] = {".save", ".resume"};
    size_t length = strlen(save) - strlen(endings[0]);
    if (ends_with(save, endings[0]) && strncmp(save, resume, length) == 0 && strcmp(resume + length, endings[1]) == 0)
        return ERR_NONE;
    return err_set(ERR_USAGE,
                   "%s/case.json: name: is \"%s\", and that of the saving half \"%s\"; expected NAME.resume and "
                   "NAME.save",
                   folder, resume, save);
}

// The halves have one model, and are equal in everything that belongs to the whole run.
static int check_halves(const char *folder, const struct check_case *save, const struct check_case *resume)
{
    bool same = resume->phase == PHASE_RESUME && save->phase == PHASE_SAVE && save->steps == resume->steps &&
                save->checkpoint_step == resume->checkpoint_step && save->accumulation == resume->accumulation &&
                save->param_count == resume->param_count && save->group_count == resume->group_count &&
                save->precision == resume->precision;
    for (int i = 0; same && i < save->param_count; i++)
        same = strcmp(save->params[i].name, resume->params[i].name) == 0 &&
               save->params[i].count == resume->params[i].count && save->params[i].group == resume->params[i].group &&
               save->params[i].tied_to == resume->params[i].tied_to &&
               save->params[i].frozen == resume->params[i].frozen && save->params[i].used == resume->params[i].used;
    return same ? ERR_NONE
                : err_set(ERR_USAGE,
                          "%s/case.json: is not the resuming half of %s: steps, checkpoint, accumulation, "
                          "precision, parameters and groups must be the same",
                          folder, save->name);
}

// A case in `folder`, whose resuming half, if any, is next to it. name: null where the folder may have any.
static int read_case(const char *folder, const char *name, struct hunt_case *out)
{
    out->part_count = 1;
    TRY(read_part(folder, name, &out->parts[0]));
    TRY(case_values_read(out->parts[0], folder, &out->values[0]));
    if (out->parts[0]->phase == PHASE_WHOLE)
        return hunt_case_find_exact(out);
    char path[PATH_MAX];
    if (out->parts[0]->phase == PHASE_RESUME || !ends_with(folder, ".save"))
        return err_set(ERR_USAGE,
                       "%s: is half of a case: the halves are NAME.save and NAME.resume, in one folder; "
                       "give NAME.save, or the folder of both",
                       folder);
    if (snprintf(path, sizeof path, "%.*s.resume", (int)(strlen(folder) - strlen(".save")), folder) >= PATH_MAX)
        return err_set(ERR_USAGE, "%s: the path is too long", folder);
    out->part_count = 2;
    TRY(read_part(path, NULL, &out->parts[1]));
    TRY(check_half_names(path, out->parts[0]->name, out->parts[1]->name));
    TRY(check_halves(path, out->parts[0], out->parts[1]));
    TRY(case_values_read(out->parts[1], path, &out->values[1]));
    case_values_precede(out->parts[0], out->values[0], out->parts[1], out->values[1]);
    return hunt_case_find_exact(out);
}

static int read_listed(const char *folder, const json_t *names, struct hunt_cases *out)
{
    char path[PATH_MAX];
    size_t index;
    json_t *name;
    out->list = calloc(json_array_size(names) + 1, sizeof *out->list);
    if (!out->list)
        return err_set(ERR_MEMORY, "no memory for the cases in %s", folder);
    json_array_foreach ((json_t *)(uintptr_t)names, index, name) {
        const char *text = json_string_value(name);
        if (strchr(text, '~') || ends_with(text, ".resume"))
            continue;
        for (int i = 0; i < out->count; i++)
            if (strcmp(out->list[i].parts[0]->name, text) == 0)
                return err_set(ERR_USAGE, "%s/order.json: names %s twice", folder, text);
        TRY(file_join(folder, text, path));
        TRY(read_case(path, text, &out->list[out->count++]));
    }
    return out->count > 0 ? ERR_NONE : err_set(ERR_USAGE, "%s/order.json: names no case", folder);
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return file_join(folder, name, path) == ERR_NONE && access(path, F_OK) == 0;
}

static int read_folder(const char *folder, struct hunt_cases *out)
{
    if (has_file(folder, "case.json")) {
        out->list = calloc(1, sizeof *out->list);
        if (!out->list)
            return err_set(ERR_MEMORY, "no memory for the case in %s", folder);
        out->count = 1;
        return read_case(folder, NULL, out->list);
    }
    if (!has_file(folder, "order.json"))
        return err_set(ERR_USAGE,
                       "%s: has neither case.json, as a case's folder has, nor order.json, which lists the "
                       "cases in a folder",
                       folder);
    json_t *names;
    TRY(case_order_read(folder, &names));
    int rc = read_listed(folder, names, out);
    json_decref(names);
    return rc;
}

int hunt_folder_read(const char *folder, struct hunt_cases *out)
{
    char path[PATH_MAX];
    *out = (struct hunt_cases){0};
    if (!realpath(folder, path))
        return err_set(ERR_USAGE, "%s: is no folder", folder);
    int rc = read_folder(path, out);
    if (rc != ERR_NONE)
        hunt_cases_close(out);
    return rc;
}

int hunt_folder_write(const struct hunt_case list[], int count, const char *folder)
{
    json_t *names = json_array();
    int rc = ERR_NONE;
    for (int i = 0; i < count; i++)
        for (int part = 0; part < list[i].part_count && rc == ERR_NONE; part++) {
            json_array_append_new(names, json_string(list[i].parts[part]->name));
            rc = case_write(list[i].parts[part], list[i].values[part], folder);
        }
    if (rc == ERR_NONE)
        rc = case_order_write(folder, names);
    json_decref(names);
    return rc;
}
