// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/verdict.h"

#include "base/array.h"
#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICT_COUNT] = {
        [VERDICT_UNSUPPORTED] = "UNSUPPORTED", [VERDICT_PASS] = "PASS", [VERDICT_EQUIVALENT] = "EQUIVALENT",
        [VERDICT_BOUNDED] = "BOUNDED",         [VERDICT_FAIL] = "FAIL", [VERDICT_BROKEN] = "BROKEN",
        [VERDICT_PARTLY] = "PARTLY",
    };
    assert(verdict >= 0 && verdict < VERDICT_COUNT);
    return names[verdict];
}

int findings_add(struct findings *findings, const struct finding *finding)
{
    TRY(array_grow(&findings->list, &findings->room, findings->count, sizeof *findings->list, "findings"));
    assert(finding->verdict < VERDICT_COUNT && finding->aspect < ASPECT_COUNT && finding->hint < HINT_COUNT);
    findings->list[findings->count++] = *finding;
    return ERR_NONE;
}

void findings_free(struct findings *findings)
{
    free(findings->list);
    *findings = (struct findings){0};
}

bool finding_serves(const struct finding *finding, const struct requirement *requirement)
{
    if (!(requirement->aspects >> finding->aspect & 1u) ||
        (finding->c && !requirement_covers(requirement, finding->c->name)))
        return false;
    return finding->verdict >= VERDICT_FAIL || !finding->c || need_has(requirement->need, finding->c) ||
           (finding->twin && need_has(requirement->need, finding->twin));
}

// Of two findings without an answer, the reason of the one of which more was claimed says more: a program without
// empty tensors does not hear of the stages that it lacks as well.
static bool says_more(const struct finding *finding, const struct finding *than)
{
    static const int order[] = {[ABSENT_UNCLAIMED] = 0, [ABSENT_DECLINED] = 1, [ABSENT_NOT] = 2};
    if (finding->verdict != VERDICT_UNSUPPORTED || than->verdict != VERDICT_UNSUPPORTED)
        return false;
    return order[finding->absence] != order[than->absence] ? order[finding->absence] > order[than->absence]
                                                           : finding->lack < than->lack;
}

static bool resumes(const struct finding *finding)
{
    return finding->c && finding->c->phase == PHASE_RESUME;
}

// True if one bug may have the other as its consequence: memory that nothing has filled may hold inf, which skips a
// step; a gradient that is not searched in time may have no norm yet; and the end that a loop leaves out keeps its
// state.
static bool may_cause(enum hint cause, enum hint effect)
{
    return (cause == HINT_UNSET && effect == HINT_OVERFLOW) ||
           ((cause == HINT_UNSET || cause == HINT_OVERFLOW) && effect == HINT_CLIP) ||
           (cause == HINT_TAIL && effect == HINT_NOT_UPDATED);
}

// True if tensors that share a bucket are the matter, and not the division by the number of ranks that some of them
// show: the first is said of more answers that begin with the case's own state.
static bool is_of_bucket(const struct findings *findings, const struct requirement *requirement)
{
    size_t bucket = 0, factor = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (finding->verdict != VERDICT_FAIL || !finding->difference.what || resumes(finding) ||
            !finding_serves(finding, requirement))
            continue;
        bucket += finding->hint == HINT_BUCKET;
        factor += finding->hint == HINT_FACTOR_WORLD;
    }
    return bucket > factor;
}

// Of two FAIL findings, the cause tells more than its consequence, and the stronger hint more than the other; but first
// that of a case that does not resume, as what fails there is no matter of checkpoints. Where hints say where, more
// wrong elements do.
static bool tells_more(const struct finding *finding, const struct finding *than, bool is_of_bucket)
{
    int strength = hint_strength(finding->hint), other = hint_strength(than->hint);
    if (is_of_bucket && finding->hint == HINT_FACTOR_WORLD)
        strength = hint_strength(HINT_BUCKET) - 1;
    if (is_of_bucket && than->hint == HINT_FACTOR_WORLD)
        other = hint_strength(HINT_BUCKET) - 1;
    if (finding->verdict != VERDICT_FAIL || than->verdict != VERDICT_FAIL)
        return false;
    if (resumes(finding) != resumes(than) && strength > 0 && other > 0 &&
        (strength == other || finding->hint == HINT_RESUME || than->hint == HINT_RESUME))
        return resumes(than);
    if (may_cause(finding->hint, than->hint) || may_cause(than->hint, finding->hint))
        return may_cause(finding->hint, than->hint);
    if (strength != other)
        return strength > other;
    return strength == 2 && finding->hint != than->hint &&
           finding->difference.differing_count > than->difference.differing_count;
}

// True if a finding is shown in place of another: a wrong bit before an answer that is missing, which it may explain.
static bool is_shown_before(const struct finding *finding, const struct finding *than, bool is_of_bucket)
{
    bool both_fail = finding->verdict >= VERDICT_FAIL && than->verdict >= VERDICT_FAIL;
    if (finding->verdict != than->verdict)
        return both_fail ? finding->verdict == VERDICT_FAIL : finding->verdict > than->verdict;
    return says_more(finding, than) || tells_more(finding, than, is_of_bucket);
}

struct requirement_verdict verdict_of(const struct findings *findings, const struct requirement *requirement)
{
    struct requirement_verdict out = {.requirement = requirement, .verdict = VERDICT_UNSUPPORTED};
    const struct finding *absent = NULL;
    bool of_bucket = is_of_bucket(findings, requirement);
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (!finding_serves(finding, requirement))
            continue;
        out.counts[finding->verdict]++;
        if (finding->absence != ABSENT_NOT && (!absent || says_more(finding, absent)))
            absent = finding;
        if (!out.worst || is_shown_before(finding, out.worst, of_bucket))
            out.worst = finding;
        if (finding->verdict > out.verdict)
            out.verdict = finding->verdict;
    }
    if (absent && out.verdict != VERDICT_UNSUPPORTED && out.verdict < VERDICT_PARTLY) {
        out.verdict = VERDICT_PARTLY;
        out.worst = absent;
    }
    return out;
}

// True if two texts are equal but for the name of an output's file in parentheses at their ends.
static bool same_reason(const char *a, const char *b)
{
    const char *end_a = strrchr(a, '('), *end_b = strrchr(b, '(');
    size_t length = end_a && end_b ? (size_t)(end_a - a) : strlen(a);
    return a[0] && (end_a && end_b ? (size_t)(end_b - b) : strlen(b)) == length && strncmp(a, b, length) == 0;
}

static bool have_one_cause(const struct finding *a, const struct finding *b)
{
    if (a == b || a->verdict != b->verdict || a->hint != b->hint)
        return a == b;
    if (hint_strength(a->hint) == 3)
        return resumes(a) == resumes(b);
    return a->hint == HINT_NONE ? same_reason(a->text, b->text) : a->c && a->c == b->c;
}

const struct requirement_verdict *verdict_first_of_cause(const struct requirement_verdict verdicts[],
                                                         const struct requirement_verdict *verdict)
{
    assert(verdict->verdict >= VERDICT_FAIL);
    while (verdicts < verdict && (verdicts->verdict < VERDICT_FAIL || !have_one_cause(verdicts->worst, verdict->worst)))
        verdicts++;
    return verdicts;
}

int verdicts_of(const struct findings *findings, struct requirement_verdict out[REQUIREMENT_MAX])
{
    const struct requirement *requirement;
    int count = 0;
    for (; (requirement = requirement_at(count)); count++)
        out[count] = verdict_of(findings, requirement);
    return count;
}

struct case_share case_share_of(const struct findings *findings)
{
    struct case_share share = {0};
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (finding->aspect != ASPECT_ANSWER || !finding->c || strchr(finding->c->name, '~'))
            continue;
        share.all++;
        share.unclaimed += finding->absence == ABSENT_UNCLAIMED;
        share.declined += finding->absence == ABSENT_DECLINED;
    }
    return share;
}

static bool has_must(const struct requirement_verdict verdicts[], int count)
{
    for (int i = 0; i < count; i++)
        if (verdicts[i].requirement->must)
            return true;
    return false;
}

enum run_verdict run_verdict_of(const struct requirement_verdict verdicts[], int count, bool command_failed)
{
    bool finding_verdict = false, partly = false, must = has_must(verdicts, count);
    for (int i = 0; i < count; i++) {
        if (must && !verdicts[i].requirement->must)
            continue;
        if (verdicts[i].verdict >= VERDICT_FAIL)
            return RUN_FAILS;
        partly |= verdicts[i].verdict == VERDICT_UNSUPPORTED || verdicts[i].verdict == VERDICT_PARTLY;
        finding_verdict |= verdicts[i].verdict != VERDICT_UNSUPPORTED;
    }
    if (command_failed)
        return RUN_FAILS;
    if (!finding_verdict)
        return RUN_NOTHING;
    return partly ? RUN_CONFORMS_PARTLY : RUN_CONFORMS;
}

static const struct {
    const char *name, *text;
    int exit_status;
} run_verdicts[] = {
    [RUN_CONFORMS] = {"CONFORMS", "every MUST is fulfilled", 0},
    [RUN_CONFORMS_PARTLY] = {"CONFORMS-PARTLY", "what was judged is right", 0},
    [RUN_FAILS] = {"FAILS", "a MUST is not fulfilled, or the command failed", 1},
    [RUN_NOTHING] = {"NOTHING-JUDGED", "no MUST could be judged", 77},
};

const char *run_verdict_name(enum run_verdict verdict)
{
    return run_verdicts[verdict].name;
}

const char *run_verdict_text(enum run_verdict verdict)
{
    return run_verdicts[verdict].text;
}

int run_verdict_exit_status(enum run_verdict verdict, bool strict)
{
    if (strict)
        return verdict == RUN_CONFORMS ? 0 : 1;
    return run_verdicts[verdict].exit_status;
}
