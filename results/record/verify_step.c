// SPDX-License-Identifier: Apache-2.0
// Recomputes the tokens/s of `step` records and the efficiency that ZeRO-Infinity's model predicts for them, and the
// share of a square product in `step_flops` records, from their own figures.
#include "results/record/verify_internal.h"

#include <math.h>
#include <string.h>

static void expect(struct verify *v, size_t line, const char *key, double written, double expected)
{
    if (!verify_same(written, expected))
        verify_refuse(v, line, key, "is %.9g, expected %.9g", written, expected);
}

// Verifies the efficiency that moving one kind of state allows; adds its cost to *lost.
static void verify_state(struct verify *v, size_t line, const char *name, const json_t *state, const json_t *model,
                         double *lost)
{
    char key[128];
    double flops = verify_number(model, "flops_a_rank"), peak = verify_number(model, "peak_flops_per_s");
    double bytes = verify_number(state, "bytes"), efficiency = verify_number(state, "efficiency");
    double speed = flops / bytes * verify_number(state, "bytes_per_s");
    snprintf(key, sizeof key, "detail.efficiency.%s.flops_per_byte", name);
    expect(v, line, key, verify_number(state, "flops_per_byte"), flops / bytes);
    snprintf(key, sizeof key, "detail.efficiency.%s.efficiency", name);
    expect(v, line, key, efficiency, speed / (speed + peak));
    *lost += 1 / efficiency - 1;
}

static void verify_model(struct verify *v, size_t line, const json_t *record, const json_t *model)
{
    static const char *const states[] = {"params_and_gradients", "optimizer_states", "activations"};
    double predicted = verify_number(model, "predicted"), measured = verify_number(model, "measured"), lost = 0;
    double difference = verify_number(model, "difference");
    double step_s = verify_number(record, "median") * 1e-3;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (json_object_get(model, states[i]))
            verify_state(v, line, states[i], json_object_get(model, states[i]), model, &lost);
    expect(v, line, "detail.efficiency.predicted", predicted, 1 / (1 + lost));
    expect(v, line, "detail.efficiency.measured", measured,
           verify_number(model, "flops_a_rank") / verify_number(model, "peak_flops_per_s") / step_s);
    // The tolerance of both figures, not of their small difference.
    if (!(fabs(difference - (measured - predicted)) <= 2e-5 * (measured + predicted)))
        verify_refuse(v, line, "detail.efficiency.difference", "is %.9g, expected %.9g", difference,
                      measured - predicted);
}

static void verify_efficiency(struct verify *v)
{
    for (size_t i = 0; i < v->bench_count; i++) {
        size_t line = v->benches[i];
        const json_t *record = verify_record(v, line), *of_case = json_object_get(record, "case");
        const json_t *detail = json_object_get(record, "detail");
        const json_t *model = json_object_get(detail, "efficiency"), *rate = json_object_get(detail, "tokens_per_s");
        if (strcmp(verify_text(record, "name"), "step") != 0 || strcmp(verify_text(record, "unit"), "ms_per_step") != 0)
            continue;
        double tokens = verify_number(of_case, "world") * verify_number(of_case, "sequences_a_rank") *
                        verify_number(of_case, "sequence_tokens");
        if (rate)
            expect(v, line, "detail.tokens_per_s", json_number_value(rate),
                   tokens / (verify_number(record, "median") * 1e-3));
        if (json_is_object(model))
            verify_model(v, line, record, model);
    }
}

static void verify_flops(struct verify *v)
{
    static const struct {
        const char *path, *key, *of;
    } shares[] = {{"detail.share_of_square", "share_of_square", "square_gflops"},
                  {"detail.share_of_registers", "share_of_registers", "registers_gflops"}};
    for (size_t i = 0; i < v->bench_count; i++) {
        const json_t *record = verify_record(v, v->benches[i]), *detail = json_object_get(record, "detail");
        if (strcmp(verify_text(record, "name"), "step_flops") != 0)
            continue;
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++)
            if (json_object_get(detail, shares[s].key))
                expect(v, v->benches[i], shares[s].path, verify_number(detail, shares[s].key),
                       verify_number(record, "median") / verify_number(detail, shares[s].of));
    }
}

void verify_steps(struct verify *v)
{
    verify_efficiency(v);
    verify_flops(v);
}

void verify_timeline(struct verify *v, size_t line, const json_t *record)
{
    size_t i;
    const json_t *interval;
    double elapsed_ms = verify_number(record, "elapsed_s") * 1e3;
    json_array_foreach (json_object_get(record, "timeline"), i, interval) {
        double begin_ms = verify_number(interval, "begin_ms"), end_ms = verify_number(interval, "end_ms");
        if (end_ms < begin_ms || !verify_within(end_ms, elapsed_ms))
            verify_refuse(v, line, "timeline", "has an interval from %.9g to %.9g ms, expected it within %.9g ms",
                          begin_ms, end_ms, elapsed_ms);
    }
}
