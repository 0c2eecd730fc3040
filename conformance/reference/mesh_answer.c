// SPDX-License-Identifier: Apache-2.0
// A case on a mesh from its files to its answer, and its checkpoint: the whole states, which any mesh can take up.
#include "conformance/reference/mesh_ranks.h"

#include "base/err.h"
#include "base/file.h"
#include "conformance/cases/case_tokens.h"
#include "ref/checkpoint/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mesh_run {
    const struct check_case *c;
    const char *folder, *answer, *store;
    struct mesh_ranks *ranks;
    struct answer_step whole;
    float *gradient;                                                    // of one use
    void *seen[CASE_WORLD_MAX][CASE_ACCUMULATION_MAX][CASE_PARAM_MAX];  // as forward used it, in the precision
};

static int open_arrays(struct mesh_run *run)
{
    const struct check_case *c = run->c;
    size_t largest = 1;
    bool complete = true;
    for (int i = 0; i < c->param_count; i++) {
        size_t room = c->params[i].count + 1;
        largest = room > largest ? room : largest;
        float **const states[] = {&run->whole.param[i], &run->whole.exp_avg[i], &run->whole.exp_avg_sq[i],
                                  &run->whole.grad[i]};
        for (int k = 0; case_owner(c, i) == i && k < (case_is_trained(c, i) ? 4 : 1); k++)
            complete &= (*states[k] = calloc(room, sizeof(float))) != NULL;
        for (int rank = 0; rank < c->world; rank++)
            for (int micro = 0; micro < c->accumulation; micro++)
                complete &= (run->seen[rank][micro][i] = calloc(room, dtype_bytes(c->precision))) != NULL;
    }
    run->gradient = calloc(largest, sizeof *run->gradient);
    return complete && run->gradient ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the states of %s", c->name);
}

static int open_file(const char *folder, const char *format, int step, struct safetensors *out)
{
    char name[40], path[PATH_MAX];
    snprintf(name, sizeof name, format, step);
    TRY(file_join(folder, name, path));
    return safetensors_open(path, out);
}

static int read_tensor(const struct safetensors *file, const char *prefix, const char *name, size_t count, float *out)
{
    char text[CASE_TENSOR_BYTES];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    const struct safetensors_tensor *tensor = safetensors_find(file, text);
    if (!tensor || tensor->count != count)
        return err_set(ERR_USAGE, "%s: has no tensor \"%s\" of %zu elements", file->path, text, count);
    return safetensors_read_fp32(file, tensor, 0, count, out);
}

// Initial parameters, or those and the moments of the checkpoint.
static int read_states(struct mesh_run *run, const struct safetensors *file, bool resumes)
{
    const struct check_case *c = run->c;
    for (int i = 0; i < c->param_count; i++) {
        const char *name = c->params[i].name;
        if (case_owner(c, i) != i)
            continue;
        TRY(read_tensor(file, resumes ? "param/" : "", name, c->params[i].count, run->whole.param[i]));
        if (!resumes || !case_is_trained(c, i))
            continue;
        bool muon = case_is_muon(c, i);
        TRY(read_tensor(file, muon ? "momentum/" : "exp_avg/", name, c->params[i].count, run->whole.exp_avg[i]));
        if (!muon)
            TRY(read_tensor(file, "exp_avg_sq/", name, c->params[i].count, run->whole.exp_avg_sq[i]));
    }
    if (!resumes)
        return ERR_NONE;
    const struct safetensors_tensor *t = safetensors_find(file, "t");
    if (!t)
        return err_set(ERR_USAGE, "%s: has no tensor \"t\"", file->path);
    TRY(safetensors_read(file, t, 0, 1, &run->ranks->t));
    run->ranks->skipped = (uint64_t)c->checkpoint_step - run->ranks->t;
    return ERR_NONE;
}

static int begin(struct mesh_run *run)
{
    struct safetensors file;
    bool resumes = run->c->phase == PHASE_RESUME;
    TRY(resumes ? open_file(run->store, "step-%d.safetensors", run->c->checkpoint_step, &file)
                : open_file(run->folder, "init.safetensors", 0, &file));
    int rc = read_states(run, &file, resumes);
    safetensors_close(&file);
    TRY(rc);
    mesh_scatter(run->ranks, &run->whole);
    mesh_gather(run->ranks);
    return ERR_NONE;
}

// Stage 3 keeps only what it owns; the rest is there from one gather to the end of the micro-step.
static void release(struct mesh_run *run)
{
    for (int rank = 0; rank < run->c->world; rank++)
        for (int i = 0; i < run->c->param_count; i++) {
            struct mesh_part *part = &run->ranks->parts[rank][i];
            for (size_t k = 0; part->is_held && k < part->count; k++)
                if (k < part->begin || k >= part->end)
                    part->model[k] = NAN;
        }
}

// Forward and backward of one rank, use by use; one that the micro-step leaves out has a gradient of zero.
static int run_rank(struct mesh_run *run, const struct safetensors *file, int step, int micro, int rank)
{
    const struct check_case *c = run->c;
    bool has[CASE_PARAM_MAX] = {0};  // a gradient of this step
    float scale = (float)scaler_scale(&run->ranks->scaler);
    for (int use = 0; use < c->param_count; use++) {
        int owner = case_owner(c, use);
        const struct mesh_part *part = &run->ranks->parts[rank][owner];
        char name[CASE_TENSOR_BYTES];
        if (!case_holds(c, rank, use))
            continue;
        dtype_narrow(c->precision, part->model, run->seen[rank][micro][use], part->count);
        if (!case_is_used(c, use))
            continue;
        case_gradient_name(name, micro, rank, c->params[use].name);
        if (case_is_used_in(c, use, step, micro))
            TRY(read_tensor(file, "", name, part->count, run->gradient));
        else
            memset(run->gradient, 0, part->count * sizeof *run->gradient);
        mesh_add_gradient(run->ranks, rank, use, micro == 0 && !has[owner], scale, run->gradient);
        has[owner] = true;
    }
    return ERR_NONE;
}

static int run_micro_steps(struct mesh_run *run, const struct safetensors *file, int step)
{
    for (int micro = 0; micro < run->c->accumulation; micro++) {
        if (run->c->stage == 3)
            mesh_gather(run->ranks);
        for (int rank = 0; rank < run->c->world; rank++)
            TRY(run_rank(run, file, step, micro, rank));
        if (run->c->stage == 3)
            release(run);
    }
    return ERR_NONE;
}

static int write_answer(struct mesh_run *run, int step)
{
    const struct check_case *c = run->c;
    struct answer_step *whole = &run->whole;
    mesh_collect(run->ranks, whole);
    whole->t = run->ranks->t;
    whole->skipped = !run->ranks->applied;
    whole->has_loss_scale = c->loss_scale.kind != SCALE_NONE;
    whole->loss_scale = scaler_scale(&run->ranks->scaler);
    whole->has_grad = whole->has_norm = run->ranks->applied;
    whole->norm = run->ranks->norm;
    whole->has_tokens = c->has_tokens;
    whole->tokens = (uint64_t)run->ranks->mean_count;
    for (int rank = 0; rank < c->world; rank++) {
        const void *const *seen[CASE_ACCUMULATION_MAX];
        for (int micro = 0; micro < c->accumulation; micro++)
            seen[micro] = (const void *const *)run->seen[rank][micro];
        TRY(answer_write_seen(c, run->answer, step, rank, seen));
    }
    if (c->phase == PHASE_SAVE && step == c->checkpoint_step)
        TRY(answer_write_step(c, run->store, step, whole));
    return answer_write_step(c, run->answer, step, whole);
}

// Ranks of one tensor group, and the stages of a pipeline, have the same tokens: the first ones count.
static double count_tokens(const struct mesh_ranks *ranks, int step)
{
    const struct check_case *c = ranks->c;
    uint64_t sum = 0;
    for (int rank = 0; rank < c->world; rank++)
        for (int micro = 0; micro < c->accumulation; micro++)
            if (mesh_index_in(&ranks->mesh, MESH_TENSOR, rank) == 0 &&
                mesh_index_in(&ranks->mesh, MESH_PIPELINE, rank) == 0)
                sum += case_rank_tokens(c, step, micro, rank);
    return sum > 0 ? (double)sum : 1;
}

static int run_step(struct mesh_run *run, int step)
{
    struct safetensors file;
    TRY(open_file(run->folder, "grads-%d.safetensors", step, &file));
    int rc = run_micro_steps(run, &file, step);
    safetensors_close(&file);
    TRY(rc);
    if (run->c->has_tokens)
        run->ranks->mean_count = count_tokens(run->ranks, step);
    TRY(mesh_step(run->ranks));
    if (run->c->stage < 3)
        mesh_gather(run->ranks);
    return write_answer(run, step);
}

static int run_steps(struct mesh_run *run, const struct config *config)
{
    TRY(mesh_ranks_open(run->c, config, &run->ranks));
    TRY(open_arrays(run));
    if (run->c->phase == PHASE_SAVE)
        TRY(file_make_folder(run->store));
    TRY(begin(run));
    for (int step = case_first_step(run->c); step <= case_last_step(run->c); step++)
        TRY(run_step(run, step));
    return ERR_NONE;
}

static void close_run(struct mesh_run *run)
{
    answer_step_close(&run->whole);
    mesh_ranks_close(run->ranks);
    free(run->gradient);
    for (int rank = 0; rank < CASE_WORLD_MAX; rank++)
        for (int micro = 0; micro < CASE_ACCUMULATION_MAX; micro++)
            for (int i = 0; i < CASE_PARAM_MAX; i++)
                free(run->seen[rank][micro][i]);
    free(run);
}

// Names a feature of the case that is not here; null if there is none.
static const char *missing(const struct check_case *c, const struct config *config)
{
    if (c->offload_optimizer != TIER_DEVICE || c->offload_param != TIER_DEVICE)
        return "offload on a mesh of tensor ranks, stages or experts";
    for (int i = 0; i < c->group_count; i++)
        if (c->groups[i].muon && (config->master_dtype != DTYPE_FP32 || config->moment_dtype != DTYPE_FP32))
            return "Muon with states of 16 bits";
    if (c->delayed_update > 0)
        return "the delayed update on a mesh of tensor ranks, stages or experts";
    return c->phase != PHASE_WHOLE && (c->loss_scale.kind == SCALE_DYNAMIC || c->overflow_check || c->weights_only)
               ? "a checkpoint of a loss scale, or of weights alone, on a mesh of tensor ranks, stages or experts"
               : NULL;
}

bool mesh_has_checkpoint(const struct check_case *c, const char *store)
{
    char name[40], path[PATH_MAX];
    snprintf(name, sizeof name, "step-%d.safetensors", c->checkpoint_step);
    return file_join(store, name, path) == ERR_NONE && access(path, R_OK) == 0;
}

int mesh_answer(const struct check_case *c, const struct config *config, const char *folder, const char *answer,
                const char *store)
{
    if (missing(c, config))
        return answer_write_text(answer, ANSWER_UNSUPPORTED, missing(c, config));
    struct mesh_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a case");
    run->c = c;
    run->folder = folder;
    run->answer = answer;
    run->store = store;
    int rc = run_steps(run, config);
    close_run(run);
    return rc;
}
