// SPDX-License-Identifier: Apache-2.0
// What a run's results come to: each judgement is a finding in the file.
#include "validate/validate_internal.h"

#include "base/err.h"
#include "results/limits/outlier.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int validation_judge(struct validation *v, const struct judgement *judgement)
{
    TRY(record_append(v->writer, judgement_json(judgement)));
    return judgements_add(&v->result->judgements, judgement);
}

static int judge_arithmetic(struct validation *v)
{
    const struct result_line *conformance = &v->result->conformance;
    if (!conformance->record)
        return ERR_NONE;
    const char *verdict = json_string_value(json_object_get(conformance->record, "verdict"));
    bool conforms = strcmp(verdict, "CONFORMS") == 0, fails = strcmp(verdict, "FAILS") == 0;
    struct judgement judgement = {
        .kind = "arithmetic",
        .verdict = conforms ? JUDGED_VALID : fails ? JUDGED_INVALID : JUDGED_INCOMPLETE,
        .id = "arithmetic",
        .line = conformance->line,
        .value = NAN,
    };
    snprintf(judgement.text, sizeof judgement.text, "arithmetic: the conformance suite says %s%s", verdict,
             conforms ? "" : "; arithmetic.out says which requirements");
    return validation_judge(v, &judgement);
}

// Whether the band is for this run: not for the other level, nor for what this machine does not have.
static bool band_is_for(const struct validation *v, const struct band *band)
{
    const struct validate_plan *plan = v->setting->plan;
    if (band->full_only && strcmp(v->setting->level, "quick") == 0)
        return false;
    for (size_t i = 0; i < plan->count; i++)
        if (v->result->states[i] == PART_ABSENT && bench_is_of(plan->parts[i].bench, band->bench))
            return false;
    return true;
}

static int judge_unmet(struct validation *v, const struct band *band)
{
    struct judgement judgement = {.kind = "band", .verdict = JUDGED_INCOMPLETE, .value = NAN};
    snprintf(judgement.id, sizeof judgement.id, "%s", band->id);
    snprintf(judgement.text, sizeof judgement.text, "%s: no result of %s is one that this band is for", band->id,
             band->bench);
    return validation_judge(v, &judgement);
}

static int judge_band(struct validation *v, const struct band *band)
{
    bool applied = false;
    for (size_t i = 0; i < v->result->line_count; i++) {
        const struct result_line *line = &v->result->lines[i];
        struct judgement judgement;
        if (!band_applies(band, line->record))
            continue;
        applied = true;
        band_judge(band, line->record, line->line, &judgement);
        TRY(validation_judge(v, &judgement));
    }
    return applied ? ERR_NONE : judge_unmet(v, band);
}

static int judge_bands(struct validation *v)
{
    const struct bands *bands = v->setting->bands;
    for (size_t i = 0; i < bands->count; i++)
        if (band_is_for(v, &bands->list[i]))
            TRY(record_append(v->writer, band_json(&bands->list[i])));
    for (size_t i = 0; i < bands->count; i++)
        if (band_is_for(v, &bands->list[i]))
            TRY(judge_band(v, &bands->list[i]));
    return ERR_NONE;
}

static int judge_outliers(struct validation *v)
{
    struct judgements outliers = {0};
    int rc = outliers_find(v->result->lines, v->result->line_count, &outliers);
    for (size_t i = 0; i < outliers.count && rc == ERR_NONE; i++)
        rc = validation_judge(v, &outliers.list[i]);
    judgements_free(&outliers);
    return rc;
}

// Another machine's proportions say nothing of this one.
static int judge_emulation(struct validation *v)
{
    struct judgement judgement = {.kind = "part", .verdict = JUDGED_INCOMPLETE, .id = "emulate", .value = NAN};
    if (!v->setting->emulate)
        return ERR_NONE;
    snprintf(judgement.text, sizeof judgement.text,
             "emulate: lanes are EMULATED, %.200s: not what this machine does", v->setting->emulate);
    return validation_judge(v, &judgement);
}

int validation_judge_all(struct validation *v)
{
    TRY(judge_emulation(v));
    TRY(judge_arithmetic(v));
    TRY(judge_bands(v));
    return judge_outliers(v);
}
