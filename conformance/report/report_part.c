// SPDX-License-Identifier: Apache-2.0
#include "conformance/report/report_part.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const enum verdict report_order[VERDICT_COUNT] = {VERDICT_PASS, VERDICT_EQUIVALENT, VERDICT_BOUNDED,    VERDICT_PARTLY,
                                                  VERDICT_FAIL, VERDICT_BROKEN,     VERDICT_UNSUPPORTED};

void report_counts(const struct requirement_verdict verdicts[], int count, size_t out[VERDICT_COUNT])
{
    memset(out, 0, VERDICT_COUNT * sizeof *out);
    for (int i = 0; i < count; i++)
        out[verdicts[i].verdict]++;
}

const char *counts_text(const size_t counts[VERDICT_COUNT], char out[COUNTS_TEXT_BYTES])
{
    int used = 0;
    out[0] = '\0';
    for (int i = 0; i < VERDICT_COUNT; i++) {
        size_t count = counts[report_order[i]];
        if (count > 0)
            used += sprintf(out + used, "%s%zu %s", used ? ", " : "", count, verdict_name(report_order[i]));
    }
    return out;
}

const char *extent_text(const struct run_facts *facts, char out[COUNTS_TEXT_BYTES])
{
    size_t count = facts->case_count - facts->repeat_count;
    char twice[64] = "";
    if (facts->repeat_count > 0)
        snprintf(twice, sizeof twice, ", %zu of them asked twice,", facts->repeat_count);
    snprintf(out, COUNTS_TEXT_BYTES, "%zu case%s%s in %zu launch%s, %.1f s", count, count == 1 ? "" : "s", twice,
             facts->launch_count, facts->launch_count == 1 ? "" : "es", facts->seconds);
    return out;
}

const char *unsupported_text(const struct requirement_verdict *verdict)
{
    if (!verdict->worst)
        return "no case of this run";
    return verdict->worst->text[0] ? verdict->worst->text : "not supported";
}

const char *finding_location(const struct finding *finding, char out[FINDING_LOCATION_BYTES])
{
    const char *aspect = aspect_name(finding->aspect);
    if (finding->c)
        snprintf(out, FINDING_LOCATION_BYTES, "case %s, %s", finding->c->name, aspect);
    else
        snprintf(out, FINDING_LOCATION_BYTES, "all cases, %s", aspect);
    return out;
}

const char *difference_location(const struct finding *finding, char out[DIFFERENCE_TEXT_BYTES])
{
    const struct difference *d = &finding->difference;
    char rank[32] = "", micro[32] = "", element[CASE_NAME_BYTES + 64] = "";
    if (d->rank >= 0)
        snprintf(rank, sizeof rank, ", rank %d", d->rank);
    if (d->micro >= 0)
        snprintf(micro, sizeof micro, ", micro-step %d", d->micro);
    if (d->param >= 0 && finding->c && d->param < finding->c->param_count)
        snprintf(element, sizeof element, " of %s, element %zu", finding->c->params[d->param].name, d->element);
    snprintf(out, DIFFERENCE_TEXT_BYTES, "step %d%s%s, %s%s", d->step, rank, micro, d->what ? d->what : "", element);
    return out;
}

const char *bits_text(int bits, uint64_t pattern, char out[BITS_TEXT_BYTES])
{
    snprintf(out, BITS_TEXT_BYTES, "0x%0*" PRIx64, bits / 4, pattern);
    return out;
}

static bool is_integer(const struct difference *d)
{
    return d->bits == 64 && !(d->what && (strcmp(d->what, "norm") == 0 || strcmp(d->what, "loss_scale") == 0));
}

double difference_number(const struct finding *finding, uint64_t pattern)
{
    const struct difference *d = &finding->difference;
    if (is_integer(d))
        return (double)pattern;
    if (d->bits == 64) {
        double value;
        memcpy(&value, &pattern, sizeof value);
        return value;
    }
    if (d->bits == 32)
        return f32_of_bits((uint32_t)pattern);
    if (finding->c && finding->c->precision == DTYPE_FP16)
        return fp16_to_f32((struct fp16){(uint16_t)pattern});
    return bf16_to_f32((struct bf16){(uint16_t)pattern});
}

// "0x3f800000 (1)": as many digits as tell neighbours apart.
static const char *value_text(const struct finding *finding, uint64_t pattern, char out[64])
{
    const struct difference *d = &finding->difference;
    char bits[BITS_TEXT_BYTES];
    bits_text(d->bits, pattern, bits);
    if (is_integer(d))
        snprintf(out, 64, "%s (%" PRIu64 ")", bits, pattern);
    else
        snprintf(out, 64, "%s (%.*g)", bits,
                 d->bits == 64   ? 17
                 : d->bits == 32 ? 9
                                 : 5,
                 difference_number(finding, pattern));
    return out;
}

const char *difference_values(const struct finding *finding, char out[DIFFERENCE_TEXT_BYTES])
{
    const struct difference *d = &finding->difference;
    char expected[64], actual[64], roundings[64] = "";
    if (!isnan(d->roundings))
        snprintf(roundings, sizeof roundings, ", %.4g rounding%s apart", d->roundings, d->roundings == 1 ? "" : "s");
    int used =
        snprintf(out, DIFFERENCE_TEXT_BYTES, "expected %s, got %s%s", value_text(finding, d->expected_bits, expected),
                 value_text(finding, d->actual_bits, actual), roundings);
    if (d->compared_count > 1)
        snprintf(out + used, (size_t)(DIFFERENCE_TEXT_BYTES - used),
                 "; %" PRIu64 " of %" PRIu64 " elements differ in this step", d->differing_count, d->compared_count);
    return out;
}

const char *repeat_text(const struct run_facts *facts, const struct finding *finding, char out[REPEAT_TEXT_BYTES])
{
    int used = snprintf(out, REPEAT_TEXT_BYTES, "zerogauge check --level %.32s ", facts->level);
    size_t room = (size_t)(REPEAT_TEXT_BYTES - used);
    const char *name = finding->c ? finding->c->name : "";
    int length = (int)strcspn(name, "~");
    if (!finding->c || finding->aspect == ASPECT_REPEAT || finding->aspect == ASPECT_RULE) {
        snprintf(out + used, room, "%.400s%s", facts->part ? facts->part : "", facts->part ? " " : "");
    } else if (finding->aspect == ASPECT_SAME || finding->aspect == ASPECT_STAGES || finding->aspect == ASPECT_WORLDS) {
        snprintf(out + used, room, "--case '%.*s.*' ", (int)strcspn(name, ".~"), name);
    } else {
        // Both halves of a resuming case are asked for by the name before the last dot.
        const char *dot = finding->c->phase != PHASE_WHOLE ? memrchr(name, '.', (size_t)length) : NULL;
        length = dot ? (int)(dot - name) : length;
        snprintf(out + used, room, "--case %.*s ", length, name);
    }
    return out;
}

enum { SHARE_TEXT_BYTES = 160 };

// "12 of 40 cases were answered, 20 are not claimed, 8 were declined"; "" if all were answered. Returns out.
static const char *share_text(const struct findings *findings, char out[SHARE_TEXT_BYTES])
{
    struct case_share share = case_share_of(findings);
    size_t answered = share.all - share.unclaimed - share.declined;
    out[0] = '\0';
    if (answered == share.all)
        return out;
    int used = snprintf(out, SHARE_TEXT_BYTES, "%zu of %zu cases were answered", answered, share.all);
    if (share.unclaimed > 0)
        used += snprintf(out + used, SHARE_TEXT_BYTES - (size_t)used, ", %zu are not claimed", share.unclaimed);
    if (share.declined > 0)
        snprintf(out + used, SHARE_TEXT_BYTES - (size_t)used, ", %zu were declined", share.declined);
    return out;
}

// True if memory was observed and does not show it; where it was not, if sharded cases were asked what ranks held, sent
// or computed with, and no answer says it.
static bool lacks_evidence(const struct run_facts *facts, const struct findings *findings)
{
    bool asked = false;
    if (observations_measured(&facts->observations))
        return observations_lack(&facts->observations);
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        bool shows =
            finding->aspect == ASPECT_SEEN || finding->aspect == ASPECT_MEMORY || finding->aspect == ASPECT_TRAFFIC;
        if (!shows || !finding->c || !need_has(NEED_SHARDING, finding->c))
            continue;
        if (finding->verdict != VERDICT_UNSUPPORTED)
            return false;
        asked = true;
    }
    return asked;
}

const char *run_text(const struct run_facts *facts, const struct findings *findings, enum run_verdict verdict,
                     char out[RUN_TEXT_BYTES])
{
    char share[SHARE_TEXT_BYTES];
    int used = !facts->part     ? snprintf(out, RUN_TEXT_BYTES / 2, "%s", run_verdict_text(verdict))
               : facts->part[0] ? snprintf(out, RUN_TEXT_BYTES / 2, "only a part of the suite was run: %s", facts->part)
                                : snprintf(out, RUN_TEXT_BYTES / 2, "only a folder's own cases were run");
    used = used < RUN_TEXT_BYTES / 2 ? used : RUN_TEXT_BYTES / 2 - 1;
    snprintf(out + used, RUN_TEXT_BYTES - (size_t)used, "%s%s%s", share_text(findings, share)[0] ? "; " : "", share,
             lacks_evidence(facts, findings) ? "; no evidence that states are sharded" : "");
    return out;
}

int cause_count(const struct requirement_verdict verdicts[], int count, const struct requirement_verdict *first)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += verdicts[i].verdict >= VERDICT_FAIL && verdict_first_of_cause(verdicts, &verdicts[i]) == first;
    return found;
}

static bool is_by_rule(const struct finding *finding, const struct requirement *requirement)
{
    return finding->verdict == VERDICT_EQUIVALENT && finding->text[0] && finding_serves(finding, requirement);
}

const char *next_rule(const struct findings *findings, const struct requirement *requirement, size_t *at)
{
    while (*at < findings->count) {
        const struct finding *finding = &findings->list[(*at)++];
        bool known = !is_by_rule(finding, requirement);
        for (const struct finding *earlier = findings->list; !known && earlier < finding; earlier++)
            known = is_by_rule(earlier, requirement) && strcmp(earlier->text, finding->text) == 0;
        if (!known)
            return finding->text;
    }
    return NULL;
}

const char *refusal_text(const struct findings *findings, const struct requirement *requirement)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (finding->aspect == ASPECT_REFUSAL && finding->verdict == VERDICT_PASS &&
            finding_serves(finding, requirement))
            return finding->text;
    }
    return NULL;
}
