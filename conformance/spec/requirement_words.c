// SPDX-License-Identifier: Apache-2.0
// The words of a requirement: its identifier, what it needs, and its aspects.
#include "conformance/spec/requirement_parse.h"

#include "conformance/cases/case_mesh.h"
#include "conformance/spec/aspect.h"

#include <assert.h>
#include <ctype.h>
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
    while (*word) {
        size_t length = strcspn(word, ",");
        int i = 0;
        while (i < OPTION_COUNT &&
               (strlen(case_option_names[i]) != length || strncmp(word, case_option_names[i], length) != 0))
            i++;
        if (i == OPTION_COUNT || *out >> i & 1)
            return false;
        *out |= 1u << i;
        word += length;
        if (*word && (strncmp(word, ", ", 2) != 0 || !word[2]))
            return false;
        word += *word ? 2 : 0;
    }
    return true;
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
    [ASPECT_ANSWER] = "answer",   [ASPECT_STATE] = "state",   [ASPECT_GRADIENT] = "gradient",
    [ASPECT_NORM] = "norm",       [ASPECT_LOSS] = "loss",     [ASPECT_DECISION] = "decision",
    [ASPECT_SEEN] = "seen",       [ASPECT_SAME] = "same",     [ASPECT_REPEAT] = "repeat",
    [ASPECT_RULE] = "rule",       [ASPECT_MEMORY] = "memory", [ASPECT_PADDING] = "padding",
    [ASPECT_TRAFFIC] = "traffic", [ASPECT_CALLS] = "calls",   [ASPECT_REFUSAL] = "refusal",
    [ASPECT_STAGES] = "stages",   [ASPECT_WORLDS] = "worlds", [ASPECT_LAYOUTS] = "layouts",
    [ASPECT_MOMENTS] = "moments", [ASPECT_UPDATE] = "update",
};

const char *aspect_name(enum aspect aspect)
{
    assert(aspect >= 0 && aspect < ASPECT_COUNT);
    return aspect_names[aspect];
}
