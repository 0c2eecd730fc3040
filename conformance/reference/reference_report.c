// SPDX-License-Identifier: Apache-2.0
// A run's answer: states as they are after every step, whole, and what forward saw.
//
// With the delayed update the reference updates its master parameters with a step's gradient during the next
// step, and publishes them to the model a step later; the contract's state is the published one, and so is what it
// says of moments and t. From step `delayed_update` on, the state after step K is therefore the reference's own after
// step K - 1: both have applied the gradients of the same steps, in the same order, with the same learning rates, and
// both leave out that of step K. An overflow in step K leaves the reference's state as it is, and so the state of step
// K + 1 here: its own gradient alone is dropped.
#include "conformance/reference/reference.h"

#include "conformance/contract/answer.h"
#include "base/err.h"
#include "conformance/reference/scripted_model.h"
#include "ref/stage/stage_shard.h"
#include "ref/train/train.h"

#include <stdlib.h>
#include <string.h>

struct reference_report {
    const struct check_case *c;
    const struct scripted *scripted;
    const char *folder;
    int before_steps;
    struct comm *comm;
    struct answer_step now, before;  // of rank 0, after this step and the one before
    struct answer_usage usage[CASE_WORLD_MAX];
};

static int state_open(const struct check_case *c, struct answer_step *state)
{
    for (int i = 0; i < c->param_count; i++) {
        size_t n = c->params[i].count + 1;
        if (case_owner(c, i) != i)
            continue;
        if (!(state->param[i] = calloc(n, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory for the state of %s", c->params[i].name);
        if (!case_is_trained(c, i))
            continue;
        state->exp_avg[i] = calloc(n, sizeof(float));
        state->exp_avg_sq[i] = calloc(n, sizeof(float));
        state->grad[i] = calloc(n, sizeof(float));
        if (!state->exp_avg[i] || !state->exp_avg_sq[i] || !state->grad[i])
            return err_set(ERR_MEMORY, "no memory for the state of %s", c->params[i].name);
    }
    return ERR_NONE;
}

static void state_close(struct answer_step *state)
{
    for (int i = 0; i < CASE_PARAM_MAX; i++) {
        free(state->param[i]);
        free(state->exp_avg[i]);
        free(state->exp_avg_sq[i]);
        free(state->grad[i]);
    }
}

// The parameters of a full bucket, each to its place in a state.
static void take(const struct reference_report *report, const struct layout *layout, int bucket, const float *full,
                 float *const to[])
{
    for (int i = 0; i < report->c->param_count; i++) {
        int param = scripted_param(report->scripted, i);
        if (to[i] && layout->bucket_of[param] == bucket)
            memcpy(to[i], full + layout->offset_of[param], report->c->params[i].count * sizeof *full);
    }
}

static bool is_late(const struct check_case *c, int step)
{
    return c->delayed_update > 0 && step >= c->delayed_update;
}

// True if the stage still holds the gradient of the last step, and the divisor of its mean.
static bool gives_gradient(const struct reference_report *report, const struct train_moment *moment)
{
    return moment->applied && !is_late(report->c, (int)moment->step + report->before_steps);
}

// Collective: all ranks' shards of everything, whole, on rank 0.
static int collect(struct reference_report *report, const struct train_moment *moment, float *full, float *model_params)
{
    struct stage *stage = moment->stage;
    const struct layout *layout = &stage->layout;
    struct answer_step *now = &report->now;
    float *const *const states[] = {now->param, now->exp_avg, now->exp_avg_sq};
    for (int bucket = 0; bucket < layout->bucket_count; bucket++) {
        if (layout->buckets[bucket].frozen) {
            TRY(stage_collect_model_params(stage, bucket, model_params));
            dtype_widen(report->c->precision, model_params, full, layout->buckets[bucket].count);
            if (moment->rank == 0)
                take(report, layout, bucket, full, now->param);
            continue;
        }
        for (int state = 0; state < STATE_COUNT; state++) {
            TRY(stage_collect(stage, bucket, (enum state)state, full));
            if (moment->rank == 0)
                take(report, layout, bucket, full, states[state]);
        }
        if (!gives_gradient(report, moment))
            continue;
        TRY(stage_collect_gradient(stage, bucket, model_params));
        dtype_widen(stage->setting.config->accumulation_dtype, model_params, full, layout->buckets[bucket].count);
        for (size_t i = 0; i < layout->buckets[bucket].count; i++)
            full[i] /= stage->optimizer.divisor;
        if (moment->rank == 0)
            take(report, layout, bucket, full, now->grad);
    }
    return ERR_NONE;
}

static int collect_all(struct reference_report *report, const struct train_moment *moment)
{
    const struct layout *layout = &moment->stage->layout;
    size_t largest = 1;
    for (int i = 0; i < layout->bucket_count; i++)
        if (layout->buckets[i].padded_count > largest)
            largest = layout->buckets[i].padded_count;
    float *full = malloc(largest * sizeof *full), *model_params = malloc(largest * sizeof *model_params);
    int rc = full && model_params ? collect(report, moment, full, model_params)
                                  : err_set(ERR_MEMORY, "no memory to collect %zu elements", largest);
    free(full);
    free(model_params);
    return rc;
}

static void note_usage(struct reference_report *report, const struct train_moment *moment)
{
    static const enum ledger_kind kinds[USAGE_KIND_COUNT] = {[USAGE_PARAM] = KIND_PARAMETER,
                                                             [USAGE_GRAD] = KIND_GRADIENT,
                                                             [USAGE_OPTIMIZER] = KIND_OPTIMIZER,
                                                             [USAGE_MASTER] = KIND_MASTER,
                                                             [USAGE_PADDING] = KIND_PADDING};
    static const enum ledger_purpose purposes[USAGE_PURPOSE_COUNT] = {
        [USAGE_REDUCE] = PURPOSE_REDUCE, [USAGE_GATHER] = PURPOSE_GATHER};
    const struct ledger *ledger = moment->stage->setting.ledger;
    struct answer_usage *usage = &report->usage[moment->rank];
    *usage = (struct answer_usage){0};
    for (int kind = 0; kind < USAGE_KIND_COUNT; kind++)
        for (int tier = 0; tier < TIER_COUNT; tier++)
            usage->held_bytes[kind] += ledger->held_bytes[tier][kinds[kind]];
    for (int i = 0; i < USAGE_PURPOSE_COUNT; i++) {
        usage->sent_bytes[i] = ledger->sent_bytes[purposes[i]];
        usage->calls[i] = ledger->sent_count[purposes[i]];
    }
}

static int write_seen(const struct reference_report *report, int rank, int step)
{
    const void *const *seen[CASE_ACCUMULATION_MAX];
    for (int micro = 0; micro < report->c->accumulation; micro++)
        seen[micro] = scripted_seen(report->scripted, rank, micro);
    return answer_write_seen(report->c, report->folder, step, rank, seen);
}

// Rank 0: the step's file.
static int write_step(struct reference_report *report, const struct train_moment *moment, int step)
{
    const struct check_case *c = report->c;
    const struct optimizer *optimizer = &moment->stage->optimizer;
    struct answer_step state = is_late(c, step) ? report->before : report->now;
    state.skipped = !moment->applied;
    state.has_loss_scale = c->loss_scale.kind != SCALE_NONE;
    state.loss_scale = scaler_scale(&optimizer->scaler);
    state.has_grad = gives_gradient(report, moment);
    state.has_norm = moment->applied;
    state.norm = optimizer->norm;
    state.has_loss = state.has_tokens = c->has_tokens;
    state.loss = moment->loss;
    state.tokens = (uint64_t)optimizer->mean_count;
    return answer_write_step(c, report->folder, step, &state);
}

int reference_report_observe(struct reference_report *report, const struct train_moment *moment)
{
    int step = (int)moment->step + report->before_steps;
    bool begins = step < case_first_step(report->c);
    if (moment->rank == 0) {
        struct answer_step before = report->before;
        report->before = report->now;
        report->now = before;
        report->now.t = moment->stage->optimizer.step;
    }
    TRY(collect_all(report, moment));
    note_usage(report, moment);
    if (begins)
        return ERR_NONE;
    TRY(write_seen(report, moment->rank, step));
    return moment->rank == 0 ? write_step(report, moment, step) : ERR_NONE;
}

int reference_report_open(const struct check_case *c, const struct scripted *scripted, const char *folder,
                          int before_steps, struct comm *comm, struct reference_report **out)
{
    struct reference_report *report = *out = calloc(1, sizeof *report);
    if (!report)
        return err_set(ERR_MEMORY, "no memory for an answer");
    report->c = c;
    report->scripted = scripted;
    report->folder = folder;
    report->before_steps = before_steps;
    report->comm = comm;
    TRY(state_open(c, &report->now));
    return state_open(c, &report->before);
}

int reference_report_usage(struct reference_report *report)
{
    if (!report->comm)
        return answer_write_usage(report->c, report->folder, report->usage);
    const struct answer_usage *own = &report->usage[comm_rank(report->comm)];
    TRY(comm_all_gather_equal(report->comm, own, report->usage, sizeof *own));
    return comm_rank(report->comm) == 0 ? answer_write_usage(report->c, report->folder, report->usage) : ERR_NONE;
}

void reference_report_close(struct reference_report *report)
{
    if (!report)
        return;
    state_close(&report->now);
    state_close(&report->before);
    free(report);
}
