// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/shrink.h"

#include "base/clock.h"
#include "base/err.h"
#include "conformance/hunt/edit.h"

#include <string.h>

struct shrinking {
    const struct shrink_setting *setting;
    struct hunt_case *best;
    struct shrink_result *result;
    struct hunt_case candidates[SHRINK_CANDIDATE_MAX];
    bool fails[SHRINK_CANDIDATE_MAX];
    int count;
};

static bool is_over(const struct shrinking *s)
{
    const struct shrink_setting *setting = s->setting;
    return (setting->interrupted && *setting->interrupted) ||
           (setting->deadline_s > 0 && clock_now_s() >= setting->deadline_s);
}

static void drop_candidates(struct shrinking *s)
{
    for (int i = 0; i < s->count; i++)
        hunt_case_close(&s->candidates[i]);
    s->count = 0;
}

static int judge(struct shrinking *s)
{
    memset(s->fails, 0, sizeof s->fails);
    s->result->round_count++;
    s->result->judged_count += s->count;
    return s->setting->judge(s->setting->context, s->candidates, s->count, s->fails);
}

static void take(struct shrinking *s, int candidate)
{
    hunt_case_close(s->best);
    *s->best = s->candidates[candidate];
    s->candidates[candidate] = (struct hunt_case){0};
    if (s->setting->tell)
        s->setting->tell(s->setting->context, s->best, s->result->judged_count);
}

// Makes a candidate of each edit that can be applied; edits[i] becomes the edit of candidate i.
static int make_singles(struct shrinking *s, struct edit edits[], int count)
{
    for (int i = 0; i < count && s->count < SHRINK_CANDIDATE_MAX; i++) {
        bool done;
        TRY(edit_apply(s->best, edits[i], &s->candidates[s->count], &done));
        if (done)
            edits[s->count++] = edits[i];
    }
    return ERR_NONE;
}

// Makes candidates with the first two, three, ... of the edits, one after the other.
static int make_sequences(struct shrinking *s, const struct edit edits[], int count)
{
    struct hunt_case none = {0};
    const struct hunt_case *last = s->best;
    for (int i = 0; i < count; i++) {
        bool done;
        TRY(edit_apply(last, edits[i], &s->candidates[s->count], &done));
        if (!done)
            s->candidates[s->count] = none;
        else
            last = &s->candidates[s->count++];
    }
    return ERR_NONE;
}

static int last_failing(const struct shrinking *s)
{
    for (int i = s->count - 1; i >= 0; i--)
        if (s->fails[i])
            return i;
    return -1;
}

// Several edits that each leave a failing case, of which `first` is the first one's candidate: as many of them as
// possible together, or that one.
static int take_sequence(struct shrinking *s, const struct edit edits[], int count, int first)
{
    struct hunt_case single = s->candidates[first];
    s->candidates[first] = (struct hunt_case){0};
    drop_candidates(s);
    int rc = make_sequences(s, edits, count);
    if (rc == ERR_NONE && !is_over(s))
        rc = judge(s);
    int longest = rc == ERR_NONE ? last_failing(s) : -1;
    if (longest < 0) {
        drop_candidates(s);
        s->candidates[longest = 0] = single;
        s->count = 1;
        single = (struct hunt_case){0};
    }
    take(s, longest);
    hunt_case_close(&single);
    return rc;
}

// Tries all edits of a kind, and takes what it can.
static int try_kind(struct shrinking *s, enum edit_kind kind, bool *smaller)
{
    struct edit edits[EDIT_LIST_MAX], good[SHRINK_CANDIDATE_MAX];
    int good_count = 0;
    int rc = make_singles(s, edits, edit_list(s->best, kind, edits));
    if (rc == ERR_NONE && s->count > 0)
        rc = judge(s);
    int first = -1;
    for (int i = 0; i < s->count; i++)
        if (s->fails[i]) {
            first = first < 0 ? i : first;
            good[good_count++] = edits[i];
        }
    if (rc == ERR_NONE && good_count > 0) {
        *smaller = true;
        if (edit_is_choice(kind) || good_count == 1)
            take(s, first);
        else
            rc = take_sequence(s, good, good_count, first);
    }
    drop_candidates(s);
    return rc;
}

int shrink(const struct shrink_setting *setting, struct hunt_case *h, struct shrink_result *out)
{
    // What makes cases quick to judge comes first.
    static const enum edit_kind order[] = {EDIT_STEPS,       EDIT_PARAMS,      EDIT_WORLD,   EDIT_ACCUMULATION,
                                           EDIT_FEATURE,     EDIT_PARAM,       EDIT_STEP,    EDIT_RANK,
                                           EDIT_MICRO,       EDIT_GROUP,       EDIT_GROUP_FIELD, EDIT_PLAIN_PARAM,
                                           EDIT_ELEMENTS,    EDIT_ZERO,        EDIT_NUMBERS};
    struct shrinking s = {.setting = setting, .best = h, .result = out};
    *out = (struct shrink_result){0};
    int rc = ERR_NONE;
    for (bool smaller = true; smaller && rc == ERR_NONE;) {
        smaller = false;
        for (size_t i = 0; i < sizeof order / sizeof *order && rc == ERR_NONE; i++) {
            if (is_over(&s))
                return ERR_NONE;
            rc = try_kind(&s, order[i], &smaller);
        }
    }
    out->complete = rc == ERR_NONE;
    return rc;
}
