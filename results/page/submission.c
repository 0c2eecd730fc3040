// SPDX-License-Identifier: Apache-2.0
#include "results/page/submission.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/result_view.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MESSAGE_BYTES = 1024 };

struct check {
    const char *folder, *name;  // name: of the file that is checked, null for the folder
    FILE *out;
    const struct submission_form *form;  // null: it cannot be read
    size_t violation_count, file_count;
};

static void violate(struct check *c, const char *rule, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void violate(struct check *c, const char *rule, const char *format, ...)
{
    char what[MESSAGE_BYTES], message[2 * MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%.500s: %s: %s%s%s", c->folder, rule, c->name ? c->name : "",
             c->name ? ": " : "", what);
    text_terminal(c->out, message, 4);
    fputc('\n', c->out);
    c->violation_count++;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

static bool is_said(const char *text)
{
    return text && text[strspn(text, " \t.-")] != '\0';
}

// A sentence, and not "none".
static bool is_explained(const char *text)
{
    return is_said(text) && strlen(text) >= 10;
}

// --- rules about the form ---

static void check_form(struct check *c)
{
    const struct submission_form *form = c->form;
    if (!is_said(form->operator))
        violate(c, "P-OPERATOR", "operator: is empty, expected who ran it");
    if (isnan(form->peak_TFLOP_per_s))
        return;
    if (!form->peak_is_dense)
        violate(c, "P-DENSE", "peak.dense: is false, expected the peak of dense products, without sparsity");
    if (!is_explained(form->peak_source) || form->peak_TFLOP_per_s <= 0)
        violate(c, "P-PEAK", "peak: expected a rate above 0 and the document that has it");
}

// --- rules about a run ---

static size_t device_count(const json_t *run)
{
    size_t i, count = json_array_size(json_object_get(json_object_get(run, "machine"), "gpus"));
    const json_t *host;
    json_array_foreach (json_object_get(run, "other_hosts"), i, host)
        count += 1 + json_array_size(json_object_get(json_object_get(host, "machine"), "gpus"));
    return count;
}

static void check_devices(struct check *c, const struct result_file *file)
{
    const struct submission_form *form = c->form;
    const json_t *gpus = json_object_get(json_object_get(file->run, "machine"), "gpus");
    if (device_count(file->run) > 1 && (!is_said(form->interconnect) || !(form->GB_per_s_a_device > 0)))
        violate(c, "P-LINK", "several devices or hosts: expected interconnect and GB_per_s_a_device of the form");
    if (json_array_size(gpus) > 0 && isnan(form->peak_TFLOP_per_s))
        violate(c, "P-PEAK", "a GPU: expected peak of the form");
    for (size_t i = 0; i < file->line_count; i++) {
        const json_t *bench = file->lines[i];
        double GFLOP_per_s = view_number(bench, "median");
        if (view_is(bench, "bench") && strcmp(view_text(bench, "unit"), "GFLOP/s") == 0 &&
            *view_text(json_object_get(bench, "case"), "device") && GFLOP_per_s > 1e3 * form->peak_TFLOP_per_s) {
            violate(c, "P-ABOVE", "line %zu: %.4g GFLOP/s are more than the form's peak, %.4g TFLOP/s", i + 1,
                    GFLOP_per_s, form->peak_TFLOP_per_s);
            return;
        }
    }
}

static bool has_command(const struct submission_form *form, const char *command)
{
    size_t i;
    const json_t *line;
    bool found = false;
    json_array_foreach (form->commands, i, line)
        found |= strstr(json_string_value(line), command) != NULL;
    return found;
}

static void check_told(struct check *c, const struct result_view *view)
{
    const struct submission_form *form = c->form;
    double load = view_number(view->file->end, "other_load");
    char *command = command_text(json_object_get(view->file->run, "command"));
    if (command && !has_command(form, command))
        violate(c, "P-COMMANDS", "commands of the form lack the run's: %.300s", command);
    free(command);
    if (!(load <= 0.05) && !is_explained(form->other_programs))
        violate(c, "P-LOAD", "other programs used %.0f %%: expected other_programs of the form to say what ran",
                100 * load);
    if ((strcmp(view->verdict, "VALID") != 0) && !is_explained(form->differs))
        violate(c, "P-DIFFERS", "the run is %s: expected differs of the form to say what differed from the rules",
                view->verdict);
}

static void check_run(struct check *c, const struct result_file *file)
{
    const json_t *run = file->run, *command = json_object_get(run, "command"), *word;
    size_t i;
    if (strcmp(view_text(run, "program"), "validate") != 0)
        violate(c, "P-PROGRAM", "is of %s, expected a run of validate", view_text(run, "program"));
    if (strcmp(view_text(run, "level"), "full") != 0)
        violate(c, "P-LEVEL", "is of the level %s, expected full", view_text(run, "level"));
    if (json_is_true(json_object_get(json_object_get(run, "suite"), "dirty")))
        violate(c, "P-CLEAN", "was built from changed sources");
    json_array_foreach (command, i, word)
        if (strncmp(json_string_value(word), "--emulate", 9) == 0)
            violate(c, "P-EMULATE", "has emulated lanes, which are another machine's");
}

static int check_file(struct check *c, const char *path)
{
    struct result_file file;
    struct result_view view;
    int rc = result_open_verified(path, &file);
    c->file_count++;
    if (rc == ERR_CHECK || rc == ERR_USAGE) {
        violate(c, "P-VERIFY", "%s", err_message());
        return ERR_NONE;
    }
    TRY(rc);
    rc = result_view_open(&file, &view);
    if (rc == ERR_NONE) {
        check_run(c, &file);
        if (c->form) {
            check_devices(c, &file);
            check_told(c, &view);
        }
        fprintf(stderr, "%s: %s%s%s\n", path, view.verdict, *view.unranked ? ", not ranked: " : "", view.unranked);
    }
    result_view_close(&view);
    result_close(&file);
    return rc;
}

// --- the folder ---

static int check_entry(struct check *c, const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    TRY(file_join(c->folder, name, path));
    c->name = name;
    if (lstat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
        (!ends_with(name, ".jsonl") && !ends_with(name, ".md") && strcmp(name, "form.json") != 0))
        violate(c, "P-FILES", "expected files *.jsonl, form.json and *.md alone");
    else if (ends_with(name, ".jsonl"))
        TRY(check_file(c, path));
    return ERR_NONE;
}

static int is_no_dot(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int check_folder(struct check *c)
{
    struct dirent **names;
    int count = scandir(c->folder, &names, is_no_dot, alphasort), rc = ERR_NONE;
    if (count < 0)
        return err_set(ERR_USAGE, "%s: cannot be read: %s", c->folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        if (rc == ERR_NONE)
            rc = check_entry(c, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    c->name = NULL;
    if (rc == ERR_NONE && c->file_count == 0)
        violate(c, "P-FILES", "has no result file *.jsonl");
    return rc;
}

int submission_check(const char *folder, FILE *out)
{
    struct submission_form form;
    struct check c = {.folder = folder, .out = out};
    int rc = submission_form_open(folder, &form);
    if (rc == ERR_NONE) {
        c.form = &form;
        check_form(&c);
    } else {
        violate(&c, "P-FORM", "%s", err_message());
    }
    rc = check_folder(&c);
    submission_form_close(&form);
    TRY(rc);
    if (c.violation_count > 0)
        return err_set(ERR_CHECK, "%s: %zu violation%s of results/RULES.md", folder, c.violation_count,
                       c.violation_count == 1 ? "" : "s");
    fprintf(out, "%s: accepted\n", folder);
    return file_flush(out, "the check");
}
