// SPDX-License-Identifier: Apache-2.0
#include "results/record/record.h"

#include <math.h>
#include <string.h>

static bool has_verdict(const json_t *finding, const char *verdict)
{
    const char *text = json_string_value(json_object_get(finding, "verdict"));
    return text && strcmp(text, verdict) == 0;
}

static bool any(const json_t *findings, const char *verdict)
{
    size_t i;
    const json_t *finding;
    json_array_foreach (findings, i, finding)
        if (has_verdict(finding, verdict))
            return true;
    return false;
}

static const char *verdict_of(const json_t *findings, bool interrupted)
{
    if (interrupted)
        return "INCOMPLETE";
    if (json_array_size(findings) == 0)
        return NULL;
    return any(findings, "INVALID") ? "INVALID" : any(findings, "INCOMPLETE") ? "INCOMPLETE" : "VALID";
}

const char *conclusion_of(const json_t *findings, bool interrupted, json_t **reasons)
{
    const char *verdict = verdict_of(findings, interrupted);
    size_t i;
    const json_t *finding;
    *reasons = json_array();
    json_array_foreach (findings, i, finding) {
        bool decides = verdict && strcmp(verdict, "VALID") != 0 && has_verdict(finding, verdict);
        if (decides && json_array_size(*reasons) < CONCLUSION_REASON_MAX)
            json_array_append(*reasons, json_object_get(finding, "text"));
    }
    return verdict;
}

json_t *conclusion_end(const json_t *findings, bool interrupted, double elapsed_s, double other_load)
{
    json_t *reasons;
    const char *verdict = conclusion_of(findings, interrupted, &reasons);
    return json_pack("{s:s, s:s, s:o, s:o, s:f, s:o}", "record", "end", "status",
                     interrupted ? "interrupted" : "complete", "verdict", verdict ? json_string(verdict) : json_null(),
                     "reasons", reasons, "elapsed_s", elapsed_s, "other_load",
                     isfinite(other_load) ? json_real(other_load) : json_null());
}
