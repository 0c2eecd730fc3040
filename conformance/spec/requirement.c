// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/requirement.h"

#include "base/err.h"

#include <assert.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// The list of the program: written once, by whichever thread is first, then only read. It lives until the end.
static struct {
    pthread_once_t once;
    struct requirements requirements;
    int code;
    char message[512];
} made = {.once = PTHREAD_ONCE_INIT};

static void make(void)
{
    made.code = requirements_parse("SPEC.md", requirement_text, requirement_text_bytes, &made.requirements);
    if (made.code != ERR_NONE)
        snprintf(made.message, sizeof made.message, "%s", err_message());
}

int requirement_check(void)
{
    pthread_once(&made.once, make);
    if (made.code == ERR_MEMORY)
        return err_set(ERR_MEMORY, "%s", made.message);
    if (made.code != ERR_NONE)
        return err_set(ERR_INTERNAL, "%s", made.message);
    return ERR_NONE;
}

const struct requirement *requirement_at(int index)
{
    if (requirement_check() != ERR_NONE || index < 0 || index >= made.requirements.count)
        return NULL;
    return &made.requirements.list[index];
}

const struct requirement *requirement_find(const char *id)
{
    const struct requirement *found;
    for (int i = 0; (found = requirement_at(i)); i++) {
        if (strcmp(found->id, id) == 0)
            return found;
    }
    return NULL;
}

bool requirement_covers(const struct requirement *requirement, const char *case_name)
{
    char name[CASE_NAME_BYTES];
    size_t length = strcspn(case_name, ".~");
    assert(length < sizeof name);
    memcpy(name, case_name, length);
    name[length] = '\0';
    for (int i = 0; i < requirement->pattern_count; i++) {
        const char *pattern = requirement->patterns[i];
        size_t plain = strcspn(pattern, "*?[\\");  // most names differ in it
        if (strncmp(pattern, name, plain) == 0 && fnmatch(pattern + plain, name + plain, 0) == 0)
            return true;
    }
    return false;
}

void requirement_list(struct check_case *c)
{
    const struct requirement *requirement;
    c->requirement_count = 0;
    for (int i = 0; (requirement = requirement_at(i)); i++) {
        if (!requirement_covers(requirement, c->name))
            continue;
        assert(c->requirement_count < CASE_REQUIREMENT_MAX);
        memcpy(c->requirements[c->requirement_count++], requirement->id, sizeof requirement->id);
    }
}
