// SPDX-License-Identifier: Apache-2.0
#include "results/limits/bench_finding.h"

#include "base/array.h"
#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

const char *finding_verdict_name(enum finding_verdict verdict)
{
    static const char *const names[] = {
        [FINDING_VALID] = "VALID", [FINDING_INCOMPLETE] = "INCOMPLETE", [FINDING_INVALID] = "INVALID"};
    return names[verdict];
}

int bench_findings_add(struct bench_findings *findings, const struct bench_finding *finding)
{
    assert(finding->kind && *finding->id && *finding->text);
    TRY(array_grow(&findings->list, &findings->room, findings->count, sizeof *findings->list, "findings"));
    findings->list[findings->count++] = *finding;
    return ERR_NONE;
}

void bench_findings_free(struct bench_findings *findings)
{
    free(findings->list);
    *findings = (struct bench_findings){0};
}

enum finding_verdict bench_findings_verdict(const struct bench_findings *findings)
{
    enum finding_verdict verdict = FINDING_VALID;
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].verdict > verdict)
            verdict = findings->list[i].verdict;
    return verdict;
}

json_t *bench_finding_json(const struct bench_finding *finding)
{
    json_t *line = finding->line > 0 ? json_integer((json_int_t)finding->line) : json_null();
    json_t *value = isfinite(finding->value) ? json_real(finding->value) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "record", "finding", "kind", finding->kind, "verdict",
                     finding_verdict_name(finding->verdict), "id", finding->id, "line", line, "value", value, "text",
                     finding->text);
}

json_t *bench_findings_json(const struct bench_findings *findings)
{
    json_t *array = json_array();
    for (size_t i = 0; i < findings->count; i++)
        if (json_array_append_new(array, bench_finding_json(&findings->list[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}
