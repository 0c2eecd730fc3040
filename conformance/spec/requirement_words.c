// SPDX-License-Identifier: Apache-2.0
// The words of a requirement: its identifier, and what it needs.
#include "conformance/spec/requirement_parse.h"

#include "conformance/cases/case_mesh.h"
#include "conformance/spec/aspect.h"
#include "conformance/spec/requirement.h"
#include "base/err.h"

#include <assert.h>
#include <ctype.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *need_name(enum need need)
{
    static const char *const names[NEED_COUNT] = {"", "sharding", "offload", "nvme", "checkpoint"};
    assert(need >= 0 && need < NEED_COUNT);
    return names[need];
}

bool need_find(const char *name, enum need *out)
{
    for (*out = NEED_NOTHING; *out < NEED_COUNT; ++*out)
        if (strcmp(name, need_name(*out)) == 0)
            return true;
    return false;
}

bool option_find(const char *word, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(word, case_option_names[i]) == 0)
            *out = 1u << i;
    return *out != 0 || !*word;
}

bool need_has(enum need need, const struct check_case *c)
{
    switch (need) {
    case NEED_SHARDING:
        return c->stage > 0 && c->world > 1;
    case NEED_OFFLOAD:
        return c->offload_optimizer != TIER_DEVICE || c->offload_param != TIER_DEVICE;
    case NEED_NVME:
        return c->offload_optimizer == TIER_NVME || c->offload_param == TIER_NVME;
    case NEED_CHECKPOINT:
        return c->phase != PHASE_WHOLE;
    default:
        return true;
    }
}

size_t requirement_id_length(const char *text)
{
    if (strncmp(text, "R-", 2) != 0)
        return 0;
    size_t letters = 2;
    while (isupper((unsigned char)text[letters]))
        letters++;
    if (letters == 2 || text[letters] != '-' || !isdigit((unsigned char)text[letters + 1]) ||
        !isdigit((unsigned char)text[letters + 2]))
        return 0;
    return letters + 3 < CASE_REQUIREMENT_BYTES ? letters + 3 : 0;
}

static const char *const aspect_names[ASPECT_COUNT] = {
    [ASPECT_ANSWER] = "answer", [ASPECT_STATE] = "state",       [ASPECT_GRADIENT] = "gradient",
    [ASPECT_NORM] = "norm",     [ASPECT_DECISION] = "decision", [ASPECT_SEEN] = "seen",
    [ASPECT_SAME] = "same",     [ASPECT_REPEAT] = "repeat",     [ASPECT_RULE] = "rule",
    [ASPECT_MEMORY] = "memory", [ASPECT_PADDING] = "padding",   [ASPECT_TRAFFIC] = "traffic",
    [ASPECT_CALLS] = "calls",   [ASPECT_REFUSAL] = "refusal",   [ASPECT_STAGES] = "stages",
    [ASPECT_WORLDS] = "worlds", [ASPECT_LAYOUTS] = "layouts",   [ASPECT_MOMENTS] = "moments",
};

const char *aspect_name(enum aspect aspect)
{
    assert(aspect >= 0 && aspect < ASPECT_COUNT);
    return aspect_names[aspect];
}

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
        if (fnmatch(requirement->patterns[i], name, 0) == 0)
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
