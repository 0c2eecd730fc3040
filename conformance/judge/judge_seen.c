// SPDX-License-Identifier: Apache-2.0
// Judges the parameters that forward used: on every rank, in every micro-step, they must be the answer's own master
// parameters after the step before, rounded to the model's dtype, or where a case gathers in E4M3 as they arrive.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Fewer values that equal another element's may do so by chance.
enum { TELLING_COUNT = 8 };

// The search for the first element that differs, and what its wrong values could be instead.
struct sight {
    struct trial *trial;
    struct unsharded_state older;  // the state one step earlier than before
    bool has_older;
    float *seen;
    uint64_t differing, compared;  // elements of the step in which the first difference is
    // Differing ones that are the older value; the value after this step; one 16-bit step away; another element's.
    // And those that are the same as the differing one before: what is everywhere has not moved.
    uint64_t older_count, newer_count, neighbour_count, moved_count, repeated_count;
    // Of a gather in E4M3: not quantized, whichever the dtype; of the right sign, so that a scale may explain it, or
    // NaN; and quantized with the scale of the step before.
    uint64_t plain_count, scaled_count, older_scale_count;
    float amax, older_amax, newer_amax;  // of the parameter that is looked at, in each state
    bool has_partial_rank;               // some rank saw right values and wrong ones
    float last;
    float *sorted;  // all values that forward should use in this step
    size_t sorted_count;
    struct finding *finding;
};

static int bits_of(enum dtype precision, float x, uint64_t *out)
{
    if (precision == DTYPE_FP32) {
        *out = f32_bits(x);
        return 32;
    }
    *out = precision == DTYPE_BF16 ? f32_to_bf16(x).bits : f32_to_fp16(x).bits;
    return 16;
}

static int compare_values(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float amax_of(const struct check_case *c, int owner, const float *x)
{
    return x && c->gathers_e4m3 ? unsharded_amax(x, c->params[owner].count) : 0;
}

// A parameter as forward should see it.
static float arrived(const struct check_case *c, float x, float amax)
{
    return c->gathers_e4m3 ? unsharded_e4m3(x, amax) : unsharded_round(c->precision, x);
}

static void sort_expected(struct sight *sight)
{
    const struct trial *trial = sight->trial;
    sight->sorted_count = 0;
    for (int param = 0; param < trial->c->param_count; param++) {
        const float *x = trial->before.param[param];
        float amax = case_owner(trial->c, param) == param ? amax_of(trial->c, param, x) : 0;
        for (size_t i = 0; case_owner(trial->c, param) == param && i < trial->c->params[param].count; i++)
            sight->sorted[sight->sorted_count++] = arrived(trial->c, x[i], amax);
    }
    qsort(sight->sorted, sight->sorted_count, sizeof *sight->sorted, compare_values);
}

// A value of a gather in E4M3 that is not `master` quantized with the scale of its tensor.
static void note_e4m3(struct sight *sight, float master, float actual)
{
    bool is_plain = value_same(master, actual) || value_same(unsharded_round(DTYPE_BF16, master), actual) ||
                    value_same(unsharded_round(DTYPE_FP16, master), actual);
    sight->plain_count += is_plain;
    sight->scaled_count += isnan(actual) || actual * master > 0;
    sight->older_scale_count += sight->has_older && value_same(unsharded_e4m3(master, sight->older_amax), actual);
}

static void note(struct sight *sight, int step, int rank, int micro, int param, size_t i, float expected, float actual)
{
    struct trial *trial = sight->trial;
    enum dtype precision = trial->c->precision;
    uint64_t expected_bits, actual_bits;
    int bits = bits_of(precision, expected, &expected_bits);
    bits_of(precision, actual, &actual_bits);
    sight->differing++;
    int owner = case_owner(trial->c, param);
    const float *older = sight->has_older ? sight->older.param[owner] : NULL, *newer = trial->after.param[owner];
    sight->older_count += older && value_same(arrived(trial->c, older[i], sight->older_amax), actual);
    sight->newer_count += value_same(arrived(trial->c, newer[i], sight->newer_amax), actual);
    if (trial->c->gathers_e4m3)
        note_e4m3(sight, trial->before.param[owner][i], actual);
    sight->neighbour_count += expected_bits - actual_bits + 1 <= 2;
    if (!sight->finding->has_difference)
        sort_expected(sight);
    sight->repeated_count += sight->differing > 1 && value_same(actual, sight->last);
    sight->last = actual;
    sight->moved_count += bsearch(&actual, sight->sorted, sight->sorted_count, sizeof actual, compare_values) != NULL;
    if (sight->finding->has_difference)
        return;
    sight->finding->has_difference = true;
    sight->finding->difference = (struct difference){
        .step = step,
        .rank = rank,
        .micro = micro,
        .param = param,
        .what = "seen",
        .element = i,
        .expected_bits = expected_bits,
        .actual_bits = actual_bits,
        .bits = bits,
        .roundings = NAN,
    };
}

// The part of a parameter that a rank holds.
static int look_at_part(struct sight *sight, int step, int rank, int micro, int param)
{
    struct trial *trial = sight->trial;
    const struct check_case *c = trial->answer->c;
    const float *master = trial->before.param[case_owner(c, param)];
    struct mesh mesh = case_mesh(c);
    int tensor_rank = mesh_index_in(&mesh, MESH_TENSOR, rank), owner = case_owner(c, param);
    sight->amax = amax_of(c, owner, master);
    sight->older_amax = amax_of(c, owner, sight->has_older ? sight->older.param[owner] : NULL);
    sight->newer_amax = amax_of(c, owner, trial->after.param[owner]);
    TRY(answer_read_seen(trial->answer, step, rank, micro, param, sight->seen));
    for (size_t i = 0; i < case_part_count(c, param); i++) {
        size_t element = case_whole_element(c, tensor_rank, param, i);
        float expected = arrived(c, master[element], sight->amax);
        if (!value_same(expected, sight->seen[i]))
            note(sight, step, rank, micro, param, element, expected, sight->seen[i]);
    }
    sight->compared += case_part_count(c, param);
    return ERR_NONE;
}

// A parameter that is not used is in no forward.
static int look_at_step(struct sight *sight, int step)
{
    const struct check_case *c = sight->trial->answer->c;
    sight->has_partial_rank = false;
    for (int rank = 0; rank < c->world; rank++) {
        uint64_t differing = sight->differing, compared = sight->compared;
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int param = 0; param < c->param_count; param++)
                if (case_is_seen_in(c, param, step, micro) && case_holds(c, rank, param))
                    TRY(look_at_part(sight, step, rank, micro, param));
        differing = sight->differing - differing;
        sight->has_partial_rank |= differing > 0 && differing * 10 < (sight->compared - compared) * 9;
    }
    return ERR_NONE;
}

// Nine of ten: some values coincide by chance.
static bool is_most(const struct sight *sight, uint64_t count)
{
    return count * 10 >= sight->differing * 9;
}

// True if what a checkpoint brought back is the likeliest reason: values are wrong from the first step, or after the
// first update all values of some ranks, whose moments nobody else shows.
static bool is_of_resume(const struct sight *sight)
{
    const struct check_case *c = sight->trial->c;
    int steps = sight->finding->difference.step - case_first_step(c);
    return c->phase == PHASE_RESUME && (steps == 0 || (steps == 1 && !sight->has_partial_rank));
}

// True if a wrong scale, or none, is the likeliest reason: older parameters have the same signs.
static bool is_of_e4m3(const struct sight *sight)
{
    bool has_older_scale = is_most(sight, sight->older_scale_count) && sight->older_scale_count > sight->older_count;
    return sight->trial->c->gathers_e4m3 &&
           (is_most(sight, sight->plain_count) || has_older_scale ||
            (is_most(sight, sight->scaled_count) && !is_most(sight, 2 * sight->older_count)));
}

static void conclude(struct sight *sight)
{
    struct finding *finding = sight->finding;
    finding->difference.differing_count = sight->differing;
    finding->difference.compared_count = sight->compared;
    finding->verdict = VERDICT_FAIL;
    if (sight->older_count > 0 && sight->older_count == sight->differing)
        finding->hint = HINT_STALE_COPY;
    else if (is_of_e4m3(sight))
        finding->hint = HINT_QUANTIZED;
    else if (sight->neighbour_count == sight->differing && finding->difference.bits == 16)
        finding->hint = HINT_ROUNDING;
    else if (sight->moved_count >= TELLING_COUNT && is_most(sight, sight->moved_count) &&
             sight->repeated_count * 2 < sight->differing)
        finding->hint = HINT_SHIFTED;
    else if (is_most(sight, 2 * sight->older_count))
        finding->hint = HINT_TORN_COPY;
    else if (is_of_resume(sight))
        finding->hint = HINT_RESUME;
    else if (is_most(sight, sight->newer_count))
        finding->hint = HINT_STALE_COPY;
    else
        finding->hint = HINT_FOREIGN_COPY;
    const char *what = !sight->trial->c->gathers_e4m3       ? "rounded to the precision"
                       : finding->hint != HINT_QUANTIZED    ? "quantized to E4M3 with the scale of the whole tensor"
                       : is_most(sight, sight->plain_count) ? "quantized to E4M3; they are not quantized"
                       : is_most(sight, sight->older_scale_count)
                           ? "quantized to E4M3 with their own scale; it is the scale of the step before"
                           : "quantized to E4M3 with the scale of all shards; it is another, as that of one shard";
    snprintf(finding->text, sizeof finding->text, "forward must use the parameters after the previous step, %s", what);
}

int judge_seen(struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    if (!trial->answer->has_seen) {
        out->verdict = VERDICT_UNSUPPORTED;
        snprintf(out->text, sizeof out->text,
                 "the answer has no files rank-R/step-K.safetensors, which report the parameters that forward used");
        return ERR_NONE;
    }
    struct sight sight = {.trial = trial, .finding = out};
    size_t largest = 1, all = 1;
    for (int i = 0; i < c->param_count; i++) {
        largest = c->params[i].count > largest ? c->params[i].count : largest;
        all += c->params[i].count;
    }
    sight.seen = malloc(largest * sizeof *sight.seen);
    sight.sorted = malloc(all * sizeof *sight.sorted);
    int rc = sight.seen && sight.sorted ? unsharded_state_open(c, &sight.older)
                                        : err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    out->verdict = VERDICT_PASS;
    for (int step = case_first_step(c); rc == ERR_NONE && step <= case_last_step(c); step++) {
        if (sight.has_older || step > case_first_step(c))
            unsharded_state_copy(c, &trial->before, &sight.older);
        sight.has_older = step > case_first_step(c);
        if ((rc = trial_step(trial, step)) == ERR_NONE)
            rc = look_at_step(&sight, step);
        if (out->has_difference) {
            conclude(&sight);
            break;
        }
        sight.compared = 0;
    }
    unsharded_state_close(&sight.older);
    free(sight.seen);
    free(sight.sorted);
    return rc;
}
