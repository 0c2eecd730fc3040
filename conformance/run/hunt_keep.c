// SPDX-License-Identifier: Apache-2.0
// What the hunt does with a case that fails: confirms it, shrinks it, asks the reference, and keeps it.
#include "conformance/run/hunt_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/terminal.h"
#include "conformance/hunt/hunt_mesh.h"
#include "conformance/claims/claims.h"

#include <inttypes.h>
#include <stdio.h>

// A race may need ALONE_TRIES launches to show again.
enum { LEAST_SHRINK_S = 60, ALONE_TRIES = 3 };

bool hunt_is_interrupted(const struct hunting *h)
{
    return h->hunt->setting.interrupted && *h->hunt->setting.interrupted;
}

static int judge_candidates(void *context, const struct hunt_case candidates[], int count, bool fails[])
{
    struct hunting *h = context;
    struct check_failure failures[SHRINK_CANDIDATE_MAX] = {0};
    struct hunt_case claimed[SHRINK_CANDIDATE_MAX];
    int index[SHRINK_CANDIDATE_MAX], claimed_count = 0;
    char why[CLAIMS_TEXT_BYTES];
    for (int i = 0; i < count; i++) {
        if (claims_lack(h->hunt->setting.claims, candidates[i].parts[0], candidates[i].parts[1], why))
            continue;
        claimed[claimed_count] = candidates[i];
        index[claimed_count++] = i;
    }
    int at_once = h->one_by_one ? 1 : claimed_count;
    for (int i = 0; i < claimed_count; i += at_once)
        TRY(check_batch(&h->batch, (struct hunt_cases){.list = &claimed[i], .count = at_once}, h->like, &failures[i]));
    for (int i = 0; i < claimed_count; i++)
        fails[index[i]] = failures[i].failed;
    return ERR_NONE;
}

static void tell(void *context, const struct hunt_case *best, int judged_count)
{
    const struct hunting *h = context;
    char text[FIND_SIZE_BYTES];
    if (h->hunt->setting.progress)
        terminal_progress("shrinking: %s after %d candidates ...", hunt_case_text(best, text, sizeof text),
                          judged_count);
}

static int judge_alone(struct hunting *h, struct hunt_case *one, const struct check_failure *like,
                       struct check_failure *out)
{
    return check_batch(&h->batch, (struct hunt_cases){.list = one, .count = 1}, like, out);
}

static int copy_case(const struct hunt_case *from, struct hunt_case *out)
{
    struct check_case parts[2] = {*from->parts[0]};
    struct hunt_map map;
    bool legal;
    if (from->part_count == 2)
        parts[1] = *from->parts[1];
    hunt_map_same(&map);
    return hunt_case_cut(from, parts, from->part_count, &map, out, &legal);
}

// Shrinks a case that fails alone. Candidates that share a launch may help one another to fail: if the result passes
// when it is alone, each candidate gets a launch of its own.
static int shrink_alone(struct hunting *h, struct hunt_case *best, struct hunt_find *find)
{
    double end_s = clock_now_s() + LEAST_SHRINK_S;
    const struct shrink_setting setting = {.judge = judge_candidates,
                                           .tell = tell,
                                           .context = h,
                                           .deadline_s = end_s > h->end_s ? end_s : h->end_s,
                                           .interrupted = h->hunt->setting.interrupted};
    struct hunt_case whole;
    struct check_failure failure;
    TRY(copy_case(best, &whole));
    h->like = &find->failure;
    h->one_by_one = false;
    int rc = shrink(&setting, best, &find->shrinking);
    if (rc == ERR_NONE && !hunt_is_interrupted(h))
        rc = judge_alone(h, best, h->like, &failure);
    if (rc == ERR_NONE && !hunt_is_interrupted(h) && !failure.failed) {
        hunt_case_close(best);
        *best = whole;
        whole = (struct hunt_case){0};
        h->one_by_one = true;
        rc = shrink(&setting, best, &find->shrinking);
        if (rc == ERR_NONE && !hunt_is_interrupted(h))
            rc = judge_alone(h, best, h->like, &failure);
    }
    if (rc == ERR_NONE && !hunt_is_interrupted(h) && failure.failed)
        find->failure = failure;
    hunt_case_close(&whole);
    return rc;
}

static void complete_note(const struct hunt_find *find, struct hunt_case *best, uint64_t seed)
{
    for (int i = 0; i < best->part_count; i++) {
        struct check_case *c = best->parts[i];
        snprintf(c->note, sizeof c->note, "Shrunk from case %" PRIu64 " of seed %" PRIu64 ": %s fails.", find->number,
                 seed, aspect_name(find->failure.aspect));
    }
}

// Notes if the reference answers the case right: then it is a case that can be asked.
static int ask_reference(struct hunting *h, struct hunt_case *best, struct hunt_find *find)
{
    struct check_setting setting = h->hunt->setting;
    struct check_batch batch = {.setting = &setting, .folder = h->hunt->work};
    struct check_failure failure;
    setting.command = h->hunt->reference;
    if (!setting.command || hunt_is_interrupted(h))
        return ERR_NONE;
    TRY(check_batch(&batch, (struct hunt_cases){.list = best, .count = 1}, NULL, &failure));
    find->right_known = failure.judged;
    find->right = !failure.failed;
    return ERR_NONE;
}

static int keep_alone(struct hunting *h, int at, struct hunt_find *find)
{
    struct hunt_case *best = &h->cases[at];
    int rc = shrink_alone(h, best, find);
    // An interrupt is no error here: what is left is kept.
    if (rc != ERR_NONE && !hunt_is_interrupted(h))
        return rc;
    rc = ask_reference(h, best, find);
    if (rc != ERR_NONE && !hunt_is_interrupted(h))
        return rc;
    hunt_case_text(best, find->left, sizeof find->left);
    hunt_case_name(best, -1);
    complete_note(find, best, h->hunt->setting.seed);
    return hunt_find_write(h->hunt, find, (struct hunt_cases){.list = best, .count = 1});
}

static int keep_beside_others(struct hunting *h, int at, struct hunt_find *find)
{
    for (int i = 0; i < h->count; i++)
        hunt_case_name(&h->cases[i], i);
    snprintf(find->left, sizeof find->left, "%d cases, of which %s fails", h->count, h->cases[at].parts[0]->name);
    return hunt_find_write(h->hunt, find, (struct hunt_cases){.list = h->cases, .count = h->count});
}

// True, too, if there was an interrupt before the answer.
static int fails_alone(struct hunting *h, int at, bool *fails)
{
    struct check_failure alone = {0};
    int rc = ERR_NONE;
    for (int i = 0; i < ALONE_TRIES && rc == ERR_NONE && !alone.failed && !hunt_is_interrupted(h); i++)
        rc = judge_alone(h, &h->cases[at], &h->failures[at], &alone);
    *fails = alone.failed || hunt_is_interrupted(h);
    return hunt_is_interrupted(h) ? ERR_NONE : rc;
}

int hunt_keep(struct hunting *h, int at, struct hunt_known *before)
{
    double begin = clock_now_s();
    struct hunt_find find = {.number = h->numbers[at], .failure = h->failures[at]};
    TRY(fails_alone(h, at, &find.alone));
    if (before && !find.alone)
        return ERR_NONE;
    if (!before) {
        before = &h->known[h->known_count++];
        before->failure = h->failures[at];
    }
    before->alone = find.alone;
    h->alone_count += find.alone;
    find.index = ++h->result->find_count;
    snprintf(find.note, sizeof find.note, "%s", h->cases[at].parts[0]->note);
    hunt_case_text(&h->cases[at], find.drawn, sizeof find.drawn);
    TRY(find.alone ? keep_alone(h, at, &find) : keep_beside_others(h, at, &find));
    find.seconds = clock_now_s() - begin;
    if (h->hunt->setting.progress)
        terminal_progress("%s", "");
    return hunt_find_report(h->hunt, &find, h->record);
}
