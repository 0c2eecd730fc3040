// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/verdict.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICT_COUNT] = {
        [VERDICT_UNSUPPORTED] = "UNSUPPORTED", [VERDICT_PASS] = "PASS", [VERDICT_EQUIVALENT] = "EQUIVALENT",
        [VERDICT_BOUNDED] = "BOUNDED",         [VERDICT_FAIL] = "FAIL", [VERDICT_BROKEN] = "BROKEN",
    };
    assert(verdict >= 0 && verdict < VERDICT_COUNT);
    return names[verdict];
}

int findings_add(struct findings *findings, const struct finding *finding)
{
    if (findings->count == findings->room) {
        size_t room = findings->room ? 2 * findings->room : 256;
        struct finding *list = reallocarray(findings->list, room, sizeof *list);
        if (!list)
            return err_set(ERR_MEMORY, "no memory for %zu findings", room);
        findings->list = list;
        findings->room = room;
    }
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
    return (requirement->aspects >> finding->aspect & 1u) &&
           (!finding->c || requirement_covers(requirement, finding->c->name));
}

struct requirement_verdict verdict_of(const struct findings *findings, const struct requirement *requirement)
{
    struct requirement_verdict out = {.requirement = requirement, .verdict = VERDICT_UNSUPPORTED};
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (!finding_serves(finding, requirement))
            continue;
        out.counts[finding->verdict]++;
        if (!out.worst || finding->verdict > out.worst->verdict)
            out.worst = finding;
    }
    if (out.worst)
        out.verdict = out.worst->verdict;
    return out;
}

int verdicts_of(const struct findings *findings, struct requirement_verdict out[REQUIREMENT_MAX])
{
    const struct requirement *requirement;
    int count = 0;
    for (; (requirement = requirement_at(count)); count++)
        out[count] = verdict_of(findings, requirement);
    return count;
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
    bool finding_verdict = false, unsupported = false, must = has_must(verdicts, count);
    for (int i = 0; i < count; i++) {
        if (must && !verdicts[i].requirement->must)
            continue;
        if (verdicts[i].verdict >= VERDICT_FAIL)
            return RUN_FAILS;
        if (verdicts[i].verdict == VERDICT_UNSUPPORTED)
            unsupported = true;
        else
            finding_verdict = true;
    }
    if (command_failed)
        return RUN_FAILS;
    if (!finding_verdict)
        return RUN_NOTHING;
    return unsupported ? RUN_CONFORMS_PARTLY : RUN_CONFORMS;
}

static const struct {
    const char *name, *text;
    int exit_status;
} run_verdicts[] = {
    [RUN_CONFORMS] = {"CONFORMS", "every MUST is fulfilled", 0},
    [RUN_CONFORMS_PARTLY] = {"CONFORMS-PARTLY", "every supported MUST is fulfilled; some are unsupported", 0},
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

int run_verdict_exit_status(enum run_verdict verdict)
{
    return run_verdicts[verdict].exit_status;
}
