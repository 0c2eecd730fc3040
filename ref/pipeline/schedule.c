// SPDX-License-Identifier: Apache-2.0
#include "ref/pipeline/schedule.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {[PIPELINE_1F1B] = "1f1b", [PIPELINE_GPIPE] = "gpipe"};

enum { KIND_TOTAL = sizeof names / sizeof names[0] };

int pipeline_kind_parse(const char *text, enum pipeline_kind *out)
{
    char shown[TEXT_MESSAGE_BYTES];
    for (int kind = 0; kind < KIND_TOTAL; kind++)
        if (strcmp(text, names[kind]) == 0) {
            *out = (enum pipeline_kind)kind;
            return ERR_NONE;
        }
    return err_set(ERR_USAGE, "\"%s\" is no pipeline schedule, expected \"1f1b\" or \"gpipe\"",
                   text_message(shown, text, 40));
}

const char *pipeline_kind_name(enum pipeline_kind kind)
{
    return names[kind];
}

// Forwards before the first backward follows one.
static int warm_up(const struct pipeline_schedule *s, int stage)
{
    int after = s->stage_count - 1 - stage;
    assert(s->micro_count > 0 && stage >= 0 && stage < s->stage_count);
    if (s->stage_count == 1)
        return 0;
    return s->kind == PIPELINE_GPIPE || after > s->micro_count ? s->micro_count : after;
}

// The stage's index-th computation, of 2 M: warm_up forwards, pairs of a forward and a backward, and backwards.
static struct pipeline_action computation(const struct pipeline_schedule *s, int stage, int index)
{
    int warm = warm_up(s, stage), paired = index - warm, pairs = s->micro_count - warm;
    if (paired < 0)
        return (struct pipeline_action){PIPELINE_FORWARD, index};
    if (paired >= 2 * pairs)
        return (struct pipeline_action){PIPELINE_BACKWARD, index - s->micro_count};
    if (paired % 2 == 0)
        return (struct pipeline_action){PIPELINE_FORWARD, warm + paired / 2};
    return (struct pipeline_action){PIPELINE_BACKWARD, paired / 2};
}

bool pipeline_next(const struct pipeline_schedule *s, int stage, int *next, struct pipeline_action *out)
{
    // Each computation is one of three actions: its message arrives, it runs, and its result leaves.
    while (*next < 2 * s->micro_count * 3) {
        int index = *next / 3, part = *next % 3 - 1;
        *out = computation(s, stage, index);
        bool forward = out->verb == PIPELINE_FORWARD, first = stage == 0, last = stage == s->stage_count - 1;
        out->verb = (enum pipeline_verb)((int)out->verb + part);
        (*next)++;
        if (part == 0 || (part < 0 ? !(forward ? first : last) : !(forward ? last : first)))
            return true;
    }
    return false;
}

int pipeline_in_flight(const struct pipeline_schedule *s, int stage)
{
    int most = warm_up(s, stage) + 1;
    return most < s->micro_count ? most : s->micro_count;
}

double pipeline_bubble(const struct pipeline_schedule *s)
{
    return (double)(s->stage_count - 1) / (double)(s->micro_count + s->stage_count - 1);
}
