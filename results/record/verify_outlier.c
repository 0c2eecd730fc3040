// SPDX-License-Identifier: Apache-2.0
// Verifies outliers: the findings about ranks must be exactly those that follow from their samples.
#include "results/record/verify_internal.h"

#include "base/err.h"
#include "results/limits/outlier.h"

#include <stdlib.h>
#include <string.h>

static void verify_finding_of(struct verify *v, const struct bench_finding *finding)
{
    const json_t *recorded = verify_finding(v, "outlier", finding->id, finding->line);
    if (!recorded)
        return;
    const char *said = verify_text(recorded, "verdict"), *expected = finding_verdict_name(finding->verdict);
    if (strcmp(said, expected) != 0)
        verify_refuse(v, finding->line, "median", "is called %s by the finding %s, expected %s among its peers", said,
                      finding->id, expected);
    if (!verify_same(verify_number(recorded, "value"), finding->value))
        verify_refuse(v, finding->line, "median", "is %.9g times that of its peers, but %.9g in the finding %s",
                      finding->value, verify_number(recorded, "value"), finding->id);
}

static size_t outlier_finding_count(const struct verify *v)
{
    size_t count = 0;
    for (size_t i = 0; i < v->finding_count; i++)
        count += strcmp(verify_text(verify_record(v, v->findings[i]), "kind"), "outlier") == 0;
    return count;
}

static void compare(struct verify *v, const struct bench_findings *findings)
{
    size_t said = outlier_finding_count(v);
    // A run that judges nothing, or was interrupted, may have none.
    bool finding_verdict =
        v->file->end && strcmp(verify_text(v->file->end, "status"), "complete") == 0 && verify_judges(v);
    if (said == 0 && !finding_verdict)
        return;
    for (size_t i = 0; i < findings->count; i++)
        verify_finding_of(v, &findings->list[i]);
    if (said != findings->count)
        verify_refuse(v, v->file->line_count, "kind", "%zu findings are about outliers, expected %zu from the ranks",
                      said, findings->count);
}

int verify_outliers(struct verify *v)
{
    struct result_line *lines = calloc(v->bench_count + 1, sizeof *lines);
    struct bench_findings findings = {0};
    size_t count = 0;
    if (!lines)
        return err_set(ERR_MEMORY, "no memory to verify %s", v->file->path);
    for (size_t i = 0; i < v->bench_count; i++)
        if (outlier_has_peers(verify_record(v, v->benches[i])))
            lines[count++] = (struct result_line){v->benches[i], v->file->lines[v->benches[i] - 1]};
    int rc = ERR_NONE;
    if (count > VERIFY_RANK_MAX)
        verify_refuse(v, lines[VERIFY_RANK_MAX].line, "name", "exceeds the limit of %d results of ranks or hosts",
                      VERIFY_RANK_MAX);
    else if ((rc = outliers_find(lines, count, &findings)) == ERR_NONE)
        compare(v, &findings);
    bench_findings_free(&findings);
    free(lines);
    return rc;
}
