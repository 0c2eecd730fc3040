// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_own.h"

#include "base/err.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static int visit_cases(void *context, int (*visit)(void *visit_context, const struct check_case *c),
                       void *visit_context)
{
    const struct hunt_cases *cases = context;
    for (int i = 0; i < cases->count; i++)
        for (int part = 0; part < cases->list[i].part_count; part++)
            TRY(visit(visit_context, cases->list[i].parts[part]));
    return ERR_NONE;
}

static bool is_copy(const char *name, const char *of)
{
    size_t length = strlen(of);
    return strncmp(name, of, length) == 0 && (name[length] == '\0' || strcmp(name + length, "~2") == 0);
}

static int copy_values(void *context, const struct check_case *c, struct case_values **out)
{
    const struct hunt_cases *cases = context;
    for (int i = 0; i < cases->count; i++)
        for (int part = 0; part < cases->list[i].part_count; part++)
            if (is_copy(c->name, cases->list[i].parts[part]->name))
                return case_values_copy(c, cases->list[i].values[part], out);
    return err_set(ERR_INTERNAL, "there is no case %s", c->name);
}

struct check_source check_own_source(const struct hunt_cases *cases)
{
    return (struct check_source){.cases = visit_cases, .values = copy_values, .context = (void *)(uintptr_t)cases};
}

// True if some requirement is about cases of this topic, and not about all.
static bool has_topic(const char *name)
{
    const struct requirement *requirement;
    for (int i = 0; (requirement = requirement_at(i)); i++)
        if (requirement_covers(requirement, name) && !requirement_covers(requirement, "-"))
            return true;
    return false;
}

static bool is_about_refusals(const char *name)
{
    const struct requirement *requirement;
    for (int i = 0; (requirement = requirement_at(i)); i++)
        if (requirement_covers(requirement, name) && requirement->aspects & 1u << ASPECT_REFUSAL)
            return true;
    return false;
}

// A case that makes no sense is an error, with the key that says so, unless its topic is the refusal of such cases.
static int check_sense(const struct check_case *c)
{
    struct check_case plain = *c, again;
    char *text;
    size_t bytes;
    if (!c->expects_refusal || is_about_refusals(c->name))
        return ERR_NONE;
    plain.expects_refusal = false;
    TRY(case_text(&plain, &text, &bytes));
    int rc = case_parse(c->name, text, bytes, &again);
    free(text);
    return rc;
}

static const char prefix[] = "pair-own.";

static int set_name(struct check_case *c)
{
    c->name[strcspn(c->name, "~")] = '\0';  // a repetition is judged as the case itself
    size_t length = strlen(c->name);
    TRY(check_sense(c));
    if (!has_topic(c->name)) {
        if (length + sizeof prefix > CASE_NAME_BYTES)
            return err_set(ERR_USAGE, "case %s: its name has more than %zu characters", c->name,
                           CASE_NAME_BYTES - sizeof prefix);
        memmove(c->name + sizeof prefix - 1, c->name, length + 1);
        memcpy(c->name, prefix, sizeof prefix - 1);
    }
    requirement_list(c);
    return ERR_NONE;
}

static int set_names(const char *folder, struct hunt_cases *cases)
{
    for (int i = 0; i < cases->count; i++) {
        for (int part = 0; part < cases->list[i].part_count; part++)
            TRY(set_name(cases->list[i].parts[part]));
        for (int k = 0; k < i; k++)
            if (strcmp(cases->list[k].parts[0]->name, cases->list[i].parts[0]->name) == 0)
                return err_set(ERR_USAGE, "--case-dir %s: two cases are called %s", folder,
                               cases->list[i].parts[0]->name);
    }
    return ERR_NONE;
}

static bool matches(const char *name, char *const *patterns)
{
    for (int i = 0; patterns[i]; i++)
        if (fnmatch(patterns[i], name, FNM_EXTMATCH) == 0)
            return true;
    return false;
}

// A case matches by the name of either half or of both together, each with and without the prefix.
static bool matches_one(const struct hunt_case *h, char *const *patterns)
{
    for (int part = 0; part < h->part_count; part++) {
        const char *name = h->parts[part]->name;
        char whole[CASE_NAME_BYTES];
        size_t own = strncmp(name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
        check_whole_name(h->parts[part], whole);
        if (matches(name, patterns) || matches(name + own, patterns) || matches(whole, patterns) ||
            matches(whole + own, patterns))
            return true;
    }
    return false;
}

static void keep_matching(struct hunt_cases *cases, char *const *patterns)
{
    int kept = 0;
    for (int i = 0; i < cases->count; i++)
        if (matches_one(&cases->list[i], patterns))
            cases->list[kept++] = cases->list[i];
        else
            hunt_case_close(&cases->list[i]);
    cases->count = kept;
}

int check_own_open(const char *folder, char *const *patterns, struct hunt_cases *out)
{
    TRY(hunt_folder_read(folder, out));
    int rc = set_names(folder, out);
    if (rc == ERR_NONE && patterns) {
        keep_matching(out, patterns);
        if (out->count == 0)
            rc = err_set(ERR_USAGE, "--case-dir %s: no case is called \"%s\"", folder, patterns[0]);
    }
    if (rc != ERR_NONE)
        hunt_cases_close(out);
    return rc;
}
