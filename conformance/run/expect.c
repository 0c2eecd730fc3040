// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/expect.h"

#include "base/err.h"
#include "base/file.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_LIMIT_BYTES = 1 << 20 };

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t");
    *rest = word + strcspn(word, " \t");
    if (**rest)
        *(*rest)++ = '\0';
    *rest += strspn(*rest, " \t");
    return word;
}

static bool read_verdict(const char *name, enum verdict *out)
{
    for (*out = 0; *out < VERDICT_COUNT; (*out)++)
        if (strcmp(verdict_name(*out), name) == 0)
            return true;
    return false;
}

static int read_line(struct expectations *e, size_t number, char *line, struct expectation *out)
{
    char *copy = strdup(line), *rest = copy;
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for %s", e->path);
    *out = (struct expectation){.line = line, .verdict = VERDICT_COUNT};
    const char *word = next_word(&rest);
    int rc = ERR_NONE;
    if (strcmp(word, "suite") == 0) {
        char *end;
        e->suite_version = (int)strtol(rest, &end, 10);
        if (end == rest || *end || e->suite_version < 1 || e->suite_version > ZG_SUITE_VERSION)
            rc =
                err_set(ERR_USAGE, "%s, line %zu: suite %s: expected 1 to %d", e->path, number, rest, ZG_SUITE_VERSION);
    } else if (strcmp(word, "expect") == 0 || strcmp(word, "cases") == 0) {
        bool of_requirement = *word == 'e';
        char *name = next_word(&rest);
        const char *verdict = of_requirement ? next_word(&rest) : "";
        if (of_requirement && !requirement_find(name))
            rc = err_set(ERR_USAGE, "%s, line %zu: there is no requirement \"%s\"", e->path, number, name);
        else if (of_requirement && !read_verdict(verdict, &out->verdict))
            rc = err_set(ERR_USAGE, "%s, line %zu: \"%s\" is no verdict: write one such as FAIL", e->path, number,
                         verdict);
        else if (!*name || !*rest)
            rc = err_set(ERR_USAGE, "%s, line %zu: say why, at the end of the line", e->path, number);
        else if (!(out->name = strdup(name)) || !(out->why = strdup(rest)))
            rc = err_set(ERR_MEMORY, "no memory for %s", e->path);
    } else if (*word && *word != '#') {
        rc = err_set(ERR_USAGE, "%s, line %zu: expected suite, expect, cases or #: %s", e->path, number, word);
    }
    free(copy);
    return rc;
}

int expectations_read(const char *path, bool may_be_missing, struct expectations *out)
{
    *out = (struct expectations){.path = strdup(path)};
    if (!out->path)
        return err_set(ERR_MEMORY, "no memory for %s", path);
    if (may_be_missing && access(path, F_OK) != 0)
        return ERR_NONE;
    size_t bytes, lines = 1;
    TRY(file_read_text(path, FILE_LIMIT_BYTES, &out->text, &bytes));
    if (strlen(out->text) < bytes)
        return err_set(ERR_USAGE, "%s: holds a NUL byte, expected lines of text", path);
    for (size_t i = 0; i < bytes; i++)
        lines += out->text[i] == '\n';
    if (!(out->list = calloc(lines, sizeof *out->list)))
        return err_set(ERR_MEMORY, "no memory for %s", path);
    for (char *line = out->text, *end; line; line = end) {
        if ((end = strchr(line, '\n')))
            *end++ = '\0';
        else if (!*line)
            break;
        out->count++;
        TRY(read_line(out, out->count, line, &out->list[out->count - 1]));
    }
    if (out->suite_version == 0)
        return err_set(ERR_USAGE, "%s: no line says of which suite version it is: write \"suite %d\"", path,
                       ZG_SUITE_VERSION);
    return ERR_NONE;
}

void expectations_free(struct expectations *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->list[i].name);
        free(e->list[i].why);
    }
    free(e->list);
    free(e->text);
    free(e->path);
    *e = (struct expectations){0};
}

static bool is_failure(enum verdict verdict)
{
    return verdict == VERDICT_FAIL || verdict == VERDICT_BROKEN;
}

// The line that expects a requirement's verdict; null: none does.
static struct expectation *expectation_of(const struct expectations *e, const char *id)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->list[i].name && e->list[i].verdict != VERDICT_COUNT && strcmp(e->list[i].name, id) == 0)
            return &e->list[i];
    return NULL;
}

static bool case_is_expected(const struct expectations *e, const struct check_case *c)
{
    for (size_t i = 0; c && i < e->count; i++)
        if (e->list[i].name && e->list[i].verdict == VERDICT_COUNT &&
            fnmatch(e->list[i].name, c->name, FNM_EXTMATCH) == 0)
            return true;
    return false;
}

// True if a requirement fails, and that is not expected.
static bool is_regression(const struct expectations *e, const struct requirement_verdict *v,
                          const struct findings *findings)
{
    bool outside = false, inside = false;
    if (!is_failure(v->verdict) || expectation_of(e, v->requirement->id))
        return false;
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->list[i];
        if (!is_failure(f->verdict) || !finding_serves(f, v->requirement))
            continue;
        *(case_is_expected(e, f->c) ? &inside : &outside) = true;
    }
    return outside || !inside;
}

// The state of a pattern: whether one of its cases fails, or was only run.
static enum expectation_state state_of_cases(const char *pattern, const struct findings *findings)
{
    enum expectation_state state = EXPECTATION_UNASKED;
    for (size_t i = 0; i < findings->count && state != EXPECTATION_MET; i++) {
        const struct finding *f = &findings->list[i];
        if (!f->c || f->absence != ABSENT_NOT || fnmatch(pattern, f->c->name, FNM_EXTMATCH) != 0)
            continue;
        state = is_failure(f->verdict) ? EXPECTATION_MET : EXPECTATION_NOT_MET;
    }
    return state;
}

bool expectations_compare(struct expectations *e, const struct requirement_verdict verdicts[], int count,
                          const struct findings *findings, enum run_verdict verdict, const struct run_facts *facts,
                          FILE *out)
{
    size_t met = 0, not_met = 0;
    fprintf(out, "Compared with %s:\n", e->path);
    for (size_t i = 0; i < e->count; i++) {
        struct expectation *x = &e->list[i];
        if (!x->name || x->verdict != VERDICT_COUNT)
            continue;
        x->state = state_of_cases(x->name, findings);
        if (x->state != EXPECTATION_UNASKED)
            fprintf(out, "  %-12s cases %s%s: %s\n", x->state == EXPECTATION_MET ? "expected" : "UNEXPECTED", x->name,
                    x->state == EXPECTATION_MET ? "" : " do not fail", x->why);
        met += x->state == EXPECTATION_MET;
        not_met += x->state == EXPECTATION_NOT_MET;
    }
    for (int i = 0; i < count; i++) {
        const char *id = verdicts[i].requirement->id, *name = verdict_name(verdicts[i].verdict);
        struct expectation *x = expectation_of(e, id);
        bool regression = is_regression(e, &verdicts[i], findings);
        if (x) {
            x->state = x->verdict == verdicts[i].verdict ? EXPECTATION_MET : EXPECTATION_NOT_MET;
            met += x->state == EXPECTATION_MET;
            not_met += x->state == EXPECTATION_NOT_MET;
        }
        not_met += regression;
        if (x && x->state == EXPECTATION_MET)
            fprintf(out, "  %-12s %s %s: %s\n", "expected", id, name, x->why);
        else if (x)
            fprintf(out, "  %-12s %s %s, and %s was expected: %s\n", "UNEXPECTED", id, name, verdict_name(x->verdict),
                    x->why);
        else if (regression)
            fprintf(out, "  %-12s %s %s\n", "REGRESSION", id, name);
    }
    if (verdict == RUN_NOTHING || facts->command_failed) {
        fprintf(out, "  %-12s %s\n", "REGRESSION", facts->command_failed ? facts->command_text : "nothing was judged");
        not_met++;
    }
    fprintf(out, "%s: %zu expected, %zu not\n", not_met ? "NOT AS EXPECTED" : "AS EXPECTED", met, not_met);
    return not_met == 0;
}

static int print_update(const struct expectations *e, const struct requirement_verdict verdicts[], int count,
                        const struct findings *findings, int suite_version, FILE *out)
{
    if (e->suite_version == 0)
        fprintf(out, "# What is known not to hold, and why: `zerogauge check --expect` reads it.\nsuite %d\n",
                suite_version);
    for (size_t i = 0; i < e->count; i++)
        if (e->list[i].state != EXPECTATION_NOT_MET)
            fprintf(out, "%s\n", e->list[i].line);
    for (int i = 0; i < count; i++) {
        const struct requirement_verdict *v = &verdicts[i];
        const struct expectation *x = expectation_of(e, v->requirement->id);
        if (is_regression(e, v, findings) || (x && x->state == EXPECTATION_NOT_MET && is_failure(v->verdict)))
            fprintf(out, "expect %s %s %s\n", v->requirement->id, verdict_name(v->verdict),
                    x ? x->why : "say why, with a link");
    }
    return ERR_NONE;
}

int expectations_update(const struct expectations *e, const struct requirement_verdict verdicts[], int count,
                        const struct findings *findings, int suite_version)
{
    struct file_output output;
    TRY(file_output_open(e->path, FILE_REPLACED, &output));
    return file_output_close(&output, print_update(e, verdicts, count, findings, suite_version, output.out));
}
