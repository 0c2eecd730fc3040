// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/shrink.h"

#include "base/clock.h"
#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/hunt/edit.h"

#include <stdlib.h>
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

// Kinds of edits that are tried together: none changes what the indices of the others mean. What makes cases quick to
// judge is first; EDIT_KIND_COUNT ends each.
static const enum edit_kind passes[][6] = {
    {EDIT_WHOLE, EDIT_KIND_COUNT},
    {EDIT_STEPS, EDIT_PARAMS, EDIT_WORLD, EDIT_ACCUMULATION, EDIT_KIND_COUNT},
    {EDIT_FEATURE, EDIT_STEP, EDIT_RANK, EDIT_MICRO, EDIT_PARAM, EDIT_KIND_COUNT},
    {EDIT_GROUP, EDIT_KIND_COUNT},
    {EDIT_GROUP_FIELD, EDIT_PLAIN_PARAM, EDIT_ELEMENTS, EDIT_KIND_COUNT},
    {EDIT_ZERO, EDIT_NUMBERS, EDIT_KIND_COUNT},
};

static int list_pass(const struct hunt_case *h, const enum edit_kind kinds[], struct edit edits[])
{
    int count = 0;
    for (int i = 0; kinds[i] != EDIT_KIND_COUNT; i++)
        count += edit_list(h, kinds[i], edits + count, SHRINK_CANDIDATE_MAX - count);
    return count;
}

// The edits that leave a failing case; of those that are a choice the first. Returns how many; *first: the candidate of
// the first one.
static int good_edits(const struct shrinking *s, const struct edit edits[], struct edit good[], int *first)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        bool chosen = count > 0 && edit_is_choice(edits[i].kind) && good[count - 1].kind == edits[i].kind;
        if (!s->fails[i] || chosen)
            continue;
        *first = count == 0 ? i : *first;
        good[count++] = edits[i];
    }
    return count;
}

// Tries all edits of a pass, and takes what it can.
static int try_pass(struct shrinking *s, const enum edit_kind kinds[], bool *smaller)
{
    struct edit edits[SHRINK_CANDIDATE_MAX], good[SHRINK_CANDIDATE_MAX];
    int first = 0, rc = make_singles(s, edits, list_pass(s->best, kinds, edits));
    if (rc == ERR_NONE && s->count > 0)
        rc = judge(s);
    int count = rc == ERR_NONE ? good_edits(s, edits, good, &first) : 0;
    *smaller |= count > 0;
    if (count == 1)
        take(s, first);
    else if (count > 1)
        rc = take_sequence(s, good, count, first);
    drop_candidates(s);
    return rc;
}

// Makes a candidate of two edits, one after the other.
static int make_pair(struct shrinking *s, struct edit first, struct edit second)
{
    struct hunt_case once;
    bool done;
    if (s->count == SHRINK_CANDIDATE_MAX)
        return ERR_NONE;
    TRY(edit_apply(s->best, first, &once, &done));
    if (!done)
        return ERR_NONE;
    int rc = edit_apply(&once, second, &s->candidates[s->count], &done);
    hunt_case_close(&once);
    s->count += rc == ERR_NONE && done;
    return rc;
}

struct extent {
    int most, sum;  // of the numbers of steps, of tensors, and of each half's micro-batches
};

static struct extent extent_of(const struct hunt_case *h)
{
    int counts[] = {h->parts[0]->steps, h->parts[0]->param_count, case_batches(h->parts[0]),
                    h->part_count == 2 ? case_batches(h->parts[1]) : 0};
    struct extent extent = {0};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        extent.most = counts[i] > extent.most ? counts[i] : extent.most;
        extent.sum += counts[i];
    }
    return extent;
}

// Makes candidates with one more step, in which a program may do again what it did for several tensors or ranks, and
// fewer of these. No edit raises the greatest number and each trade lowers it, so that trades end.
static int make_trades(struct shrinking *s)
{
    static const enum edit_kind kinds[] = {EDIT_PARAMS, EDIT_WORLD, EDIT_KIND_COUNT};
    struct edit edits[SHRINK_CANDIDATE_MAX];
    struct extent before = extent_of(s->best);
    struct hunt_case longer;
    bool done;
    TRY(hunt_case_longer(s->best, &longer, &done));
    int rc = ERR_NONE, count = done ? list_pass(&longer, kinds, edits) : 0;
    for (int i = 0; i < count && s->count < SHRINK_CANDIDATE_MAX && rc == ERR_NONE; i++) {
        struct hunt_case *candidate = &s->candidates[s->count];
        rc = edit_apply(&longer, edits[i], candidate, &done);
        if (rc != ERR_NONE || !done)
            continue;
        struct extent after = extent_of(candidate);
        if (after.most < before.most && after.sum < before.sum)
            s->count++;
        else
            hunt_case_close(candidate);
    }
    hunt_case_close(&longer);
    return rc;
}

// Where no edit alone leaves a failing case, two may: a step and a feature that the other steps made up for, one rank
// and one tensor. Only what makes the case smaller by a step, a rank or a tensor is worth the search.
static int try_pairs(struct shrinking *s, bool *smaller)
{
    static const enum edit_kind cut_kinds[] = {EDIT_STEP, EDIT_RANK, EDIT_PARAM, EDIT_KIND_COUNT};
    static const enum edit_kind other_kinds[] = {EDIT_MICRO, EDIT_FEATURE, EDIT_KIND_COUNT};
    struct edit cuts[SHRINK_CANDIDATE_MAX], others[SHRINK_CANDIDATE_MAX];
    int cut_count = list_pass(s->best, cut_kinds, cuts), other_count = list_pass(s->best, other_kinds, others);
    int rc = ERR_NONE;
    for (int i = 0; i < cut_count && rc == ERR_NONE; i++)
        for (int k = i + 1; k < cut_count && rc == ERR_NONE; k++)
            rc = make_pair(s, cuts[i], cuts[k]);
    rc = rc == ERR_NONE ? make_trades(s) : rc;
    // The feature first: without it, a step or a rank may be one too many.
    for (int i = 0; i < cut_count && rc == ERR_NONE; i++)
        for (int k = 0; k < other_count && rc == ERR_NONE; k++)
            rc = make_pair(s, others[k], cuts[i]);
    if (rc == ERR_NONE && s->count > 0)
        rc = judge(s);
    for (int i = 0; i < s->count && rc == ERR_NONE && !*smaller; i++)
        if (s->fails[i]) {
            take(s, i);
            *smaller = true;
        }
    drop_candidates(s);
    return rc;
}

int shrink(const struct shrink_setting *setting, struct hunt_case *h, struct shrink_result *out)
{
    *out = (struct shrink_result){0};
    struct shrinking *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(ERR_MEMORY, "no memory to shrink a case");
    s->setting = setting;
    s->best = h;
    s->result = out;
    int rc = ERR_NONE;
    bool over = false;
    for (bool smaller = true; smaller && rc == ERR_NONE && !over;) {
        smaller = false;
        for (size_t i = 0; i < sizeof passes / sizeof *passes && rc == ERR_NONE && !over; i++) {
            over = is_over(s);
            if (!over)
                rc = try_pass(s, passes[i], &smaller);
        }
        if (!smaller && rc == ERR_NONE && !over && !(over = is_over(s)))
            rc = try_pairs(s, &smaller);
    }
    free(s);
    out->complete = rc == ERR_NONE && !over;
    return rc;
}
