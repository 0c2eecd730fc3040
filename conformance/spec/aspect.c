// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/aspect.h"

#include <assert.h>

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
