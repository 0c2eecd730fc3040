// SPDX-License-Identifier: Apache-2.0
// One case through a plug-in's table: its calls in the order of contract.h, and its answer.
#include "conformance/contract/plugin_internal.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "conformance/cases/case_folders.h"
#include "conformance/cases/case_mesh.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *message_of(struct plugin_run *run, char shown[TEXT_MESSAGE_BYTES])
{
    run->view.message[sizeof run->view.message - 1] = '\0';
    return text_message(shown, run->view.message, 300);
}

int plugin_result(struct plugin_run *run, const char *call, int result)
{
    char shown[TEXT_MESSAGE_BYTES];
    if (result == ZEROGAUGE_OK)
        return ERR_NONE;
    return err_set(ERR_CHECK, "%s returned %d%s%s", call, result, run->view.message[0] ? ": " : "",
                   message_of(run, shown));
}

// A state of one parameter. What may be missing, and is, leaves *is_there false.
static int read_state(struct plugin_run *run, enum zerogauge_state state, int param, bool may_be_missing, float *out,
                      bool *is_there)
{
    int result = run->table->read(run->context, (int32_t)state, param, out);
    *is_there = result == ZEROGAUGE_OK;
    return result == ZEROGAUGE_UNSUPPORTED && may_be_missing ? ERR_NONE : plugin_result(run, "read", result);
}

// The present state as an answer; shown points into run->now, where it is not NULL.
static int read_states(struct plugin_run *run, const struct zerogauge_outcome *outcome, struct answer_step *shown)
{
    const struct check_case *c = &run->c;
    *shown = (struct answer_step){.t = outcome->t,
                                  .skipped = outcome->skipped != 0,
                                  .has_loss_scale = c->loss_scale.kind != SCALE_NONE,
                                  .loss_scale = outcome->loss_scale,
                                  .has_norm = outcome->has_norm != 0,
                                  .norm = outcome->norm};
    for (int i = 0; i < c->param_count; i++) {
        bool is_there = true, is_there_too = true, unused = !c->params[i].used;
        if (case_owner(c, i) != i)
            continue;
        TRY(read_state(run, ZEROGAUGE_PARAM, i, false, run->now.param[i], &is_there));
        shown->param[i] = run->now.param[i];
        if (!case_is_trained(c, i))
            continue;
        TRY(read_state(run, ZEROGAUGE_EXP_AVG, i, unused, run->now.exp_avg[i], &is_there));
        TRY(read_state(run, ZEROGAUGE_EXP_AVG_SQ, i, unused, run->now.exp_avg_sq[i], &is_there_too));
        shown->exp_avg[i] = is_there ? run->now.exp_avg[i] : NULL;
        shown->exp_avg_sq[i] = is_there_too ? run->now.exp_avg_sq[i] : NULL;
        if (outcome->skipped)
            continue;
        TRY(read_state(run, ZEROGAUGE_GRAD, i, true, run->now.grad[i], &is_there));
        shown->grad[i] = is_there ? run->now.grad[i] : NULL;
        shown->has_grad |= is_there;
    }
    return ERR_NONE;
}

static int write_seen(struct plugin_run *run, int step)
{
    for (int rank = 0; rank < run->c.world && run->table->gives_seen; rank++) {
        const void *const *seen[CASE_ACCUMULATION_MAX];
        for (int micro = 0; micro < CASE_ACCUMULATION_MAX; micro++)
            seen[micro] = (const void *const *)run->seen[rank][micro];
        TRY(answer_write_seen(&run->c, run->answer, step, rank, seen));
    }
    return ERR_NONE;
}

static int answer_step_of(struct plugin_run *run, int step)
{
    struct zerogauge_outcome outcome = {0};
    struct answer_step shown;
    TRY(plugin_feed(run, step));
    TRY(plugin_result(run, "step", run->table->step(run->context, step, &outcome)));
    TRY(read_states(run, &outcome, &shown));
    TRY(answer_write_step(&run->c, run->answer, step, &shown));
    return write_seen(run, step);
}

static int write_usage(struct plugin_run *run)
{
    struct answer_usage usage[CASE_WORLD_MAX];
    for (int rank = 0; rank < run->c.world && run->table->usage; rank++) {
        struct zerogauge_usage reported;
        memset(&reported, 0xff, sizeof reported);
        TRY(plugin_result(run, "usage", run->table->usage(run->context, rank, &reported)));
        usage[rank] = (struct answer_usage){
            .held_bytes = {[USAGE_PARAM] = reported.held_param,
                           [USAGE_GRAD] = reported.held_grad,
                           [USAGE_OPTIMIZER] = reported.held_optimizer,
                           [USAGE_MASTER] = reported.held_master,
                           [USAGE_PADDING] = reported.held_padding},
            .sent_bytes = {[USAGE_REDUCE] = reported.sent_reduce, [USAGE_GATHER] = reported.sent_gather},
            .calls = {[USAGE_REDUCE] = reported.calls_reduce, [USAGE_GATHER] = reported.calls_gather}};
    }
    return run->table->usage ? answer_write_usage(&run->c, run->answer, usage) : ERR_NONE;
}

static int answer_steps(struct plugin_run *run)
{
    char store[PATH_MAX];
    const struct check_case *c = &run->c;
    if (c->phase != PHASE_WHOLE) {
        TRY(case_state_folder(c, run->state, store));
        TRY(file_make_folder(store));
    }
    if (c->phase == PHASE_RESUME)
        TRY(plugin_result(run, "load", run->table->load(run->context, store)));
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        int rc = answer_step_of(run, step);
        if (rc != ERR_NONE)
            return err_prefix(rc, "step %d", step);
    }
    if (c->phase == PHASE_SAVE)
        TRY(plugin_result(run, "save", run->table->save(run->context, store)));
    return write_usage(run);
}

static int decline(struct plugin_run *run, int result)
{
    static const char silent[] = "the plug-in does not say why";
    return answer_write_text(run->answer, result == ZEROGAUGE_REFUSED ? ANSWER_REFUSED : ANSWER_UNSUPPORTED,
                             run->view.message[0] ? run->view.message : silent);
}

// The part of a case that the interface has no place for; null: none.
static const char *unknown_part(const struct check_case *c)
{
    unsigned options = case_options(c);
    return case_has_mesh(c)                   ? "the plug-in interface has no meshes"
           : options >> OPTION_TOKEN_MEAN & 1 ? "the plug-in interface has no counts of tokens"
           : options >> OPTION_MUON & 1       ? "the plug-in interface has no Muon"
           : options >> OPTION_FP8_GATHER & 1 ? "the plug-in interface has no dtype of gathers"
                                              : NULL;
}

static int answer_case(struct plugin_run *run, int world)
{
    const struct check_case *c = &run->c;
    TRY(case_read(run->folder, &run->c));
    if (world > 0 && c->world != world)
        return err_set(ERR_USAGE, "is a case of world %d, in a run of world %d", c->world, world);
    if (unknown_part(c)) {
        TRY(file_make_folder(run->answer));
        return answer_write_text(run->answer, ANSWER_UNSUPPORTED, unknown_part(c));
    }
    TRY(plugin_view_open(c, run->folder, &run->view));
    TRY(plugin_arrays_open(run));
    TRY(file_make_folder(run->answer));
    if (c->phase != PHASE_WHOLE && !run->table->save)
        return answer_write_text(run->answer, ANSWER_UNSUPPORTED, "the plug-in has neither save nor load");
    if (c->phase != PHASE_RESUME)
        TRY(plugin_read_initial(run));
    const float *const *initial = c->phase == PHASE_RESUME ? NULL : (const float *const *)run->initial;
    int result = run->table->open(&run->view.c, initial, &run->context);
    if (result == ZEROGAUGE_UNSUPPORTED || result == ZEROGAUGE_REFUSED) {
        run->view.message[sizeof run->view.message - 1] = '\0';
        return decline(run, result);
    }
    TRY(plugin_result(run, "open", result));
    int rc = answer_steps(run);
    run->table->close(run->context);
    return rc;
}

int plugin_answer_case(const struct zerogauge_implementation *implementation, const char *case_folder,
                       const char *answer_folder, int world, const char *state)
{
    assert(implementation && case_folder && answer_folder && world >= 0);
    struct plugin_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a case");
    run->table = implementation;
    run->folder = case_folder;
    run->answer = answer_folder;
    run->state = state;
    int rc = answer_case(run, world);
    plugin_arrays_close(run);
    plugin_view_close(&run->view);
    free(run);
    return rc;
}
